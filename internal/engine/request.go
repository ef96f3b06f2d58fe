package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// request sends one request, and repeats it until it is answered, ctx ends or
// the session does. op and queue appear in events.
//
// An attempt lasts no longer than patience, so that a request that is stuck on
// a silent member of the service is sent to another one. A join has more
// patience than the rest: its repetition costs more, and thousands that join at
// once may wait for each other.
func (s *Session) request(
	ctx context.Context, op string, queue driver.Queue, p *patience,
	f func(context.Context) error,
) error {
	if err := s.Ended(); err != nil {
		return err
	}
	s.silence.note(1, errNoAnswer)
	err := s.retry(ctx, op, queue, func() error {
		err := s.attempt(ctx, p, f)
		s.silence.note(0, err)
		return err
	})
	s.silence.note(-1, err)
	return s.outcome(ctx, err, false)
}

// attempt runs f once, for no longer than ctx, the session and p last.
func (s *Session) attempt(
	ctx context.Context, p *patience, f func(context.Context) error,
) error {
	bound, stop := bind(ctx, p.context())
	defer stop()
	err := f(bound)
	slow := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	alive := ctx.Err() == nil && s.ctx.Err() == nil
	if slow && alive && !errors.Is(err, ErrUnavailable) {
		return driver.Wrap(ErrUnavailable, context.DeadlineExceeded) // of patience
	}
	return err
}

// wait runs a request that is answered when something happens, and not before.
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

// change is a request that changes the service. Its error says whether it may
// have done so. ofSession means that what it writes is an entry of this
// session: when the session is lost, such a change is gone as well.
//
// What the driver says is read where the driver returns it: the error of the
// request may contain the cause of ctx, which is any error.
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

// outcome is the error of an operation for which the driver's last error was
// err: the service's answer, if err is one; else why the session ended, if it
// did; else why ctx ended, together with ErrUnavailable if the service owed an
// answer. A wait is owed none.
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
		return cause // cancelled before the answer, which is no news about the service
	}
	return unavailable(err, cause)
}

func (s *Session) retry(ctx context.Context, op string, queue driver.Queue, f func() error) error {
	return s.client.config.retry(ctx, s.ctx, f, func(err error) {
		s.client.Observe(event.Event{Kind: event.Retried,
			Session: s.ID(), Op: op, Queue: queue, Err: err})
	})
}

// patience is how long attempts last. They share contexts, since a timer for
// each attempt takes some 5 % of the client's CPU.
type patience struct {
	life  context.Context
	lasts time.Duration

	mu    sync.Mutex
	ctx   context.Context // of the latest attempts
	began time.Time
}

// context is for an attempt that begins now. It ends with life, or, with
// context.DeadlineExceeded as its cause, after lasts at the most and three
// quarters of that at the least.
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

// bind returns a context for a driver. It ends with ctx or with life, whichever
// is first, and has the values of ctx.
//
// Its cause is context.Canceled, or context.DeadlineExceeded when patience has
// ended. It is never that of ctx, which is often one of our own errors: a
// hold's context ends with ErrSessionLost. A driver that returned it would seem
// to say that this session is lost, or the name taken.
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

// releaseTime is how long a release goes on with a context that is dead
// already.
const releaseTime = 2 * time.Second

// ReleaseContext returns a context for all steps of a public call that releases
// something. It ends when ctx does, with the same cause. But if ctx is dead
// already, it lives for two seconds: releasing must work during clean-up. So it
// does if ctx comes from a hold, and ends by the very call.
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
