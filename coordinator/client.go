package coordinator

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Client is a process's connection to one service. Its session serves thousands
// of names, so share one client. It is safe for concurrent use.
type Client struct {
	engine *engine.Client
}

// New returns a client. It does no I/O: the first use opens the session.
// Client.Close closes d, but not an etcd client given to etcd.FromClient.
func New(d driver.Driver, opts ...Option) (*Client, error) {
	c, err := engine.New(d, opts...)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Package recipes gets the engine of a client from here: users of a client must
// not see it.
func init() {
	engine.Of = func(client any) *engine.Client {
		if c, ok := client.(*Client); ok && c != nil {
			return c.engine
		}
		return nil
	}
}

// String returns the URL of the service without secrets.
func (c *Client) String() string { return c.engine.String() }

// Identity returns the name that WithIdentity sets.
func (c *Client) Identity() string { return c.engine.Identity() }

// Shared reports whether clients of another library use the same queues.
func (c *Client) Shared() bool { return c.engine.Sharer() != nil }

// Done is closed when Close begins. Later calls to the service get ErrClosed.
func (c *Client) Done() <-chan struct{} { return c.engine.Done() }

// Close ends the session, which releases everything the client holds, and waits
// for the client's goroutines. Holds and queued calls end with ErrClosed. Close
// does not wait for work: the next holder may begin while yours still unwinds.
// On shutdown cancel the contexts given to Do and Run, wait for these calls to
// return, and then call Close.
//
// Close waits for the service's answer until ctx ends, but not longer than the
// TTL. Without an answer it returns an error, and the names are free after the
// TTL. If ctx has already ended, Close waits up to two seconds. A second call
// waits for the first one and returns its error. Within the same bounds Close
// waits for the logger and the observers; if they block, that is no error of
// Close.
func (c *Client) Close(ctx context.Context) error { return c.engine.Close(ctx) }

// Session returns the live session, or opens one. While the service does not
// answer, it retries until ctx ends. Recipes open the session themselves; call
// Session to find out early whether the service can be reached.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	s, err := c.engine.Session(ctx)
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Session is one session at the service. All holds of a client depend on it. It
// is safe for concurrent use.
type Session struct {
	engine *engine.Session
}

// ID returns the service's ID of the session, in hex.
func (s *Session) ID() string { return s.engine.ID() }

// TTL returns the time to live that the service granted.
func (s *Session) TTL() time.Duration { return s.engine.TTL() }

// Margin returns the safety margin: the session counts as lost at TTL - Margin
// after the last acknowledged renewal was sent.
func (s *Session) Margin() time.Duration { return s.engine.Margin() }

// Deadline returns the time at which the session counts as lost if no renewal
// is acknowledged before it.
func (s *Session) Deadline() time.Time { return s.engine.Deadline() }

// State returns the session's state, and a channel that is closed when it
// changes. A caller may miss a short state, but never event.StateLost.
func (s *Session) State() (event.State, <-chan struct{}) { return s.engine.State() }

// Context ends with the session. The cause is ErrSessionLost or ErrClosed.
// Right after a pause of the process, its Err may still be nil after a loss;
// Session.Err reports it.
func (s *Session) Context() context.Context { return s.engine.Context() }

// Err returns nil while the session is alive, else why it ended. It compares
// the deadline with the clock, so it reports a loss right after a pause. If the
// machine may have slept, it asks the service, for up to two seconds; without
// an answer the session counts as lost.
func (s *Session) Err() error { return s.engine.Err() }

// Service returns a random ID of the service's data, which Baton stores in the
// namespace. It is the same after a backup was restored, and new after the
// service lost its data. The error is ErrInvalid in a layout of other clients,
// which has no place for it.
func (s *Session) Service(ctx context.Context) (string, error) {
	service, err := s.engine.Service(ctx)
	return service, engine.Describe(ctx, "service", s.engine.ID(), err)
}

// Token is the fencing token of a grant.
type Token = driver.Token

// ParseToken parses a positive decimal number, as Token.String writes it.
func ParseToken(s string) (Token, error) { return driver.ParseToken(s) }
