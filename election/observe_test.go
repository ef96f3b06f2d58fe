package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// view is an Observe under way, and what it has shown.
type view struct {
	mu   sync.Mutex
	seen []election.Leader
	err  error
	stop context.CancelCauseFunc
	done chan struct{}
}

// observe follows the leader beside the test, and returns when all is quiet.
func (p party) observe() *view {
	ctx, stop := context.WithCancelCause(p.Context())
	v := &view{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(v.done)
		for l, err := range p.e.Observe(ctx) {
			v.mu.Lock()
			if err != nil {
				v.err = err
			} else {
				v.seen = append(v.seen, l)
			}
			v.mu.Unlock()
		}
	}()
	synctest.Wait()
	return v
}

// take returns what was shown since the last take, as "identity:value", and "-" for nobody.
func (v *view) take() []string {
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	var s []string
	for _, l := range v.seen {
		if l.IsZero() {
			s = append(s, "-")
		} else {
			s = append(s, l.Identity+":"+string(l.Value))
		}
	}
	v.seen = nil
	return s
}

func (v *view) want(t *testing.T, want ...string) {
	t.Helper()
	if got := v.take(); !slices.Equal(got, want) {
		t.Errorf("shown %q, want %q", got, want)
	}
}

func TestObserveShowsThePresentAndThenEachChange(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		v := p[2].observe()
		v.want(t, "-")
		term := p[0].campaign()
		v.want(t, "a:a")
		c := p[1].stand(t.Context())
		v.want(t) // a candidate is no change
		if err := term.Proclaim(t.Context(), []byte("two")); err != nil {
			t.Error(err)
		}
		v.want(t, "a:two")
		p[0].resign(term)
		v.want(t, "b:b") // a hand-over is one step
		late := p[0].observe()
		late.want(t, "b:b")
		p[1].resign(c.won(t))
		v.want(t, "-")
		late.want(t, "-")
		mine := errors.New("mine")
		v.stop(mine)
		late.stop(nil)
		if <-v.done; v.err != mine { //nolint:errorlint // itself
			t.Errorf("ended with %v", v.err)
		}
		if <-late.done; !errors.Is(late.err, context.Canceled) {
			t.Errorf("ended with %v", late.err)
		}
		synctest.Wait()
		if n := p[0].svc.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

func TestObserverWhoIsBusySeesTheLastChange(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		go func() {
			time.Sleep(time.Second)
			for i := range 10 {
				if err := term.Proclaim(a.Context(), fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
			}
		}()
		shown := 0
		for l, err := range b.e.Observe(b.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			shown++
			if string(l.Value) == "9" {
				break
			}
			time.Sleep(time.Minute) // meanwhile all ten
		}
		if shown != 2 {
			t.Errorf("shown %d times, want the present and the last", shown)
		}
		synctest.Wait()
		if n := b.link.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left after the loop", n)
		}
		a.resign(term)
	})
}

func TestObserveOutlivesItsSession(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		v := b.observe()
		v.want(t, "a:a")
		b.svc.Expire(b.session().ID())
		v.want(t) // the same leader is no news on the new session
		if err := term.Proclaim(t.Context(), []byte("two")); err != nil {
			t.Error(err)
		}
		v.want(t, "a:two")

		b.link.Cut()
		a.resign(term)
		again := a.campaign()
		time.Sleep(time.Minute) // the observer's session is lost, and what it was told is held
		v.want(t)
		b.link.Reset()
		b.link.Heal()
		time.Sleep(time.Second)
		if got := v.take(); len(got) == 0 || got[len(got)-1] != "a:a" {
			t.Errorf("shown %q", got)
		}
		a.resign(again)
		v.want(t, "-")
		v.stop(nil)
		<-v.done
	})
}

