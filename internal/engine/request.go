package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// request sends a request, and repeats it until it is answered, ctx ends or the
// session does. op and queue appear in events.
//
// p bounds an attempt, so that a request to an unresponsive member is repeated
// at another. The bound is longer for a join: repeating it costs more, and
// thousands of concurrent joins may wait for each other.
func (s *Session) request(
	ctx context.Context, op string, queue driver.Queue, p *patience,
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
	ctx context.Context, p *patience, f func(context.Context) error,
) error {
	bound, stop := bind(ctx, p.context())
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
	bound, stop := bind(ctx, s.ctx)
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

// patience bounds attempts. They share contexts, since a timer per attempt
// takes some 5 % of the client's CPU.
type patience struct {
	life  context.Context
	lasts time.Duration

	mu    sync.Mutex
	ctx   context.Context // of the latest attempts
	began time.Time
}

// context returns a context for an attempt that begins now. It ends with life,
// or with the cause context.DeadlineExceeded after at most lasts and at least
// three quarters of that.
func (p *patience) context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.ctx == nil || now.Sub(p.began) > p.lasts/4 {
		ctx, cancel := context.WithCancelCause(p.life)
		time.AfterFunc(p.lasts, func() { cancel(context.DeadlineExceeded) })
		p.ctx, p.began = ctx, now
	}
	return p.ctx
}

// bind returns a context for a driver. It has the values of ctx, and ends with
// ctx or life.
//
// Its cause is context.DeadlineExceeded when patience has ended, and else
// context.Canceled. It is never the cause of ctx, which is often one of our own
// errors: a hold's context ends with ErrSessionLost. If a driver returned that,
// it would seem to say that this session is lost.
func bind(ctx, life context.Context) (bound context.Context, stop func()) {
	bound, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stopCtx := context.AfterFunc(ctx, func() { cancel(nil) })
	stopLife := context.AfterFunc(life, func() {
		if context.Cause(life) == context.DeadlineExceeded { //nolint:errorlint // identity
			cancel(context.DeadlineExceeded)
		} else {
			cancel(nil)
		}
	})
	return bound, func() {
		stopCtx()
		stopLife()
		cancel(nil)
	}
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
