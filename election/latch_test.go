package election_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
)

// This file goes on with the known bugs of Curator's LeaderLatch.

// FIELD 69: a candidate that leaves, dies or is deleted promotes nobody.
func TestCandidateThatGoesPromotesNobody(t *testing.T) {
	ways := map[string]func(p party, cancel func()){
		"leaves":  func(_ party, cancel func()) { cancel() },
		"dies":    func(p party, _ func()) { p.svc.Expire(p.session().ID()) },
		"deleted": func(p party, _ func()) { p.svc.Remove(queue, p.svc.Snapshot(queue)[1].Key) },
		"cut off": func(p party, _ func()) { p.link.Cut(); time.Sleep(time.Minute) },
	}
	for name, goes := range ways {
		parties(t, 4, func(t *testing.T, p ...party) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			term := p[0].campaign()
			p[1].stand(ctx)
			third, fourth := p[2].stand(t.Context()), p[3].stand(t.Context())
			goes(p[1], cancel)
			sleep(time.Minute)
			third.pending(t)
			fourth.pending(t)
			if term.Err() != nil {
				t.Errorf("%s: %v", name, term.Err())
			}
			p[0].resign(term)
			p[2].resign(third.won(t))
			p[3].resign(fourth.won(t))
		})
	}
}

// FIELD 70: closing tells everybody: leader, candidate and observer.
func TestCloseEndsTermsCandidatesAndObservers(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		term := a.campaign()
		c, v := a.stand(t.Context()), a.observe()
		if err := a.client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-term.Context().Done()
		<-c.done
		<-v.done
		for what, err := range map[string]error{
			"term": context.Cause(term.Context()), "candidate": c.err, "observer": v.err, "resign": term.Resign(t.Context()),
		} {
			if !errors.Is(err, coordinator.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if st := a.svc.Stats(); st.Entries != 0 || st.Watches != 0 || st.Sessions != 0 {
			t.Errorf("left: %+v", st)
		}
	})
}

// FIELD 71: nobody was ever here, or somebody goes while others look: no errors.
func TestListingToleratesComingAndGoing(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		unused, err := election.New(p[0].client, "nobody/was/here")
		if err != nil {
			t.Fatal(err)
		}
		if list, err := unused.Candidates(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
		if _, err := unused.Leader(t.Context()); !errors.Is(err, election.ErrNoLeader) {
			t.Error(err)
		}
		p[2].link.Delay(time.Millisecond, time.Millisecond)
		stepping := func(ctx context.Context, _ *election.Term) error {
			select {
			case <-time.After(3 * time.Millisecond):
			case <-ctx.Done():
			}
			return election.ErrStepDown
		}
		ra, rb := p[0].run(stepping), p[1].run(stepping)
		for range 1000 {
			if _, err := p[2].e.Candidates(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := p[2].e.Leader(t.Context()); err != nil && !errors.Is(err, election.ErrNoLeader) {
				t.Error(err)
			}
		}
		ra.stop(nil)
		rb.stop(nil)
		_, _ = ra.ended(), rb.ended()
	})
}

// FIELD 72: what others see is the entry by which leadership was won, from the first moment to the last.
func TestTermIsTheEntryThatLeads(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		a, b, c := p[0], p[1], p[2]
		r := a.run(func(ctx context.Context, term *election.Term) error {
			for range 2 {
				l, err := c.e.Leader(c.Context())
				if err != nil || l.Token != term.Token() || l.Session != term.Session() {
					t.Errorf("%+v, %v; token %d of session %s", l, err, term.Token(), term.Session())
				}
				if <-ctx.Done(); term.Err() != nil {
					return nil
				}
			}
			return nil
		})
		waiting := b.stand(t.Context())
		for range 3 { // a loses its term while b stands ahead of its next entry
			a.svc.Expire(a.session().ID())
			b.resign(waiting.won(t))
			sleep(30 * time.Second)
			waiting = b.stand(t.Context())
		}
		r.stop(nil)
		_ = r.ended()
		b.resign(waiting.won(t))
	})
}

// FIELD 73: changes come in order, in the caller's own goroutine.
func TestObserversSeeTermsInOrder(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		p[2].link.Delay(time.Millisecond, 2*time.Millisecond)
		v := p[2].observe()
		stepping := func(ctx context.Context, _ *election.Term) error {
			select {
			case <-time.After(7 * time.Millisecond):
			case <-ctx.Done():
			}
			return election.ErrStepDown
		}
		pauses := election.WithPause(time.Millisecond, time.Millisecond)
		ra, rb := p[0].run(stepping, pauses), p[1].run(stepping, pauses)
		sleep(time.Second)
		ra.stop(nil)
		rb.stop(nil)
		_, _ = ra.ended(), rb.ended()
		sleep(time.Second)
		v.mu.Lock()
		var last coordinator.Token
		for _, l := range v.seen {
			if l.Token != 0 && l.Token < last {
				t.Errorf("token %d after %d", l.Token, last)
			}
			last = max(last, l.Token)
		}
		if n := len(v.seen); n < 50 || !v.seen[n-1].IsZero() {
			t.Errorf("shown %d, the last is %+v", n, v.seen[n-1])
		}
		v.mu.Unlock()
		v.stop(nil)
		<-v.done
	})
}

// FIELD 74 and 83: the service goes away again and again, for short and for long: never two leaders, and in the
// end there is one.
func TestRestartsOfTheServiceGiveOneLeader(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		var s stage
		var runs []*runner
		for _, q := range p {
			// Or else the end of a lost session reaches the next leader in the instant in which the work is told.
			q.link.Delay(time.Millisecond, time.Millisecond)
			runs = append(runs, q.run(q.until(&s)))
		}
		for i := range 20 {
			p[0].svc.Stop()
			time.Sleep(time.Duration(1+i) * time.Second)
			p[0].svc.Start()
			time.Sleep(time.Duration(1+i%4) * 5 * time.Second)
		}
		sleep(time.Minute)
		if len(s.working()) != 1 || len(s.worked()) < 3 || !slices.IsSorted(s.tokens) {
			t.Errorf("%v work, worked: %v", s.working(), s.worked())
		}
		for _, r := range runs {
			r.stop(nil)
			_ = r.ended()
		}
		synctest.Wait()
	})
}
