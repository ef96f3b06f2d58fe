package engine

import (
	"context"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// Behind reports whether an entry is behind own, from one read of the queue.
// The error is ErrRemoved if own has left.
func (s *Session) Behind(ctx context.Context, queue driver.Queue, own driver.Place) (bool, error) {
	view, err := s.Ahead(ctx, queue, driver.Place{})
	if err != nil {
		return false, err
	}
	queued, last := where(view.Ahead, own)
	if !queued {
		return false, ErrRemoved
	}
	return !last, nil
}

// where reports whether own is in the queue, and whether as the last one.
func where(places []driver.Place, own driver.Place) (queued, last bool) {
	for i, p := range places {
		if p.Key == own.Key {
			return true, i == len(places)-1
		}
	}
	return false, false
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
