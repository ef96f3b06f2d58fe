package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// close ends the session at the service, after end, and waits for its
// goroutines.
func (s *Session) close(ctx context.Context) error {
	var err error
	// Close and the clean-up after a loss may both come here. The second one
	// does not repeat the request, but waits as well.
	if s.closing.CompareAndSwap(false, true) {
		err = s.endAtService(ctx)
	}
	// After the request: the goroutines end with the session's context, which
	// has ended, so the wait is short, and the names are free by now.
	s.wg.Wait()
	s.news.flush(ctx)
	return err
}

// endAtService calls the driver's Close until it is answered or ctx ends. Its
// attempts are bounded like those of other requests: one to a member that hangs
// would keep the names locked for the TTL.
func (s *Session) endAtService(ctx context.Context) error {
	return s.client.config.retry(ctx, ctx, func() error {
		attempt, cancel := context.WithTimeout(ctx, s.TTL()/AttemptsPerTTL)
		defer cancel()
		err := s.driver.Close(attempt)
		// The driver reports the end of its context. To retry, that is the
		// end of the caller's, and no reason to try again.
		slow := attempt.Err() != nil && ctx.Err() == nil
		if err != nil && slow && !errors.Is(err, ErrUnavailable) {
			return driver.Wrap(ErrUnavailable, context.DeadlineExceeded)
		}
		return err
	}, func(err error) {
		s.client.Observe(event.Event{Kind: event.Retried, Session: s.ID(), Op: "close", Err: err})
	})
}

// Go calls f in a goroutine that Close waits for, after it has closed the
// session. So f must end soon after the session does, and after Done. After
// Close has begun it returns false.
func (c *Client) Go(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed { // Close may already wait for wg
		return false
	}
	c.wg.Go(f)
	return true
}

// closers are called before Close ends a session.
type closers struct {
	mu  sync.Mutex
	all map[*func(context.Context)]struct{}
}

// OnClose calls f once when the client's Close begins, while the session is
// alive, so that f can leave a queue with a handoff. f ends with its context,
// which lasts for one request.
func (s *Session) OnClose(f func(context.Context)) (stop func()) {
	s.closers.mu.Lock()
	defer s.closers.mu.Unlock()
	if s.closers.all == nil {
		s.closers.all = make(map[*func(context.Context)]struct{})
	}
	s.closers.all[&f] = struct{}{}
	return func() {
		s.closers.mu.Lock()
		defer s.closers.mu.Unlock()
		delete(s.closers.all, &f)
	}
}

// callClosers calls the functions of OnClose at the same time, and waits.
func (s *Session) callClosers(ctx context.Context) {
	s.closers.mu.Lock()
	all := s.closers.all
	s.closers.all = nil
	s.closers.mu.Unlock()
	if len(all) == 0 {
		return
	}
	// A service that hangs must not make Close last much longer: the entries
	// leave with the session in any case.
	ctx, cancel := context.WithTimeout(ctx, s.patience.Lasts)
	defer cancel()
	var wg sync.WaitGroup
	for f := range all {
		wg.Go(func() { (*f)(ctx) })
	}
	wg.Wait()
}
