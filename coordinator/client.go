package coordinator

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Client is a process's connection to one service. Make one for each service
// and share it: one session serves thousands of names. It is safe for
// concurrent use.
type Client struct {
	engine *engine.Client
}

// New returns a client on a driver. It does no I/O: the first use opens the
// session. The client owns the driver and closes it.
func New(d driver.Driver, opts ...Option) (*Client, error) {
	c, err := engine.New(d, opts...)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Recipes, which are other packages, reach the engine of a client this way.
func init() {
	engine.Of = func(client any) *engine.Client {
		if c, ok := client.(*Client); ok && c != nil {
			return c.engine
		}
		return nil
	}
}

// String names the service, without secrets.
func (c *Client) String() string { return c.engine.String() }

// Identity is who this client is in listings.
func (c *Client) Identity() string { return c.engine.Identity() }

// Shared reports whether the client's URL names the layout of other clients,
// such as Curator, so that its queues are shared with them.
func (c *Client) Shared() bool { return c.engine.Sharer() != nil }

// Done is closed when Close begins. From then on every call returns ErrClosed.
func (c *Client) Done() <-chan struct{} { return c.engine.Done() }

// Close releases everything the client holds, at once instead of after the TTL:
// the contexts of holds end with ErrClosed, waiters return ErrClosed, the
// session is ended at the service, and every goroutine the client started has
// returned.
//
// The service is asked once, for up to two seconds with a context that has
// ended. If it does not answer before ctx ends or within the TTL, the error
// says so; local resources are released all the same, and what was held is free
// after the TTL. A second call waits for the first one and returns its error.
func (c *Client) Close(ctx context.Context) error { return c.engine.Close(ctx) }

// Session returns the live session. It opens one if there is none or the last
// one was lost. While the service is away it tries until ctx ends; the error is
// then ErrUnavailable together with the context's cause. ErrInvalid and
// ErrRefused come back at once, ErrClosed after Close.
//
// Recipes open the session themselves. Call this to find out early whether the
// service can be reached.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	s, err := c.engine.Session(ctx)
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Session is one session at the service, from its opening to its end. All holds
// of a client depend on it. It is safe for concurrent use.
type Session struct {
	engine *engine.Session
}

// ID is the service's name of the session, in hex.
func (s *Session) ID() string { return s.engine.ID() }

// TTL is the time to live that the service granted.
func (s *Session) TTL() time.Duration { return s.engine.TTL() }

// Margin is how much sooner than its TTL, after the last acknowledged renewal
// was sent, the session counts as lost.
func (s *Session) Margin() time.Duration { return s.engine.Margin() }

// Deadline is when the session counts as lost unless a renewal is acknowledged
// before. It carries a monotonic clock reading, which says nothing while the
// machine sleeps; see Err.
func (s *Session) Deadline() time.Time { return s.engine.Deadline() }

// State returns the session's state, and a channel that is closed when it
// changes. States that pass quickly may be missed; event.StateLost never is.
func (s *Session) State() (event.State, <-chan struct{}) { return s.engine.State() }

// Context ends when the session does, with ErrSessionLost or ErrClosed as its
// cause. Its Err does not read the clock; Session.Err does.
func (s *Session) Context() context.Context { return s.engine.Context() }

// Err returns nil while the session is alive, and then why it ended. It reads
// the clock: after a pause of the process it reports the loss before any timer
// has run.
//
// It does not wait, with one exception. If the deadline has passed by the wall
// clock alone, the machine may have slept, and Err asks the service first.
// Without an answer within TTL/4, or two seconds, the session is lost.
func (s *Session) Err() error { return s.engine.Err() }

// Service is the identity of the service and of the namespace in it: 32 hex
// digits, drawn at random and stored there by the first client that asks. It is
// part of the service's data: a restored backup has it, and a service that has
// lost its data gets a new one. It costs one read for each session; the first
// client of a namespace also writes it.
func (s *Session) Service(ctx context.Context) (string, error) {
	service, err := s.engine.Service(ctx)
	return service, engine.Describe(ctx, "service", s.engine.ID(), err)
}

// Token is the fencing token of a grant: see [driver.Token].
type Token = driver.Token

// ParseToken reads what Token.String wrote. Anything but a positive number in
// its shortest form is ErrInvalid.
func ParseToken(s string) (Token, error) { return driver.ParseToken(s) }
