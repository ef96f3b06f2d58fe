package election_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/election"
)

// This file has a test for each known bug of Curator's LeaderSelector that Run can have and that no other
// file covers. The numbers are the queues of the list in docs/curator-behaviours.md.

// FIELD 75: a session that ends while the candidate waits, and a service that does not answer, do not end Run.
func TestRunOutlivesTroubleWhileItWaits(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		var s stage
		term := b.campaign()
		var told notes[error]
		r := a.run(a.until(&s), election.WithOnError(told.add))
		a.svc.Expire(a.session().ID())
		sleep(time.Second)
		if n := len(a.svc.Snapshot(queue)); n != 2 {
			t.Errorf("after the expiry: %d in the queue", n)
		}
		a.svc.Remove(queue, a.svc.Snapshot(queue)[1].Key) // noticed when the leader goes
		a.link.Cut()
		time.Sleep(time.Minute)
		a.link.Reset()
		a.link.Heal()
		sleep(time.Minute)
		b.resign(term)
		sleep(time.Minute)
		if !slices.Equal(s.working(), []string{"a"}) || len(told.get()) < 2 {
			t.Errorf("%v work, told %v", s.working(), told.get())
		}
		r.stop(nil)
		_ = r.ended()
	})
}

// FIELD 78: a term that was lost before the work began runs no work, and nor does one that begins when Run is to end.
func TestTermOverBeforeTheWorkBeganRunsNoWork(t *testing.T) {
	for _, c := range []struct{ lost, stopped bool }{{true, false}, {false, true}, {true, true}} {
		parties(t, 1, func(t *testing.T, p ...party) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			first := true
			// Observers are told of the grant by the very call that wins it, before it returns.
			a := join(t, p[0].svc, "a", coordinator.WithObserver(event.ObserverFunc(func(e event.Event) {
				if e.Kind != event.Granted || !first {
					return
				}
				first = false
				if c.stopped {
					stop(errMine)
				}
				if c.lost {
					p[0].svc.Expire(e.Session)
					time.Sleep(time.Millisecond) // and it is known here
				}
			})))
			worked := 0
			err := a.e.Run(ctx, func(ctx context.Context, term *election.Term) error {
				if worked++; ctx.Err() != nil || term.Err() != nil {
					t.Errorf("work began with %v, %v", ctx.Err(), term.Err())
				}
				return nil
			})
			if c.stopped && (!errors.Is(err, errMine) || worked != 0) || !c.stopped && (err != nil || worked != 1) {
				t.Errorf("%+v: Run = %v, worked %d times", c, err, worked)
			}
			if left := a.svc.Snapshot(queue); len(left) != 0 {
				t.Errorf("%+v: left %v", c, left)
			}
			if err := a.client.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRunLeavesTheClientToItsOwner. FIELD 84: what the user gave is the user's to end.
func TestRunLeavesTheClientToItsOwner(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		mine := a.campaign()
		other, err := election.New(a.client, "other")
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []error{nil, errMine} {
			if err := other.Run(t.Context(), func(context.Context, *election.Term) error { return end }); !errors.Is(err, end) {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if mine.Err() != nil {
			t.Errorf("another term of the client: %v", mine.Err())
		}
		a.resign(mine)
	})
}
