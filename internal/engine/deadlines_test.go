package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// TestDeadlinesThatEndDuringJoinsForgetNothing: on a service that answers each
// request in 2 ms, a hundred goroutines lock and unlock with deadlines between
// 0 and 20 ms, so that many deadlines end while a join is under way. Each of
// these joins is answered, and its entry leaves by the reply: no contender is
// forgotten, which on etcd makes all joins of the session fail. Beside them the
// same client locks free names without delay, and nothing is left in the end.
func TestDeadlinesThatEndDuringJoinsForgetNothing(t *testing.T) {
	for name, names := range map[string]int{"one name": 1, "a name each": 100} {
		t.Run(name, func(t *testing.T) {
			within(t, func(w world) {
				if n := w.hasty(names, context.WithTimeout); n != 0 {
					w.Errorf("%d contenders were forgotten", n)
				}
			})
		})
	}
}

// TestCancellationsDuringJoinsForgetOneContender: the same for contexts that
// are cancelled. A join that is alone ends with its caller, but only one within
// a minute.
func TestCancellationsDuringJoinsForgetOneContender(t *testing.T) {
	cancelled := func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
	within(t, func(w world) {
		w.session()
		w.link.Delay(time.Millisecond, time.Millisecond)
		m := w.mutex()
		for range 100 { // one after the other
			ctx, cancel := cancelled(w.Context(), time.Millisecond)
			_, _ = m.Lock(ctx)
			cancel()
			time.Sleep(10 * time.Millisecond)
		}
		if n := w.hasty(100, cancelled); n != 1 {
			w.Errorf("%d contenders were forgotten, want 1", n)
		}
	})
}

// hasty lets a hundred goroutines lock and unlock names for up to 20 ms each,
// and returns how many contenders were forgotten.
func (w world) hasty(
	names int, bound func(context.Context, time.Duration) (context.Context, context.CancelFunc),
) (forgotten int) {
	w.session()
	w.link.Delay(time.Millisecond, time.Millisecond)
	var hasty sync.WaitGroup
	end := time.Now().Add(400 * time.Millisecond)
	for i := range 100 {
		m, err := mutex.New(w.client, fmt.Sprint("hasty-", i%names))
		check(w, err)
		hasty.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := bound(w.Context(), time.Duration(rand.IntN(20_000))*time.Microsecond)
				if l, err := m.Lock(ctx); err == nil {
					_ = l.Unlock(ctx)
				}
				cancel()
			}
		})
	}
	for i := range 20 {
		m, err := mutex.New(w.client, fmt.Sprint("free-", i))
		check(w, err)
		began := time.Now()
		check(w, w.lock(m).Unlock(w.Context()))
		if took := time.Since(began); took > 20*time.Millisecond {
			w.Errorf("a free name's lock and unlock took %v", took)
		}
	}
	hasty.Wait()
	time.Sleep(time.Second)
	for _, q := range w.svc.Queues() {
		if left := w.svc.Snapshot(q); len(left) != 0 {
			w.Errorf("%s: left behind: %v", q, left)
		}
	}
	return w.svc.Stats().Requests[memory.OpForget]
}

// TestJoinGoesOnWithoutItsCallerUnlessAlone: a join that is cancelled while it
// is under way is forgotten if it was the session's only one, without a near
// deadline, and none was left within a minute. Else it is answered, and its
// entry leaves by the reply.
func TestJoinGoesOnWithoutItsCallerUnlessAlone(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		w.link.Delay(100*time.Millisecond, 100*time.Millisecond)
		join := func(ctx context.Context) error {
			_, err := s.Join(ctx, queue, driver.Contender{ID: s.NewID(false), Mode: "x"})
			return err
		}
		leave := func(ctx context.Context, said string, forgotten, gone int) {
			w.Helper()
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(150*time.Millisecond, cancel)
			before, began := w.svc.Stats(), time.Now()
			if err := join(ctx); err == nil || time.Since(began) != 150*time.Millisecond {
				w.Errorf("%s: the join ended after %v: %v", said, time.Since(began), err)
			}
			time.Sleep(time.Second)
			all := w.svc.Stats().Since(before).Requests
			if all[memory.OpForget] != forgotten || all[memory.OpLeave] != gone {
				w.Errorf("%s: requests %v, want %d to forget, %d to leave", said, all, forgotten, gone)
			}
		}
		far, cancel := context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		leave(far, "alone", 1, 0)
		leave(w.Context(), "again", 0, 1)
		time.Sleep(time.Minute)
		leave(w.Context(), "after a minute", 1, 0)
		time.Sleep(2 * time.Minute)
		near, cancel := context.WithTimeout(w.Context(), 999*time.Millisecond)
		defer cancel()
		leave(near, "with a near deadline", 0, 1)
		leave(w.Context(), "after that", 0, 1)
		time.Sleep(2 * time.Minute)
		other := make(chan error, 1)
		go func() { other <- join(context.WithoutCancel(w.Context())) }()
		synctest.Wait()
		leave(w.Context(), "beside another", 0, 1)
		check(w, <-other)
	})
}
