package mutex_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// These are more of the behaviours in docs/curator-behaviours.md: about what bounds a call, and what comes after one that
// was given up.

// TestBoundIncludesTheWaitForTheService: FIELD 35. Without a session, with a session, and while it cannot be replaced.
func TestBoundIncludesTheWaitForTheService(t *testing.T) {
	parties(t, func(a, b party) {
		b.session()
		for _, away := range []func(){
			a.svc.Stop,
			func() { a.link.Cut(); b.link.Cut() },
			func() { a.link.HoldReplies(); b.link.HoldReplies() },
		} {
			away()
			for _, p := range []party{a, b} {
				for _, lock := range []func(context.Context) error{
					func(ctx context.Context) error { _, err := p.m.Lock(ctx); return err },
					func(ctx context.Context) error { _, err := p.m.TryLock(ctx); return err },
					func(ctx context.Context) error { _, err := p.m.Contenders(ctx); return err },
				} {
					ctx, cancel := context.WithTimeout(a.Context(), 500*time.Millisecond)
					began := time.Now()
					err := lock(ctx)
					if !errors.Is(err, coordinator.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) ||
						time.Since(began) != 500*time.Millisecond {
						t.Errorf("%v after %v", err, time.Since(began))
					}
					cancel()
				}
			}
			time.Sleep(time.Minute) // b's session is lost by its clock
			a.svc.Start()
			for _, p := range []party{a, b} {
				p.link.Reset()
				p.link.Heal()
			}
			a.unlock(a.lock())
			b.unlock(b.lock())
		}
	})
}

// TestBoundIsOneForAllOfTheWait: FIELD 36. It does not begin anew when one ahead leaves.
func TestBoundIsOneForAllOfTheWait(t *testing.T) {
	parties(t, func(a, b party) {
		first := a.lock()
		var wg sync.WaitGroup
		for i := range 9 { // who wait, and give up one after the other, from the last
			ctx, cancel := context.WithTimeout(a.Context(), time.Duration(9-i)*900*time.Millisecond)
			defer cancel()
			wg.Go(func() { _, _ = a.m.Lock(ctx) })
			synctest.Wait()
		}
		before := a.svc.Stats().Wakeups
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := b.m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("Lock = %v after %v, with a bound of 5s", err, time.Since(began))
		}
		if n := a.svc.Stats().Wakeups - before; n < 5 {
			t.Errorf("woken %d times: the test shows nothing", n)
		}
		wg.Wait()
		a.unlock(first)
	})
}

// TestLockWorksAfterOneThatWasCancelled: FIELD 37. Before it began, while it waited, and while the service was away.
func TestLockWorksAfterOneThatWasCancelled(t *testing.T) {
	parties(t, func(a, b party) {
		dead, cancel := context.WithCancel(a.Context())
		cancel()
		for range 3 {
			if _, err := a.m.Lock(dead); !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v", err)
			}
			a.unlock(a.lock())

			l := b.lock()
			ctx, cancel := context.WithTimeout(a.Context(), time.Second)
			if _, err := a.m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock = %v", err)
			}
			cancel()
			b.unlock(l)
			a.unlock(a.lock())

			a.svc.Stop()
			ctx, cancel = context.WithTimeout(a.Context(), time.Second)
			if _, err := a.m.Lock(ctx); !errors.Is(err, coordinator.ErrUnavailable) {
				t.Errorf("Lock = %v", err)
			}
			cancel()
			a.svc.Start()
			a.unlock(a.lock())
		}
	})
}

// TestTryGivenUpWhileTheServiceIsSilentLeavesNothing: FIELD 40. Its request may arrive when it has long been given up.
func TestTryGivenUpWhileTheServiceIsSilentLeavesNothing(t *testing.T) {
	parties(t, func(a, b party) {
		for _, silent := range []func(){a.link.Cut, a.link.HoldReplies, a.link.HoldRequests} {
			a.session()
			silent()
			time.Sleep(3 * time.Second)
			ctx, cancel := context.WithTimeout(a.Context(), time.Second)
			if _, err := a.m.TryLock(ctx); !errors.Is(err, coordinator.ErrUnavailable) {
				t.Errorf("TryLock = %v", err)
			}
			cancel()
			a.link.Heal()
			time.Sleep(time.Second)
			if n := len(a.svc.Snapshot(queue)); n != 0 || a.session().Err() != nil {
				t.Errorf("%d in the queue; session %v", n, a.session().Err())
			}
			l, err := b.m.TryLock(b.Context())
			if err != nil {
				t.Fatal(err)
			}
			b.unlock(l)
		}
	})
}

// TestClosedClientFailsAtOnce: FIELD 41. Whatever is called, also by those who waited.
func TestClosedClientFailsAtOnce(t *testing.T) {
	parties(t, func(a, b party) {
		l := b.lock()
		waiting := make(chan error, 1)
		go func() {
			_, err := a.m.Lock(a.Context())
			waiting <- err
		}()
		synctest.Wait()
		if err := a.client.Close(a.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		began, before := time.Now(), a.svc.Stats().Total()
		_, lock := a.m.Lock(a.Context())
		_, try := a.m.TryLock(a.Context())
		_, list := a.m.Contenders(a.Context())
		do := a.m.Do(a.Context(), func(context.Context) error { return nil })
		for _, err := range []error{<-waiting, lock, try, list, do} {
			if !errors.Is(err, coordinator.ErrClosed) || time.Since(began) != 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		if n := a.svc.Stats().Total() - before; n != 0 {
			t.Errorf("%d requests of a closed client", n)
		}
		b.unlock(l)
	})
}
