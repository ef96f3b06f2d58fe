package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Harness is a service under test with its levers. Start and TTL are required.
type Harness struct {
	// Start begins one case and returns the service and its levers. It may
	// return the same service each time, since cases share no queues. It runs
	// inside the Bubble. It closes what it opens by t.Cleanup.
	Start func(t *testing.T) Service

	// TTL is a time to live that the service grants exactly. Some cases wait
	// for its end. It must be several times Settle, and longer than a driver
	// takes to reconnect after a Reset: 2 to 6 seconds on real services.
	TTL time.Duration

	// OddTTL is a time to live that the service does not grant exactly.
	// GrantedTTL is what it would grant instead.
	OddTTL, GrantedTTL time.Duration

	// Patience is how long the suite waits for what must happen soon, by
	// default 10 seconds. It matters only when something fails.
	Patience time.Duration

	// Settle is how long the suite waits to see that something does not happen,
	// or for bytes to reach the proxy. The default is 200 milliseconds.
	Settle time.Duration

	// Attempts is how often a case may run, by default once. It runs again only
	// after a failure with ErrUnavailable or ErrSessionLost, which real
	// services on a busy machine sometimes return.
	Attempts int

	// Bubble runs each case, for instance testing/synctest.Test for a driver
	// without I/O. If nil, cases run directly.
	Bubble func(t *testing.T, f func(t *testing.T))

	// Lacks names the levers that the harness lacks and the capabilities that
	// the driver lacks, with reasons.
	Lacks map[Lever]string

	// Without names the cases that cannot hold for a driver.Sharer, by prefixes
	// of their names, with reasons. For other drivers it is empty.
	Without map[string]string
}

// Service is one running service. A nil function is a lever that Harness.Lacks
// must name.
type Service struct {
	// Connect makes a client: a new driver on a new link.
	Connect func() (Client, error)

	// Expire ends a session at the service as an operator would. It does not
	// use the session's own client.
	Expire func(ctx context.Context, s driver.Session) error

	// Remove deletes the entry of a place as an operator would. The session
	// stays alive.
	Remove func(ctx context.Context, queue driver.Queue, p driver.Place) error

	// Restart stops the service and starts it again with its data.
	Restart func(ctx context.Context) error

	// Compact makes the service forget the history of its data up to now.
	Compact func(ctx context.Context) error

	// Stall lets the server that serves a client's waits stop to follow the
	// others, until heal. It goes on to answer the client with what it knows,
	// and to renew its sessions.
	Stall func(ctx context.Context, c Client) (heal func(), err error)

	// Watches counts the watches, and Sessions the live sessions, of all
	// clients at the service. Nothing else may use the service during the run.
	Watches, Sessions func(ctx context.Context) (int, error)
}

// Client is one client of a service. A nil Link, Events or External is a lever
// that Harness.Lacks must name.
type Client struct {
	Driver driver.Driver

	// Link is the network between this client and the service (lever Network).
	Link Link

	// Events counts the notifications of watches that the service has sent to
	// this client, without heartbeats and replies.
	Events func() int

	// External makes a driver on an external session or lease, which begins
	// with the call and has the TTL of the Harness. It uses Link. Its owner
	// does not renew it in time, as an owner whose renewals are late.
	External func(ctx context.Context) (driver.Driver, error)
}

// Link is the network between one client and the service. The package comment
// shows a proxy.
type Link interface {
	// HoldRequests holds what the client sends from now on, until Heal.
	HoldRequests()
	// HoldReplies holds what the service sends from now on, until Heal.
	HoldReplies()
	// Heal ends both, and delivers held messages in order.
	Heal()

	// Reset breaks the client's connections. Held messages are lost. Holds
	// apply to new connections.
	Reset()

	// Strand breaks the client's connections, but held requests stay under way.
	// Holds do not apply to new connections.
	Strand()
	// Deliver delivers the stranded requests.
	Deliver()
}

// Lever is an optional ability of a harness, or a capability of its driver.
type Lever string

// The levers: optional fields of Service, Client and Harness.
const (
	Expire   Lever = "Expire"
	Remove   Lever = "Remove"
	Restart  Lever = "Restart"
	Compact  Lever = "Compact"
	Stall    Lever = "Stall"
	Watches  Lever = "Watches"
	Sessions Lever = "Sessions"
	Events   Lever = "Events"
	Network  Lever = "Network" // Client.Link
	OddTTL   Lever = "OddTTL"  // Harness.OddTTL and GrantedTTL
	External Lever = "External"
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

// check returns an error if the harness lacks something that it does not name,
// or names something that it has, or cases that do not exist.
func (h Harness) check(s Service, c Client, driverHas driver.Capabilities) error {
	has := map[Lever]bool{
		Expire: s.Expire != nil, Remove: s.Remove != nil, Restart: s.Restart != nil,
		Compact: s.Compact != nil, Stall: s.Stall != nil, Watches: s.Watches != nil, Sessions: s.Sessions != nil,
		Events: c.Events != nil, Network: c.Link != nil, OddTTL: h.OddTTL > 0,
		External: c.External != nil,

		Handoff: driverHas.Handoff != nil, Converter: driverHas.Converter != nil,
		Writer: driverHas.Writer != nil, HeadWatcher: driverHas.HeadWatcher != nil,
		QueueWatcher: driverHas.QueueWatcher != nil, Operator: driverHas.Operator != nil,
	}
	var errs []error // all of them: an author starts with many
	for _, lever := range slices.Sorted(maps.Keys(has)) {
		why, named := h.Lacks[lever]
		switch {
		case !has[lever] && !named:
			errs = append(errs, fmt.Errorf("harness: without %s: provide it, or name it in Lacks with a reason", lever))
		case has[lever] && named:
			errs = append(errs, fmt.Errorf("harness: Lacks names %s, which is there", lever))
		case named && why == "":
			errs = append(errs, fmt.Errorf("harness: Lacks names %s without a reason", lever))
		}
	}
	for lever := range h.Lacks {
		if _, known := has[lever]; !known {
			errs = append(errs, fmt.Errorf("harness: Lacks names an unknown lever %q", lever))
		}
	}
	for name := range h.Without {
		named := func(c testCase) bool { return strings.HasPrefix(c.name, name) }
		if !slices.ContainsFunc(cases, named) {
			errs = append(errs, fmt.Errorf("harness: Without names %q, the prefix of no case", name))
		}
	}
	return errors.Join(errs...)
}

// withDefaults sets the defaults of fields that are zero.
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

// Full is a session with its capabilities as embedded fields, which may be nil.
// A wrapper that replaces some methods embeds it, and returns its capabilities
// by [Full.Offer].
type Full struct {
	driver.Session
	driver.Handoff
	driver.Converter
	driver.Writer
	driver.HeadWatcher
	driver.QueueWatcher
	driver.Operator
}

// WithCapabilities returns a session with its capabilities.
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

// instead returns w in place of a capability that is not nil.
func instead[T any](has, w T) T {
	if any(has) == nil {
		return has
	}
	return w
}
