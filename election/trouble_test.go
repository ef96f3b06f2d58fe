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

// This file tests the known bugs of Curator's LeaderLatch and LeaderSelector
// that other files do not cover. The numbers are those of
// docs/curator-behaviours.md.

// FIELD 61: however often a Run loses its term, it has at most one entry.
func TestRunIsQueuedOnce(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		// No stage: an operator can expire a session without notice, and two
		// works may overlap for a moment.
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
		ra.end()
		rb.end()
	})
}

// FIELD 71: no error before the first candidate, nor when one leaves during a
// listing.
func TestListingToleratesArrivalsAndDepartures(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		unused, err := election.New(p[0].client, "no/candidates")
		must(t, err)
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
		ra.end()
		rb.end()
	})
}

// FIELD 75: a session that ends while the candidate waits, and a service that
// does not answer, do not end Run.
func TestRunContinuesAfterFaultsWhileItWaits(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		var s stage
		term := b.campaign()
		var reported notes[error]
		r := a.run(a.until(&s), election.WithOnError(reported.add))
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
		if !slices.Equal(s.working(), []string{"a"}) || len(reported.get()) < 2 {
			t.Errorf("%v work, reported %v", s.working(), reported.get())
		}
		r.end()
	})
}

// FIELD 78: Run calls no work for a term that was lost before, nor after the
// end of its context.
func TestTermOverBeforeTheWorkBeganRunsNoWork(t *testing.T) {
	for _, c := range []struct{ lost, stopped bool }{{true, false}, {false, true}, {true, true}} {
		parties(t, 1, func(t *testing.T, p ...party) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			first := true
			// The call that wins the grant notifies observers before it
			// returns.
			a := join(t, p[0].svc, "a",
				coordinator.WithObserver(event.DirectFunc(func(e event.Event) {
					if e.Kind != event.Granted || !first {
						return
					}
					first = false
					if c.stopped {
						stop(errMine)
					}
					if c.lost {
						p[0].svc.Expire(e.Session)
						time.Sleep(time.Millisecond) // the client notices it
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
			must(t, a.client.Close(t.Context()))
		})
	}
}

// TestRunDoesNotCloseTheClient, which belongs to the caller. FIELD 84.
func TestRunDoesNotCloseTheClient(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		mine := a.campaign()
		other, err := election.New(a.client, "other")
		must(t, err)
		for _, end := range []error{nil, errMine} {
			if err := other.Run(t.Context(),
				func(context.Context, *election.Term) error { return election.Stop(end) }); !errors.Is(err, end) {
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
