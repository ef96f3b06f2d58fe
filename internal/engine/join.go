package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/patience"
)

// Join adds a contender to a queue. While the service is unavailable it
// retries, until ctx or the session ends.
//
// When ctx ends, Join returns at once, but the request under way is not
// cancelled: most likely its answer is a round trip away. By the answer the
// contender leaves in the background, at the cost of one request. Only a join
// without an answer is forgotten. That costs more: on etcd it makes all other
// joins of the session fail and be sent again, so that callers with short
// deadlines would keep each other from joining.
//
// A request that goes on without its caller needs a goroutine, which costs up
// to a tenth of an uncontended lock. So a lone join, which disturbs no other,
// has none: see joining.stays.
func (s *Session) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	if err := s.enter(ctx, s.joins); err != nil {
		s.reuse(c.ID)
		return driver.Joined{}, err
	}
	call, ended := &joining{session: s, queue: queue, contender: c}, false
	defer func() {
		if !ended { // an observer panics
			call.settle(context.Canceled)
		}
	}()
	err := s.repeat(ctx, "join", queue, func() error { return call.attempt(ctx) })
	if ended = true; call.left {
		return driver.Joined{}, maybe("join", queue, err, true)
	}
	j, uncertain := call.settle(err)
	return j, maybe("join", queue, err, err != nil && uncertain)
}

const (
	// answerTime is how long a join may take, after its caller has left, until
	// it counts as unanswered: longer than a round trip, but an entry that it
	// may have made blocks the queue for no longer.
	answerTime = 500 * time.Millisecond

	// hurry is how near a deadline may be that ends a join.
	hurry = 2 * answerTime

	// hasteTime is how long the joins of a session have goroutines after a
	// caller has left one.
	hasteTime = time.Minute
)

// joining is a call of Join.
type joining struct {
	session   *Session
	queue     driver.Queue
	contender driver.Contender
	joined    driver.Joined // after an attempt that has joined
	uncertain bool          // an attempt had no answer
	left      bool          // the caller has left an attempt under way

	first    atomic.Bool // of the answer of an attempt and the end of its context
	answered chan error
}

// attempt sends the request once. Unless the caller stays until it is answered,
// it is sent from a goroutine, which the session's close waits for, and which
// settles the call if the caller has left. It keeps the call's place in joins
// until then: without a bound, callers with short deadlines would send more
// than the service answers.
func (c *joining) attempt(ctx context.Context) error {
	s := c.session
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ctx.Done() == nil:
		return s.attempt(ctx, s.longer, c.send)
	case c.stays(ctx):
		err := s.attempt(ctx, s.longer, c.send)
		if c.uncertain && ctx.Err() != nil {
			s.hasten()
		}
		return err
	}
	bound, stop := patience.Bind(context.WithoutCancel(ctx), s.longer.Context())
	c.first.Store(false)
	c.answered = make(chan error, 1)
	sent := s.Go(func() {
		err := s.slow(ctx, c.send(bound))
		stop()
		if c.first.CompareAndSwap(false, true) {
			c.answered <- err
			return
		}
		s.silence.attempted(err)
		c.settleAlone(err)
	})
	if !sent {
		stop()
		return context.Cause(s.ctx)
	}
	select {
	case err := <-c.answered:
		return err
	case <-ctx.Done():
	}
	if !c.first.CompareAndSwap(false, true) {
		return <-c.answered
	}
	s.hasten()
	time.AfterFunc(min(s.patience.Lasts, answerTime), stop)
	c.left = true
	return ctx.Err()
}

// stays reports whether the caller sends the request itself, which then ends
// with ctx. If ctx ends before the answer, the contender is forgotten. So the
// call has to be the only one of the session: at any time one at most can be
// forgotten. No deadline may be near. And no caller has left a join within
// hasteTime, so that many of them that are cancelled, one after the other, make
// the session's joins fail once in that time.
func (c *joining) stays(ctx context.Context) bool {
	s := c.session
	if c.uncertain || len(s.joins) > 1 {
		return false
	}
	if by, ok := ctx.Deadline(); ok && time.Until(by) < hurry {
		return false
	}
	last := time.Duration(s.haste.Load())
	return last == 0 || time.Since(s.born)-last > hasteTime
}

// hasten notes that the caller of a join has left it. It is called before the
// call's place in joins is free.
func (s *Session) hasten() { s.haste.Store(int64(max(1, time.Since(s.born)))) }

func (c *joining) send(ctx context.Context) (err error) {
	c.joined, err = c.session.driver.Join(ctx, c.queue, c.contender)
	if unanswered(err) {
		c.uncertain, c.contender.Again = true, true
	}
	return err
}

// settle ends a call with the error of its last attempt, and removes what it
// may leave behind.
func (c *joining) settle(err error) (j driver.Joined, uncertain bool) {
	s := c.session
	<-s.joins
	switch {
	case err == nil && c.uncertain:
		s.doubt(c.contender.ID)
		// They may be true now without having been true at the join, from which
		// recipes conclude what contenders behind can see.
		c.joined.First, c.joined.Nearest = false, driver.Place{}
		return c.joined, true
	case err == nil:
		return c.joined, false
	case c.uncertain:
		s.ForgetLater(c.queue, c.contender.ID)
	case errors.Is(err, ErrTaken), errors.Is(err, ErrStale), unanswered(err): // not sent
		s.reuse(c.contender.ID) // keeps etcd's index small, see NewID
	}
	return driver.Joined{}, c.uncertain
}

// settleAlone is settle when the caller has left.
func (c *joining) settleAlone(err error) {
	s := c.session
	if errors.Is(err, ErrSessionLost) {
		s.end(err)
	}
	if j, _ := c.settle(err); err == nil {
		s.LeaveLater(c.queue, j.Place)
	}
}

// These bound a session's concurrent requests; others wait in enter.
//
// A service that gets ten thousand requests at once answers some of them too
// late. Repeating a join costs more than the first attempt: the earlier
// request, which may still be applied, has to be ruled out, and on etcd that
// makes other joins fail. So a short overload would never end. Contenders that
// give up together also leave together, and make others read the whole queue.
const (
	mostChanges = 256 // joins, and as many removals in the background
	mostReads   = 16
)

// enter waits until a request of a kind may be sent. The caller receives from
// places when it is answered.
func (s *Session) enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return s.outcome(ctx, context.Canceled, false)
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// NewID returns the ID of a new contender. It has 96 random bits, so it is
// unique for ever, as the slots of a semaphore require. With again it has 64,
// enough for the contenders in a queue: each lock sends, stores and receives
// the ID.
//
// With again it may be the ID of an earlier contender of this session, if the
// driver sets [driver.Capabilities].ReuseIDs. etcd keeps a used name in its
// index, which it walks to read a queue, until compaction. With new names a
// queue locked a thousand times a second would become slower by the minute.
func (s *Session) NewID(again bool) string {
	if !again {
		return randomHex(12)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.ids)
	if n == 0 {
		return randomHex(8)
	}
	id := s.ids[n-1]
	s.ids = s.ids[:n-1]
	return id
}

func randomHex(size int) string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails: crypto/rand aborts the process instead
	return hex.EncodeToString(b)
}

// mostIDs bounds the memory for IDs.
const mostIDs = 16 << 10

// reuse makes an ID available to NewID. Its contender has left, and all its
// requests were answered, so none can affect the next contender.
func (s *Session) reuse(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.can.ReuseIDs && len(s.ids) < mostIDs {
		s.ids = append(s.ids, id)
	}
}
