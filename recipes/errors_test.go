package recipes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// TestErrorOfAFailedAcquireSaysWhatIsTrue: the caller holds nothing, whatever
// becomes of the request, and a deadline shorter than a round trip says nothing
// about the service.
func TestErrorOfAFailedAcquireSaysWhatIsTrue(t *testing.T) {
	inWorld(t, func(w world) {
		w.session(w.a)
		w.on(memory.OpJoin, memory.Fate{DelayReply: 50 * time.Millisecond})
		_, err := w.a.queue.Acquire(w.bounded(10*time.Millisecond), write)
		wantErr(w.T, err, coordinator.ErrUnavailable)
		wantErr(w.T, err, context.DeadlineExceeded)
		if text := err.Error(); coordinator.MayHaveApplied(err) || strings.Contains(text, "may have been applied") ||
			strings.Contains(text, coordinator.ErrUnavailable.Error()) {
			w.Error(err)
		}
		time.Sleep(time.Second)
		w.wantModes("")
		w.svc.Stop()
		_, err = w.a.queue.Acquire(w.bounded(time.Second), write)
		if err == nil || strings.Count(err.Error(), coordinator.ErrUnavailable.Error()) != 1 ||
			strings.Count(err.Error(), context.DeadlineExceeded.Error()) != 1 {
			w.Error(err)
		}
		w.svc.Start()
		w.svc.OnRequest(nil)
	})
}

// TestErrorsNameBatonOnce, also if the cause is one of Baton's errors.
func TestErrorsNameBatonOnce(t *testing.T) {
	inWorld(t, func(w world) {
		_, err := w.a.queue.Acquire(w.Context(), show(strings.Repeat("x", recipes.MaxPayload+1)))
		wantErr(w.T, err, coordinator.ErrInvalid)
		if strings.Count(err.Error(), "baton: ") != 1 || strings.Count(err.Error(), "invalid") != 1 {
			w.Error(err)
		}
	})
}

// TestErrAfterTheReleaseOfALostHoldIsTheLoss, and not that of a later loss.
func TestErrAfterTheReleaseOfALostHoldIsTheLoss(t *testing.T) {
	inWorld(t, func(w world) {
		before := w.hold(w.a, w.Context(), write)
		inner := w.hold(w.a, before.Context(), write)
		w.release(inner)
		w.svc.Expire(before.Session())
		<-before.Context().Done()
		wantErr(w.T, before.Release(w.Context()), coordinator.ErrSessionLost)
		wantErr(w.T, before.Err(), coordinator.ErrSessionLost)
		if err := inner.Err(); !errors.Is(err, coordinator.ErrReleased) || errors.Is(err, coordinator.ErrSessionLost) {
			w.Errorf("a handle that was released before the loss: %v", err)
		}
	})
}
