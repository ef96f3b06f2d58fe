package zkconn

import (
	"context"
	"sync"
	"time"
)

// longestLate is how long an opening goes on without its caller.
const longestLate = 500 * time.Millisecond

// asked reports whether the service has, or may make, a session for this
// opening: a connect request is under way, or was answered with one.
func (c *Conn) asked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket == nil {
		return false
	}
	select {
	case <-c.socket.greeted:
		return c.hello.session != 0
	default:
		return true
	}
}

// closeLate closes a session whose opening is given up. The reply to a connect
// request that is under way has what is needed to end the session.
func (c *Conn) closeLate() {
	defer c.conf.late.end()
	ctx, cancel := context.WithTimeout(context.Background(), longestLate)
	defer cancel()
	c.mu.Lock()
	known, greeted := c.hello.session != 0, c.socket.greeted
	c.mu.Unlock()
	if !known {
		_ = c.Until(ctx, greeted)
	}
	_ = c.Close(ctx)
}

// openings counts those that go on.
type openings struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // nil, or closed while there are none
}

func (o *openings) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n++; o.n == 1 {
		o.none = make(chan struct{})
	}
}

func (o *openings) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n--; o.n == 0 {
		close(o.none)
	}
}

// wait waits until there are none. With a context that has ended it returns at
// once, and an error only if there are some.
func (o *openings) wait(ctx context.Context) error {
	o.mu.Lock()
	some, none := o.n > 0, o.none
	o.mu.Unlock()
	if !some {
		return nil
	}
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
