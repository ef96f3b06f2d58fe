package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// Client is the engine of a coordinator.Client, which says what it does.
type Client struct {
	config Config
	driver driver.Driver

	ctx    context.Context // ends, with cause ErrClosed, when Close begins
	cancel context.CancelCauseFunc

	wg         sync.WaitGroup  // the closing of lost sessions
	late       context.Context // ends when Close does not wait for them any longer
	lateCancel context.CancelFunc

	// opening is held, by sending to it, while a session is opened or closed.
	// It is a channel because it is held across I/O and waited for under a
	// context.
	opening chan struct{}

	mu      sync.Mutex // guards what follows; never held across I/O
	session *Session
	closed  bool
	done    chan struct{} // closed when the first Close has come to its end
	result  error         // of the first Close
}

// Of returns the engine of a *coordinator.Client, nil if client is none or nil.
// Package coordinator sets it: recipes reach the engine, and users do not see
// it.
var Of func(client any) *Client

// Driver is the driver that the client was made of.
func (c *Client) Driver() driver.Driver { return c.driver }

// New is coordinator.New.
func New(d driver.Driver, opts ...Option) (*Client, error) {
	if d == nil {
		return nil, Invalid("nil driver")
	}
	c := &Client{driver: d, opening: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if c.config, err = newConfig(opts); err != nil {
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.late, c.lateCancel = context.WithCancel(context.Background())
	return c, nil
}

// String names the service, without secrets.
func (c *Client) String() string { return c.driver.String() }

// Identity is who this client is in listings.
func (c *Client) Identity() string { return c.config.Identity }

// Log is the client's logger, for recipes.
func (c *Client) Log() *slog.Logger { return c.config.Log }

// Done is closed when Close begins. From then on Session returns ErrClosed.
func (c *Client) Done() <-chan struct{} { return c.ctx.Done() }

// Observe tells the client's observers, for recipes.
func (c *Client) Observe(e event.Event) {
	for _, o := range c.config.Observers {
		o.Observe(e)
	}
}

// Session returns the live session and opens one if there is none; see
// coordinator.Client.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	s, err := c.live()
	if s != nil || err != nil {
		return s, err
	}
	bound, stop := bind(ctx, c.ctx)
	defer stop()
	select {
	case c.opening <- struct{}{}:
		defer func() { <-c.opening }()
	case <-bound.Done():
		return nil, c.notOpened(ctx, ErrUnavailable)
	}
	if s, err = c.live(); s != nil || err != nil { // somebody else has opened it
		return s, err
	}
	c.mu.Lock()
	lost := c.session
	c.mu.Unlock()
	if lost != nil {
		c.later(lost) // the client keeps no other reference to it
	}
	if s, err = c.open(bound); err != nil {
		return nil, c.notOpened(ctx, err)
	}
	c.mu.Lock()
	c.session = s
	c.mu.Unlock()
	return s, nil
}

// live returns the session if it is alive, ErrClosed after Close, and else
// nothing.
func (c *Client) live() (*Session, error) {
	c.mu.Lock()
	s, closed := c.session, c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return nil, &Error{Op: "session", Name: c.String(), Err: ErrClosed}
	case s != nil && s.Ended() == nil:
		return s, nil
	}
	return nil, nil
}

// firstAttempt to open a session is short: then the log says why it fails.
const firstAttempt = 1250 * time.Millisecond

