package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// TestTryOnATurnThatIsOfNoUseWaitsForNobody: the session is suspended while the
// turn is idle. The Try does not join for others, which would get its error.
func TestTryOnATurnThatIsOfNoUseWaitsForNobody(t *testing.T) {
	retaining(t, func(w world) {
		w.once(w.a)
		w.a.link.Cut()
		time.Sleep(4 * time.Second)
		tried := make(chan error, 1)
		go func() {
			h, err := w.a.queue.Acquire(context.Background(), try)
			if err == nil {
				w.release(h)
			}
			tried <- err
		}()
		synctest.Wait()
		x := w.queued(w.a, w.Context(), time.Millisecond)
		time.Sleep(time.Second)
		w.a.link.Heal()
		if err := <-tried; err != nil && !errors.Is(err, coordinator.ErrTaken) {
			w.Errorf("try: %v", err)
		}
		if <-x.done; x.err != nil {
			w.Errorf("lock: %v", x.err)
		}
	})
}

// TestHolderOfAKeptTurnIsWantedByItsOwnProcess, whose callers have no entry.
func TestHolderOfAKeptTurnIsWantedByItsOwnProcess(t *testing.T) {
	retaining(t, func(w world) {
		for _, first := range []string{"caller", "Wanted"} {
			h := w.hold(w.a, w.Context(), exclusive)
			var x *waiter
			if first == "caller" {
				x = w.queued(w.a, w.Context(), 0)
			}
			wanted := make(chan error, 1)
			go func() { wanted <- h.Wanted(w.bounded(time.Minute)) }()
			synctest.Wait()
			if x == nil {
				x = w.queued(w.a, w.Context(), 0)
			}
			if err := <-wanted; err != nil {
				w.Errorf("%s first: wanted: %v", first, err)
			}
			w.release(h)
			<-x.done
		}
	})
}
