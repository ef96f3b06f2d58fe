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

// Lines returns the lines in which somebody stands; see [driver.Session].
func (s *Session) Lines(ctx context.Context) ([]driver.Line, error) {
	const op = "list lines"
	var lines []driver.Line
	err := s.request(ctx, op, "", s.longer, func(ctx context.Context) (err error) {
		lines, err = s.can.Operator.Lines(ctx)
		return err
	})
	if err != nil {
		return nil, &Error{Op: op, Name: s.client.String(), Err: err}
	}
	return lines, nil
}

// Remove removes exactly the entry with a key and token from a line, of
// whatever session. ErrRemoved means that it is not there (any more); it may be
// this call that has removed it, if the error says so. Likewise after other
// errors, and calling again is safe.
func (s *Session) Remove(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	lost := false
	err := s.change(ctx, "remove", line, func(ctx context.Context) error {
		err := s.can.Operator.Remove(ctx, line, key, token)
		lost = errors.Is(err, ErrSessionLost)
		return err
	})
	if e, ok := errors.AsType[*Error](err); ok && lost {
		e.Maybe = true // the entry may be another session's, and stay
	}
	return err
}
