package engine_test

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// seeking runs a test in which a session waits in a queue of so many entries of
// others. reads are the seconds at which it listed the queue.
func seeking(t *testing.T, entries int, f func(seek func() (stop func()), reads func() []int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		s, others := sessionOn(t, svc.Driver()), sessionOn(t, svc.Driver())
		for range entries {
			_, err := others.Join(t.Context(), queue, driver.Contender{ID: others.NewID(false), Mode: "x"})
			check(t, err)
		}
		began := time.Now()
		var reads []int
		svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpList {
				reads = append(reads, int(time.Since(began)/time.Second))
			}
			return memory.Fate{}
		})
		f(func() func() { return s.SeekStrays(queue) }, func() []int {
			synctest.Wait()
			return reads
		})
	})
}

// TestReadForOneWaiterCoversThoseBeforeIt: a hundred waiters of a session read
// the queue for strays once. Those that begin later read it once more, not
// before ten seconds have passed.
func TestReadForOneWaiterCoversThoseBeforeIt(t *testing.T) {
	seeking(t, 1, func(seek func() func(), reads func() []int) {
		for range 100 {
			defer seek()()
		}
		time.Sleep(2 * time.Second)
		wantReads(t, reads(), 1)
		for range 100 {
			defer seek()()
		}
		time.Sleep(time.Hour)
		wantReads(t, reads(), 1, 11)
	})
}

// TestLongQueueIsReadAgainForStrays: a stray may be behind the first entries,
// which leave.
func TestLongQueueIsReadAgainForStrays(t *testing.T) {
	seeking(t, 20, func(seek func() func(), reads func() []int) {
		stop := seek()
		time.Sleep(50 * time.Second)
		wantReads(t, reads(), 1)
		later := seek()
		time.Sleep(3 * time.Hour / 2)
		wantReads(t, reads(), 1, 51, 151, 1151)
		stop()
		later()
		time.Sleep(10 * time.Hour)
		wantReads(t, reads(), 1, 51, 151, 1151)
	})
}

// TestShortWaitsReadNoQueueForStrays, although someone waits at each moment.
func TestShortWaitsReadNoQueueForStrays(t *testing.T) {
	seeking(t, 1, func(seek func() func(), reads func() []int) {
		stop := seek()
		for range 20 {
			time.Sleep(900 * time.Millisecond)
			next := seek()
			stop()
			stop = next
		}
		stop()
		time.Sleep(time.Hour)
		wantReads(t, reads())
	})
}

// TestWaitersInALongQueueNeedNoGoroutineToSeekStrays: no read shows the whole
// queue, so they seek for as long as they wait.
func TestWaitersInALongQueueNeedNoGoroutineToSeekStrays(t *testing.T) {
	seeking(t, 20, func(seek func() func(), reads func() []int) {
		before := runtime.NumGoroutine()
		for range 1000 {
			defer seek()()
		}
		time.Sleep(50 * time.Second)
		wantReads(t, reads(), 1)
		if n := runtime.NumGoroutine() - before; n > 100 {
			t.Errorf("%d goroutines for 1000 waiters", n)
		}
	})
}

func wantReads(t *testing.T, got []int, want ...int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("read at %v, want %v", got, want)
	}
}
