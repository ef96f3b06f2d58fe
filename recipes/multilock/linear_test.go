package multilock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes/multilock"
)

// cost is what one step of a test took, in operations.
type cost struct {
	asked float64 // questions to the caller's context
	bytes float64 // allocated
}

// TestCostOfASetIsLinearInItsMembers: eight times the members make no step cost
// much more than eight times as much.
func TestCostOfASetIsLinearInItsMembers(t *testing.T) {
	const few, many = 50, 400
	small, large := costs(t, few), costs(t, many)
	for step, a := range small {
		b := large[step]
		t.Logf("%-24s %6.0f and %7.0f questions, %8.0f and %9.0f bytes", step, a.asked, b.asked, a.bytes, b.bytes)
		const slack = 3 // half of what is allowed is noise; a square would be 8
		if b.asked > slack*many/few*(a.asked+1) || b.bytes > slack*many/few*a.bytes {
			t.Errorf("%s: %v with %d members, %v with %d", step, a, few, b, many)
		}
	}
}

// costs runs each step with sets of n members.
func costs(t *testing.T, n int) map[string]cost {
	t.Helper()
	costs := make(map[string]cost)
	at(t, 1, func(s *site) {
		c, link := s.client(0)
		var outer, inner []string
		for i := range n {
			outer, inner = append(outer, fmt.Sprint("a", i)), append(inner, fmt.Sprint("b", i))
		}
		a, b := s.set(c, outer...), s.set(c, inner...)
		var asked atomic.Int64
		ctx := counting{s.Context(), &asked}
		step := func(name string, f func() error) {
			s.Helper()
			var before, after runtime.MemStats
			asked.Store(0)
			runtime.ReadMemStats(&before)
			err := f()
			synctest.Wait()
			runtime.ReadMemStats(&after)
			if err != nil {
				s.Fatal(name, err)
			}
			costs[name] = cost{float64(asked.Load()), float64(after.TotalAlloc - before.TotalAlloc)}
		}
		lose := func() error {
			link.Cut()
			time.Sleep(time.Minute)
			link.Heal()
			return nil
		}
		var l, m, again *multilock.Lock
		lock := func() (err error) { l, err = a.Lock(ctx); return err }
		nest := func() (err error) { m, err = b.Lock(l.Context()); return err }
		step("the first lock", lock) // opens the session
		step("unlock", func() error { return l.Unlock(ctx) })
		step("lock", lock)
		step("Err", func() error { return l.Err() })
		step("re-enter", func() (err error) { again, err = a.Lock(l.Context()); return err })
		step("release a re-entry", func() error { return again.Unlock(ctx) })
		step("lock within", nest)
		step("unlock within", func() error { return m.Unlock(ctx) })
		time.Sleep(time.Second) // until each member is watched
		step("a name is removed", func() error {
			queue := driver.Queue("mutex/" + outer[n/2])
			s.services[0].Remove(queue, s.services[0].Snapshot(queue)[0].Key)
			<-l.Context().Done()
			return nil
		})
		_ = l.Unlock(ctx)
		step("Do", func() error {
			return a.Do(ctx, func(ctx context.Context, _ *multilock.Lock) error {
				return b.Do(ctx, func(context.Context, *multilock.Lock) error { return nil })
			})
		})
		step("lock", lock)
		step("loss", lose)
		_ = l.Unlock(ctx)
		step("lock", lock)
		step("lock within", nest)
		time.Sleep(time.Second)
		step("loss within", lose)
		_, _ = m.Unlock(ctx), l.Unlock(ctx)
	})
	return costs
}