func TestObserveOutlivesRestartsOfTheService(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		v := b.observe()
		v.want(t, "a:a")
		for _, outage := range []time.Duration{time.Second, time.Minute} {
			a.svc.Stop()
			time.Sleep(outage)
			v.want(t)
			a.svc.Start()
			time.Sleep(time.Second)
			if term.Err() != nil { // the longer one cost the session
				time.Sleep(time.Minute)
				term = a.campaign()
				if got := v.take(); len(got) == 0 || got[len(got)-1] != "a:a" {
					t.Errorf("after %v: %q", outage, got)
				}
				continue
			}
			v.want(t)
			if err := term.Proclaim(t.Context(), []byte("two")); err != nil {
				t.Error(err)
			}
			v.want(t, "a:two")
		}
		a.resign(term)
		v.stop(nil)
		<-v.done
	})
}

func TestObserveEndsOnceWithAnErrorItDoesNotOutlive(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		p[0].svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpHead && r.Driver == p[1].link {
				return memory.Fate{Err: driver.Wrap(driver.ErrRefused, errors.New("no permission"))}
			}
			return memory.Fate{}
		})
		refused := p[1].observe()
		if <-refused.done; !errors.Is(refused.err, coordinator.ErrRefused) || !strings.Contains(refused.err.Error(), "jobs") {
			t.Errorf("refused: %v", refused.err)
		}
		refused.want(t)

		closed := p[2].observe()
		if err := p[2].client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if <-closed.done; !errors.Is(closed.err, coordinator.ErrClosed) {
			t.Errorf("closed: %v", closed.err)
		}
		p[0].svc.Stop()
		away := p[0].observe()
		time.Sleep(time.Minute)
		away.stop(nil)
		if <-away.done; !errors.Is(away.err, coordinator.ErrUnavailable) || !errors.Is(away.err, context.Canceled) {
			t.Errorf("away: %v", away.err)
		}
		p[0].svc.Start()
	})
}

// TestChangeWakesOneCandidateAndEveryObserverOnce: whatever their number. It is what "watches one entry" means.
func TestChangeWakesOneCandidateAndEveryObserverOnce(t *testing.T) {
	const n = 100
	parties(t, 4, func(t *testing.T, p ...party) {
		svc := p[0].svc
		term := p[0].campaign()
		ctx, give := context.WithCancel(t.Context())
		var waiting []*candidate
		for i := range n {
			waiting = append(waiting, p[i%4].stand(ctx))
		}
		var views []*view
		for i := range n {
			views = append(views, p[i%4].observe())
		}
		time.Sleep(2 * time.Second) // the leader and the candidates watch their own entries by now
		if got := svc.Stats().Watches; got != 3*n+1 {
			t.Errorf("%d watches of %d observers, %d candidates and a leader", got, n, n)
		}
		count := func(what string, wakeups, requests int, f func()) {
			t.Helper()
			before := svc.Stats()
			f()
			synctest.Wait()
			after := svc.Stats()
			w, r := after.Wakeups-before.Wakeups, after.Total()-before.Total()
			if what == "hand-over" && w == wakeups+1 {
				w-- // the leader's watch of its own entry fires as well, if the withdrawal of it comes later than the resignation
			}
			if w != wakeups || r != requests {
				t.Errorf("%s: %d wake-ups and %d requests, want %d and %d", what, w, r, wakeups, requests)
			}
		}
		count("proclaim", n, n+1, func() {
			if err := term.Proclaim(t.Context(), []byte("two")); err != nil {
				t.Error(err)
			}
		})
		// One leaves, one is told so, the observers wait again.
		count("hand-over", n+1, n+1, func() { p[0].resign(term) })
		next := waiting[0].won(t)
		time.Sleep(2 * time.Second)
		// The one behind the candidate in the middle looks, and watches the one before it. That one looks, asks for its session, and leaves.
		count("candidate removed", 2, 5, func() { svc.Remove(queue, svc.Snapshot(queue)[n/2].Key) })
		give()
		p[1%4].resign(next)
		for _, v := range views {
			v.stop(nil)
			<-v.done
		}
	})
}
