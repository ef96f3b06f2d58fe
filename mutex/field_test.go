package mutex_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
)

// These are behaviours that other clients learned from bugs. The numbers are those of docs/curator-behaviours.md.

var refusal = driver.Wrap(driver.ErrRefused, errors.New("no permission"))

// on chooses the fate of a party's requests of one operation.
func (p party) on(op memory.Op, f memory.Fate) {
	p.svc.OnRequest(func(r memory.Request) memory.Fate {
		if r.Op == op && r.Driver == p.link {
			return f
		}
		return memory.Fate{}
	})
}

// TestCleanUpOfOneAttemptSparesTheNext: FIELD 7. The clean-up of an attempt that was given up comes late.
func TestCleanUpOfOneAttemptSparesTheNext(t *testing.T) {
	parties(t, func(a, b party) {
		a.session()
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			switch r.Op {
			case memory.OpJoin:
				return memory.Fate{DelayReply: 2 * time.Second}
			case memory.OpForget:
				return memory.Fate{DelayRequest: 2 * time.Second}
			}
			return memory.Fate{}
		})
		ctx, cancel := context.WithTimeout(a.Context(), time.Second)
		defer cancel()
		if _, err := a.m.Lock(ctx); !errors.Is(err, coordinator.ErrUnavailable) {
			t.Fatalf("Lock = %v", err)
		}
		l := a.lock()
		time.Sleep(time.Minute)
		if l.Err() != nil || len(a.svc.Snapshot(queue)) != 1 {
			t.Errorf("%v; the queue is %v", l.Err(), a.svc.Snapshot(queue))
		}
		a.unlock(l)
		b.unlock(b.lock())
	})
}

// TestFailedUnlockHoldsNothing: FIELD 10 and 11. The hold is over, a later Lock is queued behind the entry that is
// still there, and is granted when that could be removed.
func TestFailedUnlockHoldsNothing(t *testing.T) {
	parties(t, func(a, _ party) {
		l := a.lock()
		a.on(memory.OpLeave, memory.Fate{Err: refusal})
		if err := l.Unlock(a.Context()); !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("Unlock = %v", err)
		}
		if err := l.Err(); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("Err = %v", err)
		}
		if _, err := a.m.TryLock(context.WithoutCancel(l.Context())); !errors.Is(err, coordinator.ErrTaken) {
			t.Errorf("TryLock with the context of a hold that is over = %v", err)
		}
		if err := l.Unlock(a.Context()); !errors.Is(err, coordinator.ErrNotHeld) {
			t.Errorf("second Unlock = %v", err)
		}
		time.AfterFunc(time.Minute, func() { a.svc.OnRequest(nil) })
		began := time.Now()
		next := a.lock()
		if took := time.Since(began); took < time.Minute || took > time.Minute+5*time.Second || next.Token() <= l.Token() {
			t.Errorf("granted after %v, with token %d after %d", took, next.Token(), l.Token())
		}
		a.unlock(next)
	})
}

// TestCleanUpOfARemovedEntryEnds: FIELD 13. What is gone is not removed again and again.
func TestCleanUpOfARemovedEntryEnds(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		ctx, cancel := context.WithCancel(b.Context())
		got := make(chan error, 1)
		go func() {
			_, err := b.m.Lock(ctx)
			got <- err
		}()
		synctest.Wait()
		a.svc.Remove(queue, a.svc.Snapshot(queue)[1].Key)
		cancel()
		<-got
		time.Sleep(time.Minute)
		if n := a.svc.Stats().Requests[memory.OpLeave]; n != 1 {
			t.Errorf("%d requests to leave", n)
		}
		a.unlock(l)
	})
}

// TestFailedUnlockDoesNotMaskTheErrorOfTheWork: FIELD 16.
func TestFailedUnlockDoesNotMaskTheErrorOfTheWork(t *testing.T) {
	mine := errors.New("mine")
	parties(t, func(a, _ party) {
		a.on(memory.OpLeave, memory.Fate{Err: refusal})
		err := a.m.Do(a.Context(), func(context.Context) error { return mine })
		if !errors.Is(err, mine) || !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("Do = %v", err)
		}
		a.svc.OnRequest(nil)
		a.unlock(a.lock())
	})
}

