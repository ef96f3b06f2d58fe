package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

var (
	// ErrOverrun is partition.ErrOverrun.
	ErrOverrun = errors.New("work has not returned")

	// ErrMoved is partition.ErrMoved.
	ErrMoved = errors.New("the shard moves to another member")
)

// worker works on one shard: it waits in the queue of the shard, holds it,
// calls work, drains and releases.
type worker struct {
	shard int
	ctx   context.Context
	end   context.CancelCauseFunc
	err   error // ErrOverrun, after it has ended
}

// start starts the worker of a shard. It ends with the membership, or when the
// shard moves, and then sends itself to m.ended.
func (m *member) start(shard int) {
	w := &worker{shard: shard}
	w.ctx, w.end = context.WithCancelCause(m.ctx)
	m.workers[shard] = w
	m.wg.Go(func() {
		defer func() {
			w.end(nil)
			m.ended <- w
		}()
		pauses := NewPauses()
		for w.ctx.Err() == nil {
			h, err := m.Shards[shard].Acquire(w.ctx, recipes.Request{Op: "hold", Mode: "x", Fresh: true})
			if err == nil {
				began := time.Now()
				if err, w.err = m.hold(w, h); time.Since(began) > LongestPause {
					pauses.Reset()
				}
			}
			if w.ctx.Err() != nil || w.err != nil {
				return
			}
			if !errors.Is(err, coordinator.ErrSessionLost) { // the membership's end is reported
				m.Report(err)
			}
			Pause(w.ctx, pauses.NextBackOff())
		}
	})
}

var errExited = errors.New("work has exited its goroutine")

// hold works on a shard that is held, and releases it. over is why it ended.
// The error is ErrOverrun. Work that calls runtime.Goexit, as a test's FailNow
// does, ends the hold: nobody would work on the shard.
func (m *member) hold(w *worker, h *recipes.Hold) (over, err error) {
	ctx, stop := h.Under(w.ctx)
	defer stop()
	handle := m.Handle(w.shard, h)
	done := m.Status.hold(Held{w.shard, h, handle})
	returned := make(chan struct{})
	go func() { // waited for below, unless it overruns
		defer close(returned)
		m.repeat(ctx, w.shard, handle)
	}()
	over = errExited
	select {
	case <-ctx.Done():
		over = context.Cause(ctx)
	case <-returned: // while ctx lives, repeat does not return
	}
	over = fmt.Errorf("baton: partition %q: shard %d: %w", m.Name, w.shard, over)
	select {
	case <-returned:
	case <-time.After(m.Drain):
		m.Status.overrun(returned)
		err = &coordinator.Error{Op: "run", Name: m.Name, Err: fmt.Errorf(
			"shard %d: %w within %v of the end of its context", w.shard, ErrOverrun, m.Drain)}
	}
	done()
	bound, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), leavePatience)
	defer cancel()
	_ = h.Release(bound) // continues in the background; a loss was logged
	return over, err
}

// repeat calls work until ctx ends.
func (m *member) repeat(ctx context.Context, shard int, handle any) {
	pauses := NewPauses()
	for ctx.Err() == nil {
		began := time.Now()
		err := m.Work(ctx, handle)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.Report(fmt.Errorf("baton: partition %q: work on shard %d: %w", m.Name, shard, err))
		}
		if time.Since(began) > LongestPause {
			pauses.Reset()
		}
		Pause(ctx, pauses.NextBackOff())
	}
}

// LongestPause is the longest pause before a failed step is repeated.
const LongestPause = 10 * time.Second

// NewPauses returns the pauses before a failed step is repeated.
func NewPauses() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(LongestPause), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0))
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
