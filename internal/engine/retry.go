package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/baton-go/baton/coordinator/driver"
)

// Retry says how long to pause between attempts while the service is unavailable.
// The number of attempts is not limited: every call ends by its context or with its
// session. The zero value of a field means its default.
type Retry struct {
	// Initial is the first pause: 50 ms by default.
	Initial time.Duration
	// Max is the longest pause, before jitter: 500 ms by default, so that clean-up is done
	// within a second of the service's return.
	Max time.Duration
	// Jitter spreads each pause by ± this share of it, 0 to 1: 0.5 by default. Negative
	// means none, for tests in virtual time.
	Jitter float64
}

func (r Retry) check() error {
	if r.Initial < 0 || r.Max < 0 || r.Jitter > 1 {
		return invalid("retry %+v: pauses must not be negative, and jitter at most 1", r)
	}
	if initial, longest := or(r.Initial, initialPause), or(r.Max, longestPause); initial > longest {
		return invalid("retry: initial pause %v is above the longest, %v", initial, longest)
	}
	return nil
}

const (
	initialPause = 50 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// pauses returns a fresh sequence of pauses.
func (r Retry) pauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(or(r.Initial, initialPause)),
		backoff.WithMaxInterval(or(r.Max, longestPause)),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(max(0, or(r.Jitter, 0.5))),
		backoff.WithMaxElapsedTime(0),
	)
	b.Reset()
	return b
}

// do calls op until it returns anything but ErrUnavailable, or ctx ends. It returns
// op's last error; when ctx ended during a pause that is the ErrUnavailable which
// caused the pause.
func (r Retry) do(ctx context.Context, op func() error, notify func(error)) error {
	var last error
	err := backoff.RetryNotify(func() error {
		last = op()
		if last != nil && (!errors.Is(last, driver.ErrUnavailable) || ctx.Err() != nil) {
			return backoff.Permanent(last)
		}
		return last
	}, backoff.WithContext(r.pauses(), ctx), func(err error, _ time.Duration) { notify(err) })
	if err == nil {
		return nil
	}
	return last
}

// or returns v, or def when v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
