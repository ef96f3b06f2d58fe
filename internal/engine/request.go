package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// request runs one request with retries, bound to ctx and to the session's life, and
// returns the error that is true then.
//
// One attempt is given up after the time called patience, so that a request
// that is stuck on a silent member of the service is sent to another one. A
// join has more of it than the rest: its repetition costs more, and thousands
// that join at once may wait for each other.
func (s *Session) request(
	ctx context.Context, op string, queue driver.Queue, patience time.Duration, f func(context.Context) error,
) error {
	if err := s.Ended(); err != nil {
		return err
	}
	err := s.attempt(ctx, patience, f)
	if errors.Is(err, ErrUnavailable) && ctx.Err() == nil && s.ctx.Err() == nil {
		bound, stop := bind(ctx, s.ctx)
		defer stop()
		first := err
		err = s.retry(bound, op, queue, func() error { // which pauses after the attempt that was made
			if err := first; err != nil {
				first = nil
				return err
			}
			return s.attempt(ctx, patience, f)
		})
	}
	if err == nil {
		return nil
	}
	return s.outcome(ctx, err)
}

// attempt runs f once, for no longer than ctx, the session and patience last.
func (s *Session) attempt(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	bound, stop := bind(ctx, s.ctx)
	defer stop()
	bound, cancel := context.WithTimeout(bound, patience)
	defer cancel()
	err := f(bound)
	if err == nil || ctx.Err() != nil || s.ctx.Err() != nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return driver.Wrap(ErrUnavailable, err)
	}
	return err
}

// outcome is the error of an operation that failed with err, a driver's: the
// service's answer, if it is one; else why the session ended, if it did; else
// why ctx ended, together with ErrUnavailable if an answer is owed; else err.
func (s *Session) outcome(ctx context.Context, err error) error {
	if errors.Is(err, ErrSessionLost) {
		s.end(err)
	}
	if lost := s.Ended(); lost != nil {
		return lost
	}
	if definite(err) || ctx.Err() == nil {
		return err
	}
	state, _ := s.State()
	cause := context.Cause(ctx)
	if state == event.StateConnected && !errors.Is(err, ErrUnavailable) && errors.Is(ctx.Err(), context.Canceled) {
		return cause // cancelled between a request and its answer, which is no news about the service
	}
	return unavailable(err, cause)
}

func (s *Session) retry(ctx context.Context, op string, queue driver.Queue, f func() error) error {
	return s.client.retry.do(ctx, f, func(err error) {
		s.client.Observe(event.Event{Kind: event.Retried, Session: s.ID(), Op: op, Queue: queue, Err: err})
	})
}

// wrap adds the operation and the queue to an error, nil excepted.
func wrap(op string, queue driver.Queue, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: string(queue), Err: err}
}

// afterwards is how long Leave and Close try with a context that is dead already.
const afterwards = 2 * time.Second

// Afterwards is for recipes that give something back: it returns ctx, or, if
// that has ended already, one that lives for two seconds more. Giving back must
// work in the clean-up of a cancelled operation, which is where it is mostly
// called.
//
// What it returned once it returns as it is: of a call with several steps, each
// of which asks for it, none begins the two seconds anew, nor gets them when
// the context ends between two steps. But one that has ended as released or
// closed was a hold's own, or came from it, and was ended by the very call that
// gives back.
func Afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	marked := ctx.Value(afterwardsKey{}) != nil
	switch ended := ctx.Err() != nil; {
	case !ended && !marked:
		return context.WithValue(ctx, afterwardsKey{}, true), func() {}
	case !ended, marked && !endedByUs(ctx):
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), afterwardsKey{}, true), afterwards)
}

func endedByUs(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause == ErrReleased || cause == ErrClosed //nolint:errorlint // our own words
}

// afterwardsKey marks what Afterwards has returned.
type afterwardsKey struct{}

// bind returns a context for a driver that ends with ctx or with life, whichever is first, and has
// the values of ctx.
//
// Its cause is always context.Canceled, never that of ctx. The cause of a
// user's context is any error, often one of our own: an errgroup hands on its
// first error, and a hold's context ends with ErrSessionLost. A driver that
// returned it would seem to say that this session is lost, or the name taken.
func bind(ctx, life context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopCtx := context.AfterFunc(ctx, cancel)
	stopLife := context.AfterFunc(life, cancel)
	return bound, func() {
		stopCtx()
		stopLife()
		cancel()
	}
}

// definite says of an error that it is the service's answer or a refusal of our own, and not
// the want of an answer.
func definite(err error) bool {
	return notApplied(err) || errors.Is(err, errGone)
}

// notApplied says of a driver's error that the service surely changed nothing.
func notApplied(err error) bool {
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrStale) || errors.Is(err, ErrRefused) || errors.Is(err, ErrInvalid) ||
		errors.Is(err, ErrSessionLost)
}

// unavailable is the error of a request that had no answer when the context ended
// for cause. err is what the last attempt said.
func unavailable(err, cause error) error {
	if !errors.Is(err, ErrUnavailable) {
		err = ErrUnavailable
	}
	return &both{kind: &answerless{err}, cause: cause}
}

// answerless is a driver's ErrUnavailable without the end of the context that
// the driver was given. That one is ours, and is cancelled when the caller's
// has timed out: who asks errors.Is(err, context.Canceled) wants to know about
// his own.
type answerless struct{ error }

func (e *answerless) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.error, target)
}

func (e *answerless) As(target any) bool { return errors.As(e.error, target) }

func (e *answerless) Error() string {
	s := e.error.Error()
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		s = strings.ReplaceAll(s, ": "+ended.Error(), "")
	}
	return s
}

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
