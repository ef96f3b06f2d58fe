package engine

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

// Line returns the line of a recipe's name, as LineOf does. Where lines are shared with other clients, a name is what they
// call it, and a kind that they have nothing like is ErrInvalid.
func (c *Client) Line(kind, name string) (driver.Line, error) {
	d := c.Sharer()
	if d == nil {
		return LineOf(kind, name)
	}
	name, err := d.SharedName(kind, name)
	if err != nil {
		return "", fmt.Errorf("baton: %w", err)
	}
	return driver.NewLine(kind, name), nil
}

// Sharer is the driver, if its lines are shared with other clients; else nil.
func (c *Client) Sharer() driver.Sharer {
	d, _ := c.driver.(driver.Sharer)
	return d
}

// Revoked waits until another client has asked a contender of this session to give up; see [driver.Revoker]. Where lines have no
// such requests the error is ErrInvalid, and when own is not in the line any more, ErrRemoved.
func (s *Session) Revoked(ctx context.Context, line driver.Line, own driver.Place) error {
	const op = "await a revocation"
	if err := s.Ended(); err != nil {
		return wrap(op, line, err)
	}
	return s.wait(ctx, op, line, func(ctx context.Context) error { return removed(s.can.Revoker.Revoked(ctx, line, own)) })
}
