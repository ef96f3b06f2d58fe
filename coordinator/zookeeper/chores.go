package zookeeper

import (
	"context"
	"errors"
	"sync"
)

// chores are clean-ups that outlive a session. Their owner is the driver.
type chores struct {
	stop chan struct{} // closed when they are to be given up

	mu     sync.Mutex
	closed bool
	count  int
	idle   chan struct{} // closed when closed and count is 0
}

func newChores() *chores { return &chores{stop: make(chan struct{}), idle: make(chan struct{})} }

// begin counts one more, unless the driver is closed.
func (c *chores) begin() (done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	c.count++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.count--; c.count == 0 && c.closed {
			close(c.idle)
		}
	}, true
}

// close waits for those that have begun, until ctx ends, and then gives them up.
func (c *chores) close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		if c.count == 0 {
			close(c.idle)
		}
	}
	c.mu.Unlock()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	return away(ctx, errors.New("zookeeper: entries of closed sessions could not be removed"))
}
