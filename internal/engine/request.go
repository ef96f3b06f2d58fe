package engine

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/patience"
)

// request sends a request, and repeats it until it is answered, ctx ends or the
// session does. op and queue appear in events.
//
// p bounds an attempt, so that a request to an unresponsive member is repeated
// at another. The bound is longer for a join: repeating it costs more, and
// thousands of concurrent joins may wait for each other.
func (s *Session) request(
	ctx context.Context, op string, queue driver.Queue, p *patience.Patience,
	f func(context.Context) error,
) error {
	return s.repeat(ctx, op, queue, func() error { return s.attempt(ctx, p, f) })
}

// repeat is request, with attempts that bound themselves.
func (s *Session) repeat(
	ctx context.Context, op string, queue driver.Queue, attempt func() error,
) error {
	if err := s.Ended(); err != nil {
		return err
	}
	s.silence.begin()
	defer s.silence.end()
	var failed error // of the latest attempt that failed by itself
	err := s.retry(ctx, op, queue, func() error {
		err := attempt()
		s.silence.attempted(err)
		if errors.Is(err, ErrUnavailable) {
			failed = err
		}
		return err
	})
	if failed != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		// ctx has ended in the middle of an attempt, which says nothing. That
		// before failed for a reason.
		err = failed
	}
	return s.outcome(ctx, err, false)
}

// attempt calls f once, with a context that ends with ctx, the session and p.
func (s *Session) attempt(
	ctx context.Context, p *patience.Patience, f func(context.Context) error,
) error {
	bound, stop := patience.Bind(ctx, p.Context())
	defer stop()
	return s.slow(ctx, f(bound))
}

// slow makes ErrUnavailable of the error of an attempt that patience has ended.
func (s *Session) slow(ctx context.Context, err error) error {
	slow := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	alive := ctx.Err() == nil && s.ctx.Err() == nil
	if slow && alive && !errors.Is(err, ErrUnavailable) {
		return driver.Wrap(ErrUnavailable, context.DeadlineExceeded)
	}
	return err
}

// wait sends a request that the service answers when an event occurs.
func (s *Session) wait(
	ctx context.Context, op string, queue driver.Queue, f func(context.Context) error,
) error {
	if err := s.Ended(); err != nil {
		return err
	}
	bound, stop := patience.Bind(ctx, s.requests)
	defer stop()
	err := s.retry(bound, op, queue, func() error { return f(bound) })
	return s.outcome(ctx, err, true)
}

// change sends a request that changes the service. Its error says whether it
// may have been applied. ofSession: the change concerns an entry of this
// session, so it ends with the session.
//
// The driver's error is examined here: the error of request may wrap the cause
// of ctx, which may be any error.
func (s *Session) change(
	ctx context.Context, op string, queue driver.Queue, ofSession bool,
	f func(context.Context) error,
) error {
	uncertain := false
	err := s.request(ctx, op, queue, s.patience, func(ctx context.Context) error {
		err := f(ctx)
		uncertain = uncertain || unanswered(err) || !ofSession && errors.Is(err, ErrSessionLost)
		return err
	})
	return maybe(op, queue, err, uncertain)
}

// outcome is the error of an operation whose last error from the driver was
// err: why the session ended, if it did; else the service's answer, if err is
// one; else the cause of ctx, with ErrUnavailable unless the operation is a
// wait, which need not be answered.
func (s *Session) outcome(ctx context.Context, err error, wait bool) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrSessionLost) {
		s.end(err)
	}
	if lost := s.Ended(); lost != nil {
		return lost
	}
	switch {
	case errors.Is(err, driver.ErrGone):
		return ErrRemoved
	case !unanswered(err) || ctx.Err() == nil:
		return err
	}
	state, _ := s.State()
	cause := context.Cause(ctx)
	// A deadline can reach ctx as the cause of a cancellation: see
	// ReleaseContext.
	cancelled := errors.Is(ctx.Err(), context.Canceled) &&
		cause != context.DeadlineExceeded //nolint:errorlint // identity is meant
	if state == event.StateConnected && !errors.Is(err, ErrUnavailable) && (wait || cancelled) {
		return cause // cancelled by the caller: the service may well be available
	}
	return unavailable(err, cause)
}

func (s *Session) retry(ctx context.Context, op string, queue driver.Queue, f func() error) error {
	return s.client.config.retry(ctx, s.ctx, f, func(err error) {
		s.client.Observe(event.Event{Kind: event.Retried,
			Session: s.ID(), Op: op, Queue: queue, Err: err})
	})
}

// releaseTime is how long a release lasts with a context that has ended.
const releaseTime = 2 * time.Second

// ReleaseContext returns a context for all steps of a public call that releases
// a hold. It ends with ctx, with the same cause. But it lives for two more
// seconds if ctx has already ended, since releasing must work during clean-up,
// and if ctx is a hold's context, which the call itself ends.
func ReleaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	}
	bound, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if cause == ErrReleased || cause == ErrClosed { //nolint:errorlint // our own words
			cause = context.DeadlineExceeded
			select {
			case <-time.After(releaseTime):
			case <-bound.Done():
			}
		}
		cancel(cause)
	})
	return bound, func() {
		stop()
		cancel(nil)
	}
}
