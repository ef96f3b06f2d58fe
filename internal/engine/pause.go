package engine

import (
	"context"
	"math/rand" //nolint:depguard // the simulation seeds its global source, as that of the back-off
	"time"
)

const (
	firstPause = 5 * time.Millisecond
	mostPauses = 8 // doublings of it
)

// PauseAgain waits before a step is repeated that has failed n times, one after
// the other: after a write that another client has overtaken, or a lost
// session. It waits for a random time: up to 5 ms for the first, and up to 1.28
// s after the ninth. If ctx ends first, it returns the cause.
//
// Without it, writers that compete would fail together again, and a service
// that fails at once would get as many requests as it can answer.
func PauseAgain(ctx context.Context, n int) error {
	most := firstPause << min(max(n-1, 0), mostPauses)
	timer := time.NewTimer(time.Duration(rand.Int63n(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
