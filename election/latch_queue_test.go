package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
)

// This file and latch_test.go have a test for each known bug of Curator's LeaderLatch that an election can have and
// that no other file covers. The numbers are the queues of the list in docs/curator-behaviours.md.

// FIELD 60: closing while a join is under way leaves no entry.
func TestCandidateThatEndsWhileItsJoinIsUnderWayLeavesNothing(t *testing.T) {
	ways := map[string]func(p party, cancel func()){
		"its context ends": func(_ party, cancel func()) { cancel() },
		"the client is closed": func(p party, _ func()) {
			if err := p.client.Close(p.Context()); err != nil {
				p.Error(err)
			}
		},
	}
	for name, end := range ways {
		parties(t, 1, func(t *testing.T, p ...party) {
			a := p[0]
			a.session()
			a.link.Delay(time.Second, time.Second)
			for _, moment := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} { // before and after it arrives
				ctx, cancel := context.WithCancel(t.Context())
				c := a.stand(ctx)
				time.Sleep(moment)
				end(a, cancel)
				if <-c.done; c.err == nil {
					t.Errorf("%s after %v: Campaign went on", name, moment)
				}
				sleep(time.Minute)
				if left := a.svc.Snapshot(queue); len(left) != 0 {
					t.Errorf("%s after %v: left %v", name, moment, left)
				}
				cancel()
			}
		})
	}
}

// FIELD 61: however often it loses its term, one Run has one entry at most.
func TestRunIsQueuedOnce(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		// An operator's hand is not announced: for a moment of no length two may think that they lead, so no stage.
		ra, rb := a.run(idle), b.run(idle)
		for i := range 20 {
			a.svc.Expire(a.session().ID())
			if i%3 == 0 {
				a.svc.Expire(a.session().ID()) // the next one too
			}
			for range 50 {
				sleep(100 * time.Millisecond)
				entries := a.svc.Snapshot(queue)
				if len(entries) > 2 || len(entries) == 2 && entries[0].Session == entries[1].Session {
					t.Fatalf("in the queue: %v", entries)
				}
			}
		}
		ra.stop(nil)
		rb.stop(nil)
		_, _ = ra.ended(), rb.ended()
	})
}

// FIELD 62: the late reply to a join that was given up neither takes the place of the next one nor deletes it.
func TestLateReplyToAnEarlierCampaignDoesNotTouchTheNext(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		a.session()
		first := true
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin && first {
				first = false
				return memory.Fate{DelayRequest: time.Second, DelayReply: time.Second}
			}
			return memory.Fate{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := a.e.Campaign(ctx, nil); err == nil {
			t.Error("Campaign outlived its context")
		}
		term := a.campaign()
		c := b.stand(t.Context())
		time.Sleep(time.Minute)
		if term.Err() != nil || len(a.svc.Snapshot(queue)) != 2 {
			t.Errorf("%v, in the queue: %v", term.Err(), a.svc.Snapshot(queue))
		}
		c.pending(t)
		a.resign(term)
		b.resign(c.won(t))
	})
}

// FIELD 63: whoever starts before the service does is elected when it is there, and can be closed before.
func TestCandidateMayStartBeforeTheService(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		a.svc.Stop()
		c, d := a.stand(t.Context()), b.stand(t.Context())
		time.Sleep(10 * time.Minute)
		if err := b.client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if <-d.done; !errors.Is(d.err, coordinator.ErrClosed) {
			t.Errorf("closed: %v", d.err)
		}
		c.pending(t)
		a.svc.Start()
		a.resign(c.won(t))
	})
}

// FIELD 64: after an outage that no session died of, everything is as before: nobody resigns, joins again or is elected.
func TestShortOutageChangesNothing(t *testing.T) {
	parties(t, 4, func(t *testing.T, p ...party) {
		var s stage
		var runs []*runner
		for _, q := range p {
			runs = append(runs, q.run(q.until(&s)))
		}
		before := p[0].svc.Snapshot(queue)
		joins := p[0].svc.Stats().Requests[memory.OpJoin]
		for range 5 {
			p[0].svc.Stop()
			time.Sleep(3 * time.Second)
			p[0].svc.Start()
			time.Sleep(10 * time.Second)
		}
		after := p[0].svc.Snapshot(queue)
		if len(after) != 4 || after[0].Token != before[0].Token || after[3].Token != before[3].Token || len(s.worked()) != 1 ||
			p[0].svc.Stats().Requests[memory.OpJoin] != joins {
			t.Errorf("before: %v, after: %v, worked: %v", before, after, s.worked())
		}
		for _, r := range runs {
			r.stop(nil)
			_ = r.ended()
		}
	})
}

// FIELD 65: the predecessor goes between the look and the watch: look again, from the same place.
func TestPredecessorGoneBetweenLookAndWatch(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		a, b, c := p[0], p[1], p[2]
		term := a.campaign()
		ctx, cancel := context.WithCancel(t.Context())
		middle := b.stand(ctx)
		c.session()
		once := false
		c.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpWatch && r.Driver == c.link && !once {
				once = true
				cancel() // the one in the middle
				return memory.Fate{DelayRequest: time.Second}
			}
			return memory.Fate{}
		})
		last := c.stand(t.Context())
		<-middle.done
		sleep(2 * time.Second)
		last.pending(t)
		entries := c.svc.Snapshot(queue)
		a.resign(term)
		if won := last.won(t); len(entries) != 2 || won.Token() != entries[1].Token {
			t.Errorf("elected with token %d, stood in %v", won.Token(), entries)
		} else {
			c.resign(won)
		}
	})
}

// FIELD 67: a grant that arrives when the session that was queued is over is no term, and nor is one
// that stands on the client's next session.
func TestGrantOfADeadSessionIsNoTerm(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		c := b.stand(t.Context())
		old := b.session().ID()
		b.link.HoldReplies() // b hears nothing: of the hand-over neither, nor of renewals
		a.resign(term)
		time.Sleep(time.Minute)
		b.link.Heal()
		if <-c.done; !errors.Is(c.err, coordinator.ErrSessionLost) {
			t.Errorf("Campaign = %v", c.err)
		}
		again := b.campaign()
		if again.Session() == old || again.Session() != b.session().ID() {
			t.Errorf("leads by %s; was %s, is %s", again.Session(), old, b.session().ID())
		}
		if l, err := a.e.Leader(t.Context()); err != nil || l.Session != again.Session() || l.Token != again.Token() {
			t.Errorf("%+v, %v", l, err)
		}
		b.resign(again)
	})
}
