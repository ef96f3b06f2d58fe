package engine

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// request runs one request with retries, bound to ctx and to the session's life, and
// returns the error that is true then.
//
// One attempt is given up after the time called patience, so that a request that is stuck on a silent member of
// the service is sent to another one. A join has more of it than the rest: its repetition costs more, and
// thousands that join at once may wait for each other.
func (s *Session) request(
	ctx context.Context, op string, line driver.Line, patience time.Duration, f func(context.Context) error,
) error {
	if err := s.Ended(); err != nil {
		return err
	}
	err := s.attempt(ctx, patience, f)
	if errors.Is(err, ErrUnavailable) && ctx.Err() == nil && s.ctx.Err() == nil {
		bound, stop := bind(ctx, s.ctx)
		defer stop()
		first := err
		err = s.retry(bound, op, line, func() error { // which pauses after the attempt that was made
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

// outcome is the error of an operation that failed with err, a driver's: the service's answer, if it is
// one; else why the session ended, if it did; else why ctx ended, together with ErrUnavailable if
// an answer is owed; else err.
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

func (s *Session) retry(ctx context.Context, op string, line driver.Line, f func() error) error {
	return s.client.retry.do(ctx, f, func(err error) {
		s.client.Observe(event.Event{Kind: event.Retried, Session: s.ID(), Op: op, Line: line, Err: err})
	})
}

// wrap adds the operation and the line to an error, nil excepted.
func wrap(op string, line driver.Line, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: string(line), Err: err}
}
