package coordinatortest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Harness is a service under test together with what the suite may do to it.
// Start and TTL are required.
type Harness struct {
	// Start begins one case and returns the service and its levers. It may
	// return the same service each time, since every case uses queues of its
	// own. It runs inside the Bubble; what it opens is closed by t.Cleanup.
	Start func(t *testing.T) Service

	// TTL is a time to live that the service grants exactly. Some cases wait
	// for it to pass. It must be several times Settle, and longer than a driver
	// takes to connect again after a Reset: 2 to 6 seconds on real services.
	TTL time.Duration

	// OddTTL is a time to live that the service does not grant exactly, and
	// GrantedTTL the one that it would grant in its place.
	OddTTL, GrantedTTL time.Duration

	// Patience is how long the suite waits for what must happen soon. The
	// default is 10 seconds. It only matters when something fails.
	Patience time.Duration

	// Settle is how long the suite waits to see that something does not happen,
	// or for bytes to reach the proxy. The default is 200 milliseconds.
	Settle time.Duration

	// Attempts is how often a case may be run: again only after a failure in
	// which the driver said that the service was unavailable or that the
	// session was lost, as on a busy machine a real service is now and then.
	// The default is 1.
	Attempts int

	// Bubble runs each case; testing/synctest.Test for a driver without I/O.
	// Nil calls it directly.
	Bubble func(t *testing.T, f func(t *testing.T))

	// Lacks names the levers that this harness does not have, and the
	// capabilities that the driver does not have, with reasons.
	Lacks map[Lever]string

	// Without names the cases that cannot hold for a driver.Sharer, by the
	// beginnings of their names, with reasons. For other drivers it is empty.
	Without map[string]string
}

// Service is one running service. A nil function is a lever that Harness.Lacks
// must name.
type Service struct {
	// Connect makes a client: a driver of its own, on a link of its own.
	Connect func() (Client, error)

	// Expire ends a session at the service as an operator would, and returns
	// when the service has done it. The session's own client is not asked.
	Expire func(ctx context.Context, s driver.Session) error

	// Remove deletes the entry of a place as an operator would; its session
	// lives on.
	Remove func(ctx context.Context, queue driver.Queue, p driver.Place) error

	// Restart stops the service and starts it again with its data.
	Restart func(ctx context.Context) error

	// Compact makes the service forget the history of its data up to now.
	Compact func(ctx context.Context) error

	// Watches counts the watches that are open at the service, of whatever
	// client: nothing else may use the service during the run. The same goes
	// for Sessions.
	Watches func(ctx context.Context) (int, error)

	// Sessions counts the sessions that are alive at the service, of whatever
	// client.
	Sessions func(ctx context.Context) (int, error)
}

// Client is one client of a service. A nil Link or Events is a lever that
// Harness.Lacks must name.
type Client struct {
	Driver driver.Driver

	// Link is the network between this client and the service (lever Network).
	Link Link

	// Events counts the notifications of watches that the service has sent to
	// this client, heartbeats and replies apart.
	Events func() int
}

// Link holds, breaks and heals what passes between one client and the service.
// See the package comment for how a proxy does it.
type Link interface {
	// HoldRequests keeps back what the client sends from now on, until Heal.
	HoldRequests()
	// HoldReplies keeps back what the service sends from now on, until Heal.
	HoldReplies()
	// Heal ends both and passes on what was kept back, in order.
	Heal()

	// Reset breaks the client's connections; what was kept back is lost. New
	// connections work, under the holds that are in force.
	Reset()

	// Strand breaks the client's connections for the client, but requests that
	// were kept back stay under way. New connections work unheld.
	Strand()
	// Deliver lets what Strand left under way reach the service.
	Deliver()
}

// Lever names something that a harness can do, or a capability of its driver.
type Lever string

// The levers are the fields of Service, Client and Harness that may be left
// out.
const (
	Expire   Lever = "Expire"
	Remove   Lever = "Remove"
	Restart  Lever = "Restart"
	Compact  Lever = "Compact"
	Watches  Lever = "Watches"
	Sessions Lever = "Sessions"
	Events   Lever = "Events"
	Network  Lever = "Network" // Client.Link
	OddTTL   Lever = "OddTTL"  // Harness.OddTTL and GrantedTTL
)

