package engine

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// OnSession runs a question on the session, and again on a new one when it turns out to be over.
func (c *Client) OnSession(ctx context.Context, f func(*Session) error) error {
	for {
		s, err := c.Session(ctx)
		if err != nil {
			return err
		}
		if err = f(s); !errors.Is(err, ErrSessionLost) || ctx.Err() != nil {
			return err
		}
	}
}

// Queues returns the queues in which somebody stands; see [driver.Session].
func (s *Session) Queues(ctx context.Context) ([]driver.Queue, error) {
	const op = "list queues"
	var queues []driver.Queue
	err := s.request(ctx, op, "", s.longer, func(ctx context.Context) (err error) {
		queues, err = s.can.Operator.Queues(ctx)
		return err
	})
	if err != nil {
		return nil, &Error{Op: op, Name: s.client.String(), Err: err}
	}
	return queues, nil
}

// Remove removes exactly the entry with a key and token from a queue, of
// whatever session. ErrRemoved means that it is not there (any more); it may be
// this call that has removed it, if the error says so. Likewise after other
// errors, and calling again is safe.
func (s *Session) Remove(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	lost := false
	err := s.change(ctx, "remove", queue, func(ctx context.Context) error {
		err := s.can.Operator.Remove(ctx, queue, key, token)
		lost = errors.Is(err, ErrSessionLost)
		return err
	})
	if e, ok := errors.AsType[*Error](err); ok && lost {
		e.Maybe = true // the entry may be another session's, and stay
	}
	return err
}
