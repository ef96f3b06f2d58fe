package engine

import (
	"context"
	"math/rand/v2"
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
func (c *Client) PauseAgain(ctx context.Context, n int) error {
	most := firstPause << min(max(n-1, 0), mostPauses)
	timer := time.NewTimer(c.config.below(ctx, most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Vary returns a random time between a half and one and a half of d, which is
// positive.
func (c *Client) Vary(ctx context.Context, d time.Duration) time.Duration {
	return d/2 + c.config.below(ctx, d)
}

// below returns a random time of less than most.
func (c *Config) below(ctx context.Context, most time.Duration) time.Duration {
	if c.Source == nil {
		return rand.N(most)
	}
	return time.Duration(rand.New(c.Source(ctx)).Int64N(int64(most)))
}
