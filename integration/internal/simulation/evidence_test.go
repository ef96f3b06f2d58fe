package simulation

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// TestRefusedOpeningConcernsAllThatWaitForIt: they get its error until another
// attempt has ended.
func TestRefusedOpeningConcernsAllThatWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Memory, settings{seed: 1})
		time.Sleep(time.Second)
		s, began := w.slots[0], w.now()
		opener := context.WithValue(t.Context(), actorKey{}, "c0.0")
		waiter := &actor{w: w, slot: s, name: w.names[0], label: "c0.1"}
		judge := func() (violations int) {
			waiter.since = w.now()
			before := len(w.bad)
			waiter.judgeError(calling{ctx: t.Context(), what: "lock", began: w.now(),
				err: fmt.Errorf("lock: %w", coordinator.ErrRefused)})
			return len(w.bad) - before
		}
		w.opened(opener, s, began, driver.ErrRefused)
		if len(w.bad) != 1 {
			t.Errorf("an opening that the world did not refuse: %q", w.bad)
		}
		w.note(func() { w.wasRefused(s, Message{Context: opener, Op: "open"}) })
		w.opened(opener, s, began, driver.ErrRefused)
		time.Sleep(time.Second)
		if judge() != 0 {
			t.Errorf("a caller that waits for the session: %q", w.bad)
		}
		w.opened(opener, s, w.now(), driver.ErrUnavailable)
		time.Sleep(time.Second)
		if judge() != 1 {
			t.Error("a refusal without cause is no violation")
		}
	})
}
