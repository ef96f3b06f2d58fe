package partition_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes/partition"
)

// TestWorkThatExitsIsCalledAgain: work that ends its goroutine does not leave
// its shard with a member that does nothing.
func TestWorkThatExitsIsCalledAgain(t *testing.T) {
	run(t, 1, func(f *fleet) {
		var calls atomic.Int64
		var reported atomic.Value
		p := f.startWith(1, func(ctx context.Context, _ int, _ coordinator.Token) error {
			if calls.Add(1) == 1 {
				runtime.Goexit()
			}
			<-ctx.Done()
			return nil
		}, partition.WithOnError(func(err error) { reported.CompareAndSwap(nil, err.Error()) }))
		time.Sleep(time.Second)
		if n := calls.Load(); n != 2 || f.held()[p] != 1 {
			t.Errorf("%d calls, %d shards", n, f.held()[p])
		}
		if text := `baton: partition "jobs": shard 0: work has exited its goroutine`; reported.Load() != text {
			t.Errorf("reported: %q, want %q", reported.Load(), text)
		}
	})
}

// TestBlockedErrorHandlerDelaysNoShard: others get the shards that move, and
// those of a member that stops. Run alone waits for the handler.
func TestBlockedErrorHandlerDelaysNoShard(t *testing.T) {
	run(t, 8, func(f *fleet) {
		blocked := make(chan struct{})
		unblock := sync.OnceFunc(func() { close(blocked) })
		defer unblock()
		var calls, errs atomic.Int64
		rude := f.startWith(8, func(ctx context.Context, shard int, _ coordinator.Token) error {
			if shard == 0 && errs.Add(1) <= 3 {
				return errors.New("work")
			}
			<-ctx.Done()
			return nil
		}, partition.WithOnError(func(error) { calls.Add(1); <-blocked }))
		time.Sleep(10 * time.Second)
		if calls.Load() != 1 {
			t.Fatalf("the handler was called %d times", calls.Load())
		}
		next := f.start()
		f.settle(time.Second, rude, next)
		rude.cancel()
		f.settle(time.Second, next)
		select {
		case <-rude.done:
			t.Error("Run does not wait for the handler")
		default:
		}
		unblock()
		<-rude.done
		if calls.Load() != 3 {
			t.Errorf("the handler was called %d times, want 3", calls.Load())
		}
	})
}

// TestErrorHandlerThatExitsIsCalledAgain with the next error.
func TestErrorHandlerThatExitsIsCalledAgain(t *testing.T) {
	run(t, 1, func(f *fleet) {
		var calls, errs atomic.Int64
		p := f.startWith(1, func(ctx context.Context, _ int, _ coordinator.Token) error {
			if errs.Add(1) <= 3 {
				return errors.New("work")
			}
			<-ctx.Done()
			return nil
		}, partition.WithOnError(func(error) { calls.Add(1); runtime.Goexit() }))
		time.Sleep(10 * time.Second)
		p.cancel()
		<-p.done
		if calls.Load() != 3 {
			t.Errorf("the handler was called %d times, want 3", calls.Load())
		}
	})
}

// TestSettledMembersKeepTheirShareWhenThePlanIsDeleted, also in a fleet in
// which other members do not settle.
func TestSettledMembersKeepTheirShareWhenThePlanIsDeleted(t *testing.T) {
	run(t, 32, func(f *fleet) {
		all := append(f.startAll(2), f.start(partition.WithSettle(settle)), f.start(partition.WithSettle(settle)))
		time.Sleep(10 * settle)
		f.settle(0, all...)
		if !f.svc.RemoveRecord("partition/jobs") {
			t.Fatal("there is no plan")
		}
		all = append(all, f.start()) // it makes another plan
		time.Sleep(5 * time.Second)
		f.settle(0, all...)
	})
}