// The capabilities of driver.Capabilities that have cases.
const (
	Handoff      Lever = "Handoff"
	Converter    Lever = "Converter"
	Writer       Lever = "Writer"
	HeadWatcher  Lever = "HeadWatcher"
	QueueWatcher Lever = "QueueWatcher"
	Operator     Lever = "Operator"
)

// check fails on a harness that lacks something without naming it, or names
// something that it has, or cases that there are not: all hide what was
// checked.
func (h Harness) check(s Service, c Client, driverHas driver.Capabilities) error {
	has := map[Lever]bool{
		Expire: s.Expire != nil, Remove: s.Remove != nil, Restart: s.Restart != nil,
		Compact: s.Compact != nil, Watches: s.Watches != nil, Sessions: s.Sessions != nil,
		Events: c.Events != nil, Network: c.Link != nil, OddTTL: h.OddTTL > 0,

		Handoff: driverHas.Handoff != nil, Converter: driverHas.Converter != nil,
		Writer: driverHas.Writer != nil, HeadWatcher: driverHas.HeadWatcher != nil,
		QueueWatcher: driverHas.QueueWatcher != nil, Operator: driverHas.Operator != nil,
	}
	for lever, there := range has {
		if why, named := h.Lacks[lever]; there == named || named && why == "" {
			return fmt.Errorf("harness: %s is there: %t; Lacks names it: %t, with the reason %q",
				lever, there, named, why)
		}
	}
	for lever := range h.Lacks {
		if _, known := has[lever]; !known {
			return fmt.Errorf("harness: Lacks names %q, which is no lever", lever)
		}
	}
	for name := range h.Without {
		named := func(c testCase) bool { return strings.HasPrefix(c.name, name) }
		if !slices.ContainsFunc(cases, named) {
			return fmt.Errorf("harness: Without names %q, with which no case begins", name)
		}
	}
	return nil
}

// withDefaults fills in what was left out.
func (h Harness) withDefaults() Harness {
	if h.Patience <= 0 {
		h.Patience = 10 * time.Second
	}
	if h.Settle <= 0 {
		h.Settle = 200 * time.Millisecond
	}
	h.Attempts = max(h.Attempts, 1)
	if h.Bubble == nil {
		h.Bubble = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	return h
}

// Full is a session whose capabilities are methods of its own, nil where it has
// none. Wrappers that replace some methods of a session embed it, and return
// themselves by [Full.Offer].
type Full struct {
	driver.Session
	driver.Handoff
	driver.Converter
	driver.Writer
	driver.HeadWatcher
	driver.QueueWatcher
	driver.Operator
}

// WithCapabilities returns a session with its capabilities as methods.
func WithCapabilities(s driver.Session) Full {
	c := s.Capabilities()
	return Full{s, c.Handoff, c.Converter, c.Writer, c.HeadWatcher, c.QueueWatcher, c.Operator}
}

// Offer returns the capabilities that the session has, as the methods of w.
func (f Full) Offer(w interface {
	driver.Handoff
	driver.Converter
	driver.Writer
	driver.HeadWatcher
	driver.QueueWatcher
	driver.Operator
},
) driver.Capabilities {
	c := f.Capabilities()
	c.Handoff = instead[driver.Handoff](c.Handoff, w)
	c.Converter = instead[driver.Converter](c.Converter, w)
	c.Writer = instead[driver.Writer](c.Writer, w)
	c.HeadWatcher = instead[driver.HeadWatcher](c.HeadWatcher, w)
	c.QueueWatcher = instead[driver.QueueWatcher](c.QueueWatcher, w)
	c.Operator = instead[driver.Operator](c.Operator, w)
	return c
}

// instead returns w in place of a capability that there is.
func instead[T any](has, w T) T {
	if any(has) == nil {
		return has
	}
	return w
}
