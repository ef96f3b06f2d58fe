package counter_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/counter"
)

// TestCallsOfOneCounterShareWrites: 64 goroutines of one Counter make at least
// 50 times as many additions in the same time as one, with as many writes, and
// each gets a value of its own.
func TestCallsOfOneCounterShareWrites(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.add(0)
		a.link.Delay(time.Millisecond, time.Millisecond)
		run := func(goroutines, apiece int) (got []int64, writes int, took time.Duration) {
			before, began := w.svc.Stats(), time.Now()
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for range apiece {
						n := a.add(1)
						mu.Lock()
						got = append(got, n)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			return got, w.svc.Stats().Since(before).Requests[memory.OpSetRecord], time.Since(began)
		}
		const apiece = 50
		_, writesOfOne, one := run(1, apiece)
		got, writes, many := run(64, apiece)
		slices.Sort(got)
		for i, n := range got {
			if n != int64(apiece+i+1) {
				w.Fatalf("value %d is %d", i, n)
			}
		}
		if factor := 64 * one.Seconds() / many.Seconds(); factor < 50 || writesOfOne != apiece || writes > apiece*6/5 {
			w.Errorf("one goroutine: %d writes in %v; 64: %d in %v, %.0f times as fast", writesOfOne, one, writes, many, factor)
		}
		a.is(65 * apiece)
	})
}

// TestCallsOfABatchHaveTheirOwnResults, in the order in which they came.
func TestCallsOfABatchHaveTheirOwnResults(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.Set(w.Context(), 10)
		a.link.Delay(time.Millisecond, time.Millisecond)
		before := w.svc.Stats()
		var wg sync.WaitGroup
		call := func(f func() error) {
			wg.Go(func() {
				if err := f(); err != nil {
					w.Error(err)
				}
			})
			synctest.Wait()
		}
		adds := func(delta, want int64) func() error {
			return func() error {
				if n, err := a.Add(w.Context(), delta); err != nil || n != want {
					w.Errorf("add %d: %d, %v; want %d", delta, n, err, want)
				}
				return nil
			}
		}
		call(adds(1, 11))
		call(adds(5, 16))
		call(func() error {
			_, err := a.Add(w.Context(), math.MaxInt64)
			if !errors.Is(err, counter.ErrOverflow) || coordinator.MayHaveApplied(err) {
				w.Errorf("overflow: %v", err)
			}
			return nil
		})
		call(func() error { return a.CompareAndSet(w.Context(), 16, 40) })
		call(func() error {
			var other *counter.OtherValueError
			if err := a.CompareAndSet(w.Context(), 16, 50); !errors.As(err, &other) || other.Value != 40 {
				w.Errorf("compare: %v", err)
			}
			return nil
		})
		call(adds(0, 40))
		call(func() error { return a.Set(w.Context(), -1) })
		call(adds(1, 0))
		wg.Wait()
		if n := w.svc.Stats().Since(before).Requests[memory.OpSetRecord]; n != 1 {
			w.Errorf("%d writes", n)
		}
		a.is(0)
	})
}

// TestBatchGoesOnWhenItsLeaderGivesUp, at each step, and applies the change of
// nobody twice. A call that gives up knows whether its change may be applied.
func TestBatchGoesOnWhenItsLeaderGivesUp(t *testing.T) {
	for ms := range 12 {
		for _, fault := range []memory.Fate{{}, {DropReply: true}, {DropRequest: true}} {
			inWorld(t, func(w world) {
				a := w.join()
				a.add(1)
				a.link.Delay(2*time.Millisecond, 2*time.Millisecond)
				w.svc.OnRequest(memory.Once(memory.OpSetRecord, fault))
				gone := errors.New("gone")
				leads, giveUp := context.WithCancelCause(w.Context())
				var err error
				var wg sync.WaitGroup
				wg.Go(func() { _, err = a.Add(leads, 1000) })
				synctest.Wait()
				results := make([]int64, 3)
				for i := range results {
					wg.Go(func() { results[i] = a.add(10) })
				}
				time.Sleep(time.Duration(ms) * time.Millisecond)
				giveUp(gone)
				wg.Wait()
				n, getErr := a.Get(w.Context())
				applied := n == 1031
				switch {
				case getErr != nil || n != 31 && !applied:
					w.Errorf("%d ms, %+v: the value is %d, %v", ms, fault, n, getErr)
				case err == nil && !applied, err != nil && !errors.Is(err, gone),
					applied && err != nil && !coordinator.MayHaveApplied(err):
					w.Errorf("%d ms, %+v: %v, and the value is %d", ms, fault, err, n)
				}
				slices.Sort(results)
				if !applied && !slices.Equal(results, []int64{11, 21, 31}) {
					w.Errorf("%d ms, %+v: %v", ms, fault, results)
				}
				w.svc.OnRequest(nil)
			})
		}
	}
}

// TestCallThatWaitsInABatchEndsWithItsContext, and is not applied later unless
// it says so: it came before or after the write was sent.
func TestCallThatWaitsInABatchEndsWithItsContext(t *testing.T) {
	for _, sent := range []bool{false, true} {
		inWorld(t, func(w world) {
			a := w.join()
			a.add(1)
			a.link.Delay(10*time.Millisecond, 10*time.Millisecond)
			w.svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{DelayRequest: time.Second}))
			var wg sync.WaitGroup
			wg.Go(func() { a.add(10) })
			if synctest.Wait(); !sent {
				time.Sleep(25 * time.Millisecond) // it was read
			}
			gone := errors.New("gone")
			ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second/2, gone)
			defer cancel()
			began := time.Now()
			_, err := a.Add(ctx, 100)
			if !errors.Is(err, gone) || coordinator.MayHaveApplied(err) != sent || time.Since(began) != time.Second/2 {
				w.Errorf("sent %v: %v after %v", sent, err, time.Since(began))
			}
			wg.Wait()
			a.is(map[bool]int64{false: 11, true: 111}[sent])
			w.svc.OnRequest(nil)
		})
	}
}

// TestCallThatGivesUpAWriteOfOthers is sure that its change was not applied: it
// came after that write was sent, and led when it was sent again.
func TestCallThatGivesUpAWriteOfOthers(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.add(1)
		a.link.Delay(2*time.Millisecond, 2*time.Millisecond)
		w.svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{DelayRequest: time.Second}))
		gone := errors.New("gone")
		first, giveUpFirst := context.WithCancelCause(w.Context())
		second, giveUpSecond := context.WithCancelCause(w.Context())
		var err1, err2 error
		var wg sync.WaitGroup
		wg.Go(func() { _, err1 = a.Add(first, 10) })
		time.Sleep(6 * time.Millisecond) // its write is on its way
		wg.Go(func() { _, err2 = a.Add(second, 100) })
		synctest.Wait()
		giveUpFirst(gone)
		time.Sleep(5 * time.Millisecond) // the second has read, and sent the write again
		giveUpSecond(gone)
		wg.Wait()
		if !errors.Is(err1, gone) || !coordinator.MayHaveApplied(err1) {
			w.Errorf("the call of the write: %v", err1)
		}
		if !errors.Is(err2, gone) || coordinator.MayHaveApplied(err2) {
			w.Errorf("the call that came later: %v", err2)
		}
		a.is(11)
	})
}
