package recipes_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// TestLockDelayIsThatOfTheLatestLoss: after a loss of data tokens begin anew,
// so that the token of a lost holder may be that of an earlier one.
func TestLockDelayIsThatOfTheLatestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 20 * time.Second
		request := recipes.Request{Op: "lock", Mode: "x"}
		lose := func(svc *memory.Service) *recipes.Hold {
			c, _ := queueOn(t, svc.Driver())
			q, err := recipes.NewQueue(c, "test", "queue", recipes.WithLockDelay(delay))
			check(t, err)
			h, err := q.Acquire(t.Context(), request)
			check(t, err)
			svc.Expire(h.Session())
			synctest.Wait()
			check(t, c.Close(t.Context()))
			return h
		}
		old, empty := memory.NewService(), memory.NewService()
		d := &replaced{Driver: old.Driver()}
		d.now.Store(d.Driver)
		c, _ := queueOn(t, d)
		q, err := recipes.NewQueue(c, "test", "queue", recipes.WithLockDelay(delay))
		check(t, err)
		request.Try = true
		try := func(want time.Duration) {
			t.Helper()
			var taken *recipes.TakenError
			if _, err := q.Acquire(t.Context(), request); !errors.As(err, &taken) || taken.Delay != want {
				t.Errorf("try: %v, want a delay of %v", err, want)
			}
			synctest.Wait()
		}
		first := lose(old)
		try(delay)
		time.Sleep(delay / 2)
		try(delay / 2)
		time.Sleep(time.Hour)
		d.now.Store(empty.Driver())
		old.Expire(old.Sessions()[0])
		synctest.Wait()
		if second := lose(empty); second.Token() != first.Token() {
			t.Fatalf("tokens %d and %d; the test wants the same one", first.Token(), second.Token())
		}
		try(delay)
		time.Sleep(delay / 2)
		try(delay / 2)
		time.Sleep(delay / 2)
		h, err := q.Acquire(t.Context(), request)
		check(t, err)
		check(t, h.Release(t.Context()))
		check(t, c.Close(t.Context()))
	})
}
