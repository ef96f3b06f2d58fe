package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// The deadline of a session uses the monotonic clock, which does not step. On
// most systems it stops while the machine is suspended. The wall clock does not
// stop, but may have been set. So if only the wall clock has passed the
// deadline, the service is asked before a hold counts as live. Requests need no
// check: the service answers them.

// A session compares the clocks TTL/sleepChecksPerTTL apart, and at least every
// longestSleepCheck, for holders that only wait for Done.
const (
	sleepChecksPerTTL = 16
	longestSleepCheck = time.Second // also for silence
)

// askAtMost bounds the wait for the service's answer, as does TTL/4.
const askAtMost = 2 * time.Second

// errAsleep is the reason to ask the service before the deadline.
var errAsleep = errors.New("the wall clock has run ahead of the monotonic one: " +
	"the machine slept, or its clock was set")

// moment is a time on both clocks.
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

// mayHaveSlept reports whether the wall clock has passed the deadline.
func (s *Session) mayHaveSlept(now moment) bool {
	return now.wall >= s.wallDeadline.Load()
}

// MustAsk reports whether Check has to ask the service.
func (s *Session) MustAsk() bool { return s.mayHaveSlept(s.client.now()) }

// ask starts confirm unless it runs already. The channel is closed when it has
// returned, or the session has ended.
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
			s.confirm()
			s.mu.Lock()
			s.asked = nil
			s.mu.Unlock()
			close(asked)
		})
	}
	return s.asked
}

// confirm renews the session, with retries, and ends it if that does not
// succeed in time.
func (s *Session) confirm() {
	bound := min(s.TTL()/AttemptsPerTTL, askAtMost)
	ctx, cancel := context.WithTimeout(s.ctx, bound)
	defer cancel()
	end := time.Now().Add(bound)
	err := s.client.config.retry(ctx, s.ctx, func() error {
		err := s.renewOnce(ctx, bound)
		if err == nil || errors.Is(err, ErrSessionLost) || errors.Is(err, ErrUnavailable) {
			return err
		}
		return driver.Wrap(ErrUnavailable, err) // retry after any error
	}, func(err error) { s.suspend(fmt.Errorf("%w: %w", errAsleep, err), time.Until(end)) })
	// mayHaveSlept is false if a regular renewal was answered meanwhile
	if errors.Is(err, ErrUnavailable) && s.mayHaveSlept(s.client.now()) {
		s.end(driver.Wrap(ErrSessionLost, fmt.Errorf("%w, and the service does not answer: %w",
			errAsleep, err)))
	}
}

const (
	// silentAfter is when the log says that no request is answered. A join, for
	// one, is sent again only after half the TTL.
	silentAfter = time.Second
	// silencePause is the least time between two of these warnings.
	silencePause = time.Minute
)

var errNoAnswer = errors.New("no answer yet")

// silence tracks how long the requests of a session have gone unanswered.
type silence struct {
	mu      sync.Mutex
	pending int       // requests under way
	since   time.Time // the latest answer, or the beginning of the first of these
	err     error     // of the latest attempt without an answer
	checked time.Time // by warnOfSilence
	warned  time.Time
}

func (q *silence) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending == 0 {
		q.since, q.err = time.Now(), errNoAnswer
	}
	q.pending++
}

// attempted notes the outcome of an attempt.
func (q *silence) attempted(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !unanswered(err):
		q.since, q.err = time.Now(), errNoAnswer
	case errors.Is(err, ErrUnavailable): // and not because the caller gave up
		q.err = err
	}
}

func (q *silence) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending--
}

// check is called every interval. A late call follows a pause of the process,
// whose answers may not have been read yet.
func (q *silence) check(interval time.Duration) (silent time.Duration, err error, warn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	late := now.Sub(q.checked) > 2*interval
	q.checked = now
	silent = now.Sub(q.since)
	if late || q.pending == 0 || silent < silentAfter || now.Sub(q.warned) < silencePause {
		return silent, nil, false
	}
	q.warned = now
	return silent, q.err, true
}

// warnOfSilence logs that no request is answered. It is called every interval.
func (s *Session) warnOfSilence(interval time.Duration) {
	silent, err, warn := s.silence.check(interval)
	if !warn {
		return
	}
	s.client.config.Log.Warn("baton: the service has not answered, still trying", "service",
		s.client.String(), "silent_for", silent.Round(time.Millisecond), "error", err)
}
