package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// The deadline of a session is kept on the monotonic clock, which steps of the
// wall clock do not move. While a machine is suspended that clock stands still
// on most systems and the service's does not. The wall clock goes on meanwhile,
// and proves nothing, since it may have been set. So when the deadline has
// passed by the wall clock alone, the service is asked before a hold is called
// good. Requests go on as ever: each one is such a question.

// How often a session whose holders only listen compares the clocks.
const (
	looksPerTTL = 16
	lookAtLeast = time.Second // also for silence
)

// askAtMost is how long the service has to answer whether the session lives, if
// a quarter of the TTL is more.
const askAtMost = 2 * time.Second

// errAsleep is the reason to doubt a session whose deadline has not passed.
var errAsleep = errors.New("the wall clock has run ahead of the monotonic one: " +
	"the machine slept, or its clock was set")

// moment is one moment on both clocks.
type moment struct {
	time time.Time // for its monotonic reading
	wall int64     // Unix nanoseconds
}

func (c *Client) now() moment {
	now := time.Now()
	if c.config.wall != nil {
		return moment{now, c.config.wall().UnixNano()}
	}
	return moment{now, now.UnixNano()}
}

// mayHaveSlept reports whether the deadline has passed by the wall clock.
func (s *Session) mayHaveSlept(now moment) bool {
	return now.wall >= s.wallDeadline.Load()
}

// ask starts awake if it is not under way. The channel is closed when it is
// done, or the session has ended.
func (s *Session) ask() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == event.StateLost {
		return s.ctx.Done()
	}
	if s.asked == nil {
		asked := make(chan struct{})
		s.asked = asked
		s.wg.Go(func() {
			s.awake()
			s.mu.Lock()
			s.asked = nil
			s.mu.Unlock()
			close(asked)
		})
	}
	return s.asked
}

// awake renews the session, over a few attempts if it must, and ends it if that
// does not succeed in time: it would be believed for too long.
func (s *Session) awake() {
	bound := min(s.TTL()/RenewalsPerTTL, askAtMost)
	ctx, cancel := context.WithTimeout(s.ctx, bound)
	defer cancel()
	end := time.Now().Add(bound)
	err := s.client.config.retry(ctx, s.ctx, func() error {
		err := s.renewOnce(ctx, bound)
		if err == nil || errors.Is(err, ErrSessionLost) || errors.Is(err, ErrUnavailable) {
			return err
		}
		return driver.Wrap(ErrUnavailable, err) // tried again, whatever it is
	}, func(err error) { s.suspend(fmt.Errorf("%w: %w", errAsleep, err), time.Until(end)) })
	// else the usual renewal was answered
	if errors.Is(err, ErrUnavailable) && s.mayHaveSlept(s.client.now()) {
		s.end(driver.Wrap(ErrSessionLost, fmt.Errorf("%w, and the service does not answer: %w",
			errAsleep, err)))
	}
}
