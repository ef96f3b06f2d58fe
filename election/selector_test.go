package election_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
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

// FIELD 77: work that was interrupted is run again, and nothing of the interruption is left in its next context.
func TestWorkOfTheNextTermHasALiveContext(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		terms := 0
		err := a.e.Run(t.Context(), func(ctx context.Context, term *election.Term) error {
			if terms++; ctx.Err() != nil || context.Cause(ctx) != nil || term.Err() != nil {
				t.Errorf("term %d begins with %v, %v", terms, context.Cause(ctx), term.Err())
			}
			if terms == 5 {
				return nil
			}
			a.svc.Expire(term.Session())
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil || terms != 5 {
			t.Errorf("Run = %v after %d terms", err, terms)
		}
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

// FIELD 79: ending a term twice does not end the next one, nor its campaign.
func TestSecondResignDoesNotTouchTheNextCampaign(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		first, waiting := a.campaign(), b.stand(t.Context())
		a.resign(first)
		next := a.stand(t.Context())
		if err := first.Resign(t.Context()); !errors.Is(err, coordinator.ErrNotHeld) {
			t.Errorf("second Resign = %v", err)
		}
		next.pending(t)
		b.resign(waiting.won(t))
		second := next.won(t)
		if err := first.Resign(t.Context()); !errors.Is(err, coordinator.ErrNotHeld) || second.Err() != nil {
			t.Errorf("third Resign = %v; the next term: %v", err, second.Err())
		}
		a.resign(second)
	})
}

// FIELD 80: whoever has seen its term end can campaign at once.
func TestCampaignAsSoonAsTheTermHasEnded(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		ends := []func(*election.Term){
			func(term *election.Term) { a.resign(term) },
			func(term *election.Term) { a.svc.Expire(term.Session()) },
			func(*election.Term) { a.svc.Remove(queue, a.svc.Snapshot(queue)[0].Key) },
		}
		for i, end := range ends {
			term := a.campaign()
			sleep(time.Second)
			won := make(chan *election.Term, 1)
			context.AfterFunc(term.Context(), func() {
				next, err := a.e.Campaign(t.Context(), nil)
				if err != nil {
					t.Errorf("way %d: %v", i, err)
				}
				won <- next
			})
			end(term)
			next := <-won
			if next == nil || next.Err() != nil || next.Token() <= term.Token() {
				t.Fatalf("way %d: %v", i, next)
			}
			a.resign(next)
		}
	})
}

// FIELD 81: what was not won, or was lost, is not given back: the leader of now stays.
func TestResignOfALostTermLeavesTheNextLeaderAlone(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		lost := a.campaign()
		a.svc.Expire(lost.Session())
		next := b.campaign()
		leaves := a.svc.Stats().Requests[memory.OpLeave]
		for _, want := range []error{coordinator.ErrSessionLost, coordinator.ErrNotHeld} {
			if err := lost.Resign(t.Context()); !errors.Is(err, want) {
				t.Errorf("Resign = %v, want %v", err, want)
			}
		}
		if next.Err() != nil || a.svc.Stats().Requests[memory.OpLeave] != leaves || len(a.svc.Snapshot(queue)) != 1 {
			t.Errorf("the next leader: %v", next.Err())
		}
		b.resign(next)
	})
}

// FIELD 82: resigning works when the context is dead.
func TestResignWithADeadContext(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		ctx, cancel := context.WithCancel(t.Context())
		term, err := a.e.Campaign(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		waiting := b.stand(t.Context())
		cancel()
		if err := term.Resign(ctx); err != nil {
			t.Errorf("Resign = %v", err)
		}
		b.resign(waiting.won(t))
	})
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