// TestRefusedLockIsNotRepeated: FIELD 27, and 20. Only what may pass is waited for.
func TestRefusedLockIsNotRepeated(t *testing.T) {
	parties(t, func(a, _ party) {
		a.session()
		for _, op := range []memory.Op{memory.OpJoin, memory.OpAhead, memory.OpWatch} {
			foreign := a.svc.AddForeign(queue) // so that Lock has to look and to wait
			before := a.svc.Stats().Requests[op]
			a.on(op, memory.Fate{Err: refusal})
			began := time.Now()
			if _, err := a.m.Lock(a.Context()); !errors.Is(err, coordinator.ErrRefused) || time.Since(began) != 0 {
				t.Errorf("%s: Lock = %v after %v", op, err, time.Since(began))
			}
			if n := a.svc.Stats().Requests[op] - before; n != 1 {
				t.Errorf("%s: %d requests", op, n)
			}
			synctest.Wait()
			a.svc.Remove(queue, foreign.Key)
			if n := len(a.svc.Snapshot(queue)); n != 0 {
				t.Errorf("%s: %d left in the queue", op, n)
			}
		}
		a.svc.OnRequest(nil)
	})
}

// TestLossMayBeHandledWhereItIsTold: FIELD 28. Whoever is told of a loss may call what it likes, and nobody waits
// for it.
func TestLossMayBeHandledWhereItIsTold(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		again := make(chan *mutex.Lock, 1)
		context.AfterFunc(l.Context(), func() {
			if err := l.Unlock(a.Context()); !errors.Is(err, coordinator.ErrSessionLost) {
				t.Errorf("Unlock = %v", err)
			}
			again <- a.lock()
		})
		slow := make(chan struct{})
		context.AfterFunc(l.Context(), func() { <-slow })
		a.svc.Expire(a.session().ID())
		a.unlock(<-again)
		b.unlock(b.lock())
		close(slow)
	})
}

// TestWaiterSurvivesAnOutage: FIELD 30. Its place is kept, and its wait begun anew, each time.
func TestWaiterSurvivesAnOutage(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		got := make(chan *mutex.Lock, 1)
		go func() { got <- b.lock() }()
		synctest.Wait()
		place := a.svc.Snapshot(queue)[1].Place
		for range 3 {
			a.svc.Stop()
			time.Sleep(4 * time.Second)
			a.svc.Start()
			time.Sleep(2 * time.Second)
			b.link.Reset()
			time.Sleep(time.Second)
		}
		if now := a.svc.Snapshot(queue)[1].Place; now != place || len(got) != 0 {
			t.Errorf("stood at %+v, stands at %+v", place, now)
		}
		a.unlock(l)
		next := <-got
		b.unlock(next)
	})
}

// TestHoldOfTheSameGoroutineIsTakenWithoutItsContext: FIELD 32. A Try does not wait for oneself either.
func TestHoldOfTheSameGoroutineIsTakenWithoutItsContext(t *testing.T) {
	parties(t, func(a, _ party) {
		l := a.lock()
		if _, err := a.m.TryLock(a.Context()); !errors.Is(err, coordinator.ErrTaken) {
			t.Errorf("TryLock = %v", err)
		}
		ctx, cancel := context.WithTimeout(a.Context(), time.Second)
		defer cancel()
		if _, err := a.m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock = %v", err)
		}
		if l.Err() != nil {
			t.Error(l.Err())
		}
		a.unlock(l)
	})
}

// TestHoldEndsBeforeItsEntryLeaves: FIELD 33. While the entry is on its way out nobody works, or enters, on its strength.
func TestHoldEndsBeforeItsEntryLeaves(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		a.link.Delay(time.Second, time.Second)
		var wg sync.WaitGroup
		wg.Go(func() { a.unlock(l) })
		synctest.Wait()
		if l.Err() == nil || l.Context().Err() == nil {
			t.Error("the hold goes on")
		}
		if len(a.svc.Snapshot(queue)) != 1 {
			t.Error("the entry has left before its hold ended")
		}
		next := a.take(context.WithoutCancel(l.Context()))
		if next.Token() <= l.Token() {
			t.Error("entered a hold that is being given back")
		}
		wg.Wait()
		a.unlock(next)
		b.unlock(b.lock())
	})
}

func (p party) take(ctx context.Context) *mutex.Lock {
	p.Helper()
	l, err := p.m.Lock(ctx)
	if err != nil {
		p.Fatal(err)
	}
	return l
}

// TestListingOutlivesALostSession: nothing is held by it, so a session that turns out to be over is no reason to fail.
func TestListingOutlivesALostSession(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		session, err := engine.Of(b.client).Session(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.link.Delay(0, time.Second) // word of the end comes no sooner than the answer
		b.svc.Expire(session.ID())
		if list, err := b.m.Contenders(b.Context()); err != nil || len(list) != 1 {
			b.Errorf("%d contenders, %v", len(list), err)
		}
		a.unlock(l)
	})
}
