package mutex_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// TestWaitCancelledWithOneOfOurErrorsReturnsThatErrorItself: an errgroup hands the first error of its members to the
// others, as their contexts' cause.
func TestWaitCancelledWithOneOfOurErrorsReturnsThatErrorItself(t *testing.T) {
	for _, cause := range []error{
		&recipes.TakenError{Op: "try-lock", Name: "jobs"},
		&coordinator.Error{Op: "unlock", Name: "jobs", Err: coordinator.ErrNotHeld, Maybe: true},
		coordinator.ErrSessionLost, coordinator.ErrUnavailable, coordinator.ErrRemoved,
	} {
		parties(t, func(a, b party) {
			l := a.lock()
			ctx, cancel := context.WithCancelCause(b.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			before := a.svc.Stats().Requests[memory.OpList]
			if _, err := b.m.Lock(ctx); err != cause { //nolint:errorlint // itself
				b.Errorf("Lock = %v, want %v itself", err, cause)
			}
			synctest.Wait()
			if n := len(a.svc.Snapshot(queue)); n != 1 || a.svc.Stats().Requests[memory.OpList] != before {
				b.Errorf("%v: %d in the queue; the failed Lock asked who has it", cause, n)
			}
			if err := b.session().Err(); err != nil {
				b.Errorf("%v: session %v", cause, err)
			}
			a.unlock(l)
		})
	}
}

// TestLookCancelledWhileWaitingReturnsTheCauseItself: those behind whom it waits give up, so it looks at the queue again, and is cancelled
// before the answer comes.
func TestLookCancelledWhileWaitingReturnsTheCauseItself(t *testing.T) {
	for _, cause := range []error{errors.New("mine"), &coordinator.Error{Op: "unlock", Name: "jobs", Err: coordinator.ErrNotHeld, Maybe: true}} {
		parties(t, func(a, b party) {
			l, began := a.lock(), time.Now()
			ahead, giveUp := context.WithCancel(a.Context())
			time.AfterFunc(time.Second, giveUp)
			go func() { _, _ = a.m.Lock(ahead) }()
			synctest.Wait()
			ctx, cancel := context.WithCancelCause(b.Context())
			looked := false
			a.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
				if r.Op == memory.OpAhead && time.Since(began) >= time.Second {
					looked, f.DelayReply = true, time.Second
					time.AfterFunc(time.Millisecond, func() { cancel(cause) })
				}
				return f
			})
			if _, err := b.m.Lock(ctx); err != cause { //nolint:errorlint // itself
				b.Errorf("Lock = %v, want %v itself", err, cause)
			}
			if !looked {
				b.Error("nobody looked")
			}
			a.unlock(l)
		})
	}
}

// TestLossOfOneClientDoesNotReachAnother: the hold of one client is the context of a Lock on another.
func TestLossOfOneClientDoesNotReachAnother(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		keep, err := engine.Of(b.client).Session(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.link.Delay(time.Second, time.Second)
		time.AfterFunc(500*time.Millisecond, func() { a.svc.Expire(l.Session()) })
		if _, err := b.m.Lock(l.Context()); err == nil {
			b.Error("Lock went on without its context")
		}
		time.Sleep(5 * time.Second)
		if keep.Err() != nil {
			b.Errorf("the other client's session: %v", keep.Err())
		}
		if n := len(a.svc.Snapshot(queue)); n != 0 {
			b.Errorf("%d in the queue", n)
		}
	})
}

func TestTryLockDoesNotWaitToLearnWhoHasIt(t *testing.T) {
	parties(t, func(a, b party) {
		a.lock()
		b.session()
		b.svc.OnRequest(func(r memory.Request) memory.Fate {
			return memory.Fate{DropRequest: r.Op == memory.OpList}
		})
		began := time.Now()
		if _, err := b.m.TryLock(b.Context()); !errors.Is(err, coordinator.ErrTaken) {
			b.Errorf("TryLock = %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			b.Errorf("took %v", took)
		}
	})
}

// TestWaiterWhoseEntryWasRemovedIsTold: FIELD 17: it is told, and not sent to the end of the queue in silence. A wait
// of less than a second need not notice it.
func TestWaiterWhoseEntryWasRemovedIsTold(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		got := make(chan error, 1)
		go func() {
			_, err := b.m.Lock(b.Context())
			got <- err
		}()
		time.Sleep(2 * time.Second)
		a.svc.Remove(queue, a.svc.Snapshot(queue)[1].Key)
		synctest.Wait()
		a.unlock(l)
		if err := <-got; !errors.Is(err, coordinator.ErrRemoved) {
			b.Errorf("Lock = %v", err)
		}
	})
}

// TestLockWaitsBehindAnEntryThatBatonDidNotWrite: FIELD 38 and 39. Another program that shares the queue is never overtaken, and
// its entry may have no value.
func TestLockWaitsBehindAnEntryThatBatonDidNotWrite(t *testing.T) {
	parties(t, func(a, _ party) {
		foreign := a.svc.AddForeign(queue)
		if _, err := a.m.TryLock(a.Context()); !errors.Is(err, coordinator.ErrTaken) {
			a.Errorf("TryLock = %v", err)
		}
		list, err := a.m.Contenders(a.Context())
		if err != nil || len(list) != 1 || list[0].Identity != "" || !list[0].Holding {
			a.Errorf("listed as %+v, %v", list, err)
		}
		began := time.Now()
		time.AfterFunc(time.Minute, func() { a.svc.Remove(queue, foreign.Key) })
		a.unlock(a.lock())
		if time.Since(began) != time.Minute {
			a.Errorf("granted after %v", time.Since(began))
		}
	})
}

func TestWorkSeesItsCallersDeadline(t *testing.T) {
	parties(t, func(a, _ party) {
		want := time.Now().Add(time.Minute)
		ctx, cancel := context.WithDeadline(a.Context(), want)
		defer cancel()
		err := a.m.Do(ctx, func(ctx context.Context) error {
			if d, ok := ctx.Deadline(); !ok || !d.Equal(want) {
				a.Errorf("Deadline = %v, %v", d, ok)
			}
			if derived, ok := context.WithoutCancel(ctx).Deadline(); ok {
				a.Errorf("WithoutCancel has the deadline %v", derived)
			}
			return nil
		})
		if err != nil {
			a.Error(err)
		}
		if err := a.m.Do(a.Context(), nil); !errors.Is(err, coordinator.ErrInvalid) {
			a.Errorf("Do(nil) = %v", err)
		}
	})
}
