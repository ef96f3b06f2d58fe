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

// This file has a test for each known bug of Curator's
// LeaderLatch and LeaderSelector that an election can have and that no other
// file covers. The numbers are those of docs/curator-behaviours.md.

// FIELD 61: however often it loses its term, one Run has one entry at most.
func TestRunIsQueuedOnce(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		// An operator's hand is not announced: for a moment of no length two
		// may think that they lead, so no stage.
		ra, rb := a.run(idle), b.run(idle)
		for i := range 20 {
			a.svc.Expire(a.session().ID())
			if i%3 == 0 {
				a.svc.Expire(a.session().ID()) // the next one too
			}
			for range 50 {
				sleep(100 * time.Millisecond)
				entries := a.svc.Snapshot(queue)
				if len(entries) > 2 ||
					len(entries) == 2 && entries[0].Session == entries[1].Session {
					t.Fatalf("in the queue: %v", entries)
				}
			}
		}
		ra.stop(nil)
		rb.stop(nil)
		_, _ = ra.ended(), rb.ended()
	})
}

// FIELD 71: nobody was ever here, or somebody goes while others look: no
// errors.
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
			if _, err := p[2].e.Leader(t.Context()); err != nil &&
				!errors.Is(err, election.ErrNoLeader) {
				t.Error(err)
			}
		}
		ra.stop(nil)
		rb.stop(nil)
		_, _ = ra.ended(), rb.ended()
	})
}

// FIELD 75: a session that ends while the candidate waits, and a service that
// does not answer, do not end Run.
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

// FIELD 78: a term that was lost before the work began runs no work, and nor
// does one that begins when Run is to end.
func TestTermOverBeforeTheWorkBeganRunsNoWork(t *testing.T) {
	for _, c := range []struct{ lost, stopped bool }{{true, false}, {false, true}, {true, true}} {
		parties(t, 1, func(t *testing.T, p ...party) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			first := true
			// Observers are told of the grant by the very call that wins it,
			// before it returns.
			a := join(t, p[0].svc, "a",
				coordinator.WithObserver(event.ObserverFunc(func(e event.Event) {
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
			if c.stopped && (!errors.Is(err, errMine) || worked != 0) ||
				!c.stopped && (err != nil || worked != 1) {
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

// TestRunLeavesTheClientToItsOwner. FIELD 84: what the user gave is the user's
// to end.
func TestRunLeavesTheClientToItsOwner(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		mine := a.campaign()
		other, err := election.New(a.client, "other")
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []error{nil, errMine} {
			if err := other.Run(t.Context(),
				func(context.Context, *election.Term) error { return end }); !errors.Is(err, end) {
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
