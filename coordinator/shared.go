package coordinator

import (
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
	return driver.Line(kind + "/" + escape(name)), nil
}

// Sharer is the driver, if its lines are shared with other clients; else nil.
func (c *Client) Sharer() driver.Sharer {
	d, _ := c.driver.(driver.Sharer)
	return d
}
