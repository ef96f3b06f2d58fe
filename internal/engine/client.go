package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/patience"
)

// Client is the engine of a coordinator.Client.
type Client struct {
	config Config
	driver driver.Driver

	lines     *outbox[line]    // of config.Log
	mailboxes []*mailbox       // of the observers, but for
	direct    []event.Observer // those that are an event.Direct

	ctx    context.Context // ends when Close begins; its cause says nothing: see patience.Bind
	cancel context.CancelFunc

	searches chan struct{} // see Search

	wg         sync.WaitGroup  // background closing of lost sessions
	late       context.Context // ends when Close stops waiting for that
	lateCancel context.CancelFunc

	// opening is held, by sending to it, while a session is opened or closed: a
	// channel, since callers wait for it with a context.
	opening chan struct{}

	mu        sync.Mutex // guards what follows; never held across I/O
	session   *Session
	closed    bool
	done      chan struct{} // closed when the first Close has returned
	result    error         // of the first Close
	openError error         // the latest reason, while a session is being opened
}

// Of returns the engine of a *coordinator.Client, or nil. Package coordinator
// sets it, so that recipes can reach the engine but users cannot.
var Of func(client any) *Client

// Driver returns the client's driver.
func (c *Client) Driver() driver.Driver { return c.driver }

// New is coordinator.New.
func New(d driver.Driver, opts ...Option) (*Client, error) {
	if d == nil {
		return nil, Invalid("nil driver")
	}
	c := &Client{driver: d, opening: make(chan struct{}, 1), done: make(chan struct{}),
		searches: make(chan struct{}, 1)}
	var err error
	if c.config, err = newConfig(opts); err != nil {
		return nil, err
	}
	c.config.Log, c.lines = newLogger(c.config.Log)
	for _, o := range c.config.Observers {
		if d, ok := o.(event.Direct); ok {
			c.direct = append(c.direct, d)
		} else {
			c.mailboxes = append(c.mailboxes, newMailbox(o))
		}
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.late, c.lateCancel = context.WithCancel(context.Background())
	return c, nil
}

// String names the service, without secrets.
func (c *Client) String() string { return c.driver.String() }

// Identity returns the client's identity in listings.
func (c *Client) Identity() string { return c.config.Identity }

// Log returns the client's logger. It never blocks: see outbox.
func (c *Client) Log() *slog.Logger { return c.config.Log }

// Done is closed when Close begins. From then on Session returns ErrClosed.
func (c *Client) Done() <-chan struct{} { return c.ctx.Done() }

// Observe notifies the client's observers. Like Log it never blocks.
func (c *Client) Observe(e event.Event) {
	if len(c.direct)+len(c.mailboxes) == 0 {
		return
	}
	e.Time = time.Now()
	for _, o := range c.direct {
		o.Observe(e)
	}
	for _, m := range c.mailboxes {
		m.put(e)
	}
}

// Search waits for the turn to search for a deadlock, so that many waiters do
// not send their requests at once. Call done afterwards.
func (c *Client) Search(ctx context.Context) (done func(), err error) {
	select {
	case c.searches <- struct{}{}:
		return func() { <-c.searches }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Session returns the live session, or opens one; see coordinator.Client.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	s, err := c.live()
	if s != nil || err != nil {
		return s, err
	}
	bound, stop := patience.Bind(ctx, c.ctx)
	defer stop()
	select {
	case c.opening <- struct{}{}:
		defer func() { <-c.opening }()
	case <-bound.Done():
		c.mu.Lock()
		why := c.openError // of the caller that is opening it
		c.mu.Unlock()
		return nil, c.notOpened(ctx, cmp.Or(why, ErrUnavailable))
	}
	if s, err = c.live(); s != nil || err != nil { // another caller has opened it
		return s, err
	}
	c.mu.Lock()
	lost := c.session
	c.mu.Unlock()
	if lost != nil {
		c.closeLater(lost) // this is the last reference to it
	}
	if s, err = c.open(bound, ctx); err != nil {
		return nil, c.notOpened(ctx, err)
	}
	c.mu.Lock()
	c.session, c.openError = s, nil
	c.mu.Unlock()
	return s, nil
}

// live returns the session if it is alive, and ErrClosed after Close.
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

// Connected reports whether there is a session that the service answers.
func (c *Client) Connected() bool {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s == nil {
		return false
	}
	state, _ := s.State()
	return state == event.StateConnected
}

// firstAttempt is short, so that the log soon says why no session opens.
const firstAttempt = 1250 * time.Millisecond

// open retries until the service is available. Each attempt lasts twice as long
// as the one before: one that meets a silent member costs little, and a service
// that is slow answers in the end. An attempt is limited to the TTL: a later
// session could end before it is used. The first attempt of a caller who may
// give up soon is not cut short.
func (c *Client) open(ctx, caller context.Context) (*Session, error) {
	var s *Session
	var why error     // of the latest attempt that says more than that it was cut short
	cutShort := false // the latest attempt says no more
	began := time.Now()
	warned := false
	c.mu.Lock()
	c.openError = nil
	c.mu.Unlock()
	lasts := min(firstAttempt, c.config.TTL)
	if by, ok := caller.Deadline(); ok && time.Until(by) < 3*firstAttempt {
		lasts = c.config.TTL
	}
	err := c.config.retry(ctx, c.ctx, func() (err error) {
		attempt, cancel := context.WithTimeoutCause(ctx, lasts, errNoAnswer)
		defer cancel()
		s, err = c.openOnce(attempt)
		slow := attempt.Err() != nil && ctx.Err() == nil
		cutShort = slow && lasts < c.config.TTL && !errors.Is(err, ErrUnavailable)
		lasts = min(2*lasts, c.config.TTL)
		if err != nil && slow && !errors.Is(err, ErrUnavailable) {
			return driver.Wrap(ErrUnavailable, err)
		}
		return err
	}, func(err error) {
		level := slog.LevelDebug
		if !warned { // once per call
			level, warned = slog.LevelWarn, true
		}
		if why == nil || !cutShort {
			c.mu.Lock()
			c.openError, why = err, err
			c.mu.Unlock()
		}
		c.config.Log.Log(ctx, level, "baton: session cannot be opened, trying again",
			"service", c.String(), "error", err)
		c.Observe(event.Event{Kind: event.Retried, Op: "session", Err: err})
	})
	if err != nil {
		if why != nil && ctx.Err() != nil && unanswered(err) {
			err = why // an attempt that was cut short says less
		}
		return nil, err
	}
	c.config.Log.Debug("baton: session opened",
		"service", c.String(), "session", s.ID(), "ttl", s.TTL())
	c.reportOpened(s, time.Since(began))
	return s, nil
}

// reportOpened notifies the observers. If one of them that is direct panics, it
// ends the session, which nobody would know.
func (c *Client) reportOpened(s *Session, took time.Duration) {
	reported := false
	defer func() {
		if !reported {
			s.end(driver.Wrap(ErrSessionLost, errors.New("an observer panics")))
		}
	}()
	c.Observe(event.Event{Kind: event.SessionOpened, Session: s.ID(), Duration: took})
	reported = true
}

func (c *Client) openOnce(ctx context.Context) (*Session, error) {
	sent := c.now()
	ds, err := c.driver.Open(ctx, c.config.TTL)
	if err != nil {
		return nil, err
	}
	s := newSession(c, ds, sent)
	if time.Until(s.Deadline()) <= 0 { // lost before it is used
		_ = ds.Close(ctx)
		slow := errors.New("opening the session took longer than the session lives")
		return nil, driver.Wrap(ErrUnavailable, slow)
	}
	s.wg.Go(func() {
		// Added while wg counts this goroutine: if renew loses the session at
		// once, closeLater waits for wg already.
		s.wg.Go(s.guard)
		s.renew()
	})
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

// Close is coordinator.Client.Close. Calls after the first wait for it.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if !again {
		c.result = c.closeError(c.close(ctx))
		close(c.done)
		return c.result // also if ctx has ended by now
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
	c.cancel()
	// The context of an opening under way has ended, so it returns soon. After
	// this no other session is stored.
	c.opening <- struct{}{}
	defer func() { <-c.opening }()

	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	ctx, stop := ReleaseContext(ctx)
	defer stop()
	if s != nil {
		s.callClosers(ctx)
		s.end(ErrClosed)
	}
	var err error
	// after the TTL there is nothing left to release
	lasts := c.config.TTL
	if s != nil {
		lasts = s.TTL()
	}
	within, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	if s != nil {
		err = s.close(within)
		switch {
		case err == nil || within.Err() == nil:
		case ctx.Err() == nil:
			err = unavailable(err, errors.New("no answer within the TTL"))
		default:
			err = unavailable(err, context.Cause(ctx))
		}
	}
	stopLate := context.AfterFunc(within, c.lateCancel)
	c.wg.Wait()
	stopLate()
	c.lateCancel()
	also := c.driver.Close(within)
	c.flush(within)
	if err != nil && also != nil {
		return fmt.Errorf("%w; %w", err, also) // errors.Join's text has two lines
	}
	return cmp.Or(err, also)
}

// closeLater closes a lost session in the background, for at most its TTL,
// unless Close has begun or it is already being closed.
func (c *Client) closeLater(s *Session) {
	s.endHolds() // another goroutine may have ended the context, and not yet done this
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !s.closing.CompareAndSwap(false, true) {
		return
	}
	c.wg.Go(func() {
		s.awaitMargin(c.ctx)
		ctx, cancel := context.WithTimeout(c.late, s.TTL())
		defer cancel()
		if err := s.endAtService(ctx); err != nil {
			c.config.Log.Debug("baton: lost session could not be ended",
				"session", s.ID(), "error", err)
		}
		s.wg.Wait()
		s.news.flush(ctx)
	})
}