// open tries until the service is available. One attempt lasts no longer than
// the TTL: after that its session could be over before it was used.
func (c *Client) open(ctx context.Context) (*Session, error) {
	var s *Session
	began := time.Now()
	warned := false
	lasts := min(firstAttempt, c.config.TTL)
	err := c.config.retry(ctx, c.ctx, func() (err error) {
		attempt, cancel := context.WithTimeoutCause(ctx, lasts, errNoAnswer)
		defer cancel()
		lasts = c.config.TTL
		s, err = c.openOnce(attempt)
		slow := attempt.Err() != nil && ctx.Err() == nil
		if err != nil && slow && !errors.Is(err, ErrUnavailable) {
			return driver.Wrap(ErrUnavailable, err)
		}
		return err
	}, func(err error) {
		level := slog.LevelDebug
		if !warned { // once for each outage that somebody waits for
			level, warned = slog.LevelWarn, true
		}
		c.config.Log.Log(ctx, level, "baton: session cannot be opened, trying again",
			"service", c.String(), "error", err)
		c.Observe(event.Event{Kind: event.Retried, Op: "session", Err: err})
	})
	if err != nil {
		return nil, err
	}
	c.config.Log.Debug("baton: session opened",
		"service", c.String(), "session", s.ID(), "ttl", s.TTL())
	c.Observe(event.Event{Kind: event.SessionOpened, Session: s.ID(), Duration: time.Since(began)})
	return s, nil
}

func (c *Client) openOnce(ctx context.Context) (*Session, error) {
	sent := c.now()
	ds, err := c.driver.Open(ctx, c.config.TTL)
	if err != nil {
		return nil, err
	}
	s := newSession(c, ds, sent)
	if time.Until(s.Deadline()) <= 0 { // by the clock it is lost before it was used
		_ = ds.Close(ctx)
		slow := errors.New("the service took longer to open a session than the session lives")
		return nil, driver.Wrap(ErrUnavailable, slow)
	}
	s.wg.Go(s.renew)
	s.wg.Go(s.guard)
	return s, nil
}

func (c *Client) notOpened(ctx context.Context, err error) error {
	switch {
	case c.ctx.Err() != nil:
		err = ErrClosed
	case ctx.Err() != nil && unanswered(err):
		err = unavailable(err, context.Cause(ctx))
	}
	return &Error{Op: "session", Name: c.String(), Err: err}
}

// Close is coordinator.Client.Close. The first call does it, the others wait
// for it.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if !again {
		c.result = c.closeError(c.close(ctx))
		close(c.done)
		return c.result // what was done in time is not undone by a ctx that ends right then
	}
	ctx, stop := ReleaseContext(ctx)
	defer stop()
	select {
	case <-c.done:
		return c.result
	case <-ctx.Done():
		return c.closeError(unavailable(nil, context.Cause(ctx)))
	}
}

func (c *Client) closeError(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: "close", Name: c.String(), Err: err, Maybe: true}
}

func (c *Client) close(ctx context.Context) error {
	c.cancel(ErrClosed)
	// An opening that is under way returns soon, by its context, and nothing
	// can store another session after this.
	c.opening <- struct{}{}
	defer func() { <-c.opening }()

	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s != nil {
		s.end(ErrClosed)
	}
	ctx, stop := ReleaseContext(ctx)
	defer stop()
	var err error
	if s != nil {
		// after that there is nothing left to give back
		within, cancel := context.WithTimeout(ctx, s.TTL())
		defer cancel()
		err = s.close(within)
		switch {
		case err == nil || within.Err() == nil:
		case ctx.Err() == nil:
			err = unavailable(err, errors.New("no answer within the TTL"))
		default:
			err = unavailable(err, context.Cause(ctx))
		}
		ctx = within
	}
	stopLate := context.AfterFunc(ctx, c.lateCancel)
	c.wg.Wait()
	stopLate()
	c.lateCancel()
	return errors.Join(err, c.driver.Close(ctx))
}

// later closes a lost session in the background, for at most its TTL, unless
// Close has begun or closes it already.
func (c *Client) later(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !s.closing.CompareAndSwap(false, true) {
		return
	}
	c.wg.Go(func() {
		ctx, cancel := context.WithTimeout(c.late, s.TTL())
		defer cancel()
		if err := s.driver.Close(ctx); err != nil {
			c.config.Log.Debug("baton: lost session could not be ended",
				"session", s.ID(), "error", err)
		}
		s.wg.Wait()
	})
}
