package semaphore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

// TestWaitEndsWithTheCauseOfItsContext, untouched, and leaves the queue.
// FIELD 51
func TestWaitEndsWithTheCauseOfItsContext(t *testing.T) {
	mine := errors.New("mine")
	parties(t, 2, func(a, b party) {
		held := a.acquire(2)
		for _, behind := range []bool{false, true} { // one watches the holders and the limit, the other the one ahead
			var first *wait
			if behind {
				first = a.begin(1)
			}
			w := b.begin(1)
			w.cancel(mine)
			if w.failed(mine); w.err != mine { //nolint:errorlint // untouched means identical
				t.Errorf("got %v", w.err)
			}
			ctx, cancel := context.WithTimeout(a.Context(), time.Second)
			defer cancel()
			if _, err := b.s.Acquire(ctx, 2); err != context.DeadlineExceeded { //nolint:errorlint // as above
				t.Errorf("got %v", err)
			}
			if behind {
				first.cancel(nil)
				first.failed(context.Canceled)
			}
			synctest.Wait()
			if got := a.modes(); len(got) != 1 {
				t.Errorf("queue %v", got)
			}
		}
		a.release(held)
		a.empty()
	})
}

// TestDeadContextAsksForNothing.
// FIELD 56
func TestDeadContextAsksForNothing(t *testing.T) {
	mine := errors.New("mine")
	parties(t, 2, func(a, b party) {
		ctx, cancel := context.WithCancelCause(a.Context())
		cancel(mine)
		late, cancelLate := context.WithTimeout(a.Context(), -time.Second)
		defer cancelLate()
		for _, acquire := range []func(context.Context, int) (*semaphore.Permit, error){a.s.Acquire, a.s.TryAcquire} {
			if _, err := acquire(ctx, 1); err != mine { //nolint:errorlint // untouched means identical
				t.Errorf("got %v", err)
			}
			if _, err := acquire(late, 1); err != context.DeadlineExceeded { //nolint:errorlint // as above
				t.Errorf("got %v", err)
			}
		}
		if n := a.svc.Stats().Total(); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestTimeLeftShrinksOverWakeUps: a wait of ten seconds ends after ten, however often it looked again.
// FIELD 36
func TestTimeLeftShrinksOverWakeUps(t *testing.T) {
	parties(t, 20, func(a, b party) {
		var held []*semaphore.Permit
		for range 20 {
			held = append(held, a.acquire(1))
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(a.Context(), 10*time.Second)
		defer cancel()
		go func() {
			for _, p := range held[:15] {
				time.Sleep(time.Second)
				a.release(p) // wakes the one who waits
			}
		}()
		if _, err := b.s.Acquire(ctx, 20); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(10 * time.Second)
		a.release(held[15:]...)
		a.empty()
	})
}

// TestAcquireEndsInTimeWhenNothingAnswers: the bound covers the connection, too.
// FIELD 9, 35
func TestAcquireEndsInTimeWhenNothingAnswers(t *testing.T) {
	for _, away := range []func(party){
		func(p party) { p.svc.Stop() },
		func(p party) { p.link.Cut() },
		func(p party) { p.link.HoldReplies() },
		func(p party) { p.link.Delay(time.Minute, 0) },
	} {
		for _, warm := range []bool{false, true} {
			for _, acquire := range []func(*semaphore.Semaphore, context.Context, int) (*semaphore.Permit, error){
				(*semaphore.Semaphore).Acquire, (*semaphore.Semaphore).TryAcquire,
			} {
				parties(t, 3, func(a, b party) {
					a.setLimit(3)
					if warm {
						b.release(b.acquire(1))
					}
					away(b)
					ctx, cancel := context.WithTimeout(a.Context(), time.Second)
					defer cancel()
					began := time.Now()
					_, err := acquire(b.s, ctx, 2)
					wantErr(t, err, coordinator.ErrUnavailable, context.DeadlineExceeded)
					if took := time.Since(began); took != time.Second {
						t.Errorf("took %v", took)
					}
					b.svc.Start()
					b.link.Delay(0, 0)
					b.link.Heal()
					time.Sleep(2 * time.Minute) // a session that was opened too late ends with its TTL
					a.release(a.acquire(3))
					a.empty()
				})
			}
		}
	}
}

// TestWaiterOfALostSessionFailsAndOthersGoOn wherever in the queue it stands.
// FIELD 6, 57
func TestWaiterOfALostSessionFailsAndOthersGoOn(t *testing.T) {
	for _, first := range []bool{true, false} {
		parties(t, 3, func(a, b party) {
			held := a.acquire(3)
			var ahead *wait
			if !first {
				ahead = a.begin(3)
			}
			doomed := b.begin(2)
			behind := a.begin(1)
			a.svc.Expire(b.session())
			doomed.failed(coordinator.ErrSessionLost)
			behind.waits()
			a.release(held)
			if ahead != nil {
				a.release(ahead.granted())
			}
			a.release(behind.granted())
			b.release(b.acquire(3))
			a.empty()
		})
	}
}

// TestWaiterThatWasRemovedFailsAndOthersGoOn: it finds out when it would look next.
// FIELD 17
func TestWaiterThatWasRemovedFailsAndOthersGoOn(t *testing.T) {
	for _, first := range []bool{true, false} {
		parties(t, 3, func(a, b party) {
			held := a.acquire(3)
			var ahead *wait
			at := 1
			if !first {
				ahead, at = a.begin(3), 2
			}
			removed, behind := b.begin(2), a.begin(2)
			a.svc.Remove(queue, a.svc.Snapshot(queue)[at].Key)
			behind.waits()
			a.release(held)
			if ahead != nil {
				a.release(ahead.granted())
			}
			removed.failed(coordinator.ErrRemoved)
			a.release(behind.granted())
			a.empty()
		})
	}
}

// TestAcquireThatFindsItsSessionOverUsesANewOne since it has not was queued yet.
func TestAcquireThatFindsItsSessionOverUsesANewOne(t *testing.T) {
	for _, warm := range []bool{false, true} {
		parties(t, 3, func(a, b party) {
			a.setLimit(3)
			if warm {
				b.release(b.acquire(1))
			}
			old := b.session()
			b.link.HoldReplies() // so that the client does not hear of the expiry
			a.svc.Expire(old)
			time.AfterFunc(time.Second, b.link.Heal)
			p := b.acquire(2)
			if p.Session() == old || p.Err() != nil {
				t.Errorf("session %s, then %s: %v", old, p.Session(), p.Err())
			}
			b.release(p)
			a.empty()
		})
	}
}

// TestGrantThatArrivesAfterTheSessionEndedIsNone.
// FIELD 6
func TestGrantThatArrivesAfterTheSessionEndedIsNone(t *testing.T) {
	parties(t, 2, func(a, b party) {
		held := a.acquire(2)
		w := b.begin(2)
		b.link.Cut()
		a.release(held) // b is told, and does not hear of it
		q := a.begin(1)
		q.waits()
		time.Sleep(coordinator.DefaultTTL)
		p := q.granted()
		b.link.Heal()
		w.failed(coordinator.ErrSessionLost)
		if p.Err() != nil {
			t.Error(p.Err())
		}
		a.release(p)
		synctest.Wait()
		a.empty()
	})
}
