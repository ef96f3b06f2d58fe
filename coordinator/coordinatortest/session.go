package coordinatortest

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

// Full is a session whose capabilities are methods of its own. Wrappers that replace some
// methods of a session embed it, and return themselves by [Full.Offer].
//
// The methods of a capability that the session lacks panic: a case of the suite ends
// there, and counts as not checked.
type Full struct {
	driver.Session
	driver.Handoff
	driver.Converter
	driver.Writer
	driver.HeadWatcher
	driver.Operator
}

// session is what the cases call.
type session = Full

// WithCapabilities returns a session with its capabilities as methods.
func WithCapabilities(s driver.Session) Full {
	c := s.Capabilities()
	full := Full{s, c.Handoff, c.Converter, c.Writer, c.HeadWatcher, c.Operator}
	if full.Handoff == nil {
		full.Handoff = lacking{"Handoff"}
	}
	if full.Converter == nil {
		full.Converter = lacking{"Converter"}
	}
	if full.Writer == nil {
		full.Writer = lacking{"Writer"}
	}
	if full.HeadWatcher == nil {
		full.HeadWatcher = lacking{"HeadWatcher"}
	}
	if full.Operator == nil {
		full.Operator = lacking{"Operator"}
	}
	return full
}

// Optional are the methods of all capabilities that Full has.
type Optional interface {
	driver.Handoff
	driver.Converter
	driver.Writer
	driver.HeadWatcher
	driver.Operator
}

// Offer returns the capabilities that the session has, as the methods of w.
func (f Full) Offer(w Optional) driver.Capabilities {
	c := f.Capabilities()
	if c.Handoff != nil {
		c.Handoff = w
	}
	if c.Converter != nil {
		c.Converter = w
	}
	if c.Writer != nil {
		c.Writer = w
	}
	if c.HeadWatcher != nil {
		c.HeadWatcher = w
	}
	if c.Operator != nil {
		c.Operator = w
	}
	return c
}

// lacking stands for a capability that the driver does not have. Its methods panic with
// itself, which ends the case.
type lacking struct{ capability Lever }

func (l lacking) Error() string {
	return fmt.Sprintf("not checked: the driver has no %s", l.capability)
}

func (l lacking) Follow(context.Context, driver.Line, driver.Place, driver.Place) (bool, error) {
	panic(l)
}

func (l lacking) Pass(context.Context, driver.Line, driver.Place) error { panic(l) }

func (l lacking) Convert(context.Context, driver.Line, driver.Joined, string, []byte) (driver.Place, error) {
	panic(l)
}

func (l lacking) Write(context.Context, driver.Line, driver.Place, []byte) error { panic(l) }

func (l lacking) Head(context.Context, driver.Line, driver.Version) (driver.Head, error) { panic(l) }

func (l lacking) Check(context.Context, driver.Line, string, driver.Token) error { panic(l) }

func (l lacking) Remove(context.Context, driver.Line, string, driver.Token) error { panic(l) }

func (l lacking) Lines(context.Context) ([]driver.Line, error) { panic(l) }
