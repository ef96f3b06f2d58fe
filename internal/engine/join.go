package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// Join adds a contender to a queue. While the service is unavailable it
// retries, until ctx or the session ends. If it fails with an unknown outcome,
// the contender is forgotten in the background.
func (s *Session) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	if err := s.enter(ctx, s.joins); err != nil {
		s.reuse(c.ID)
		return driver.Joined{}, err
	}
	defer func() { <-s.joins }()
	var j driver.Joined
	uncertain := false
	err := s.request(ctx, "join", queue, s.longer, func(ctx context.Context) (err error) {
		j, err = s.driver.Join(ctx, queue, c)
		if unanswered(err) {
			uncertain, c.Again = true, true
		}
		return err
	})
	switch {
	case err == nil && uncertain:
		s.doubt(c.ID)
		// They may be true now without having been true at the join, from which
		// recipes conclude what contenders behind can see.
		j.First, j.Nearest = false, driver.Place{}
		return j, nil
	case err == nil:
		return j, nil
	case uncertain:
		s.ForgetLater(queue, c.ID)
	case errors.Is(err, ErrTaken), errors.Is(err, ErrStale):
		s.reuse(c.ID) // keeps etcd's index small, see NewID
	}
	return driver.Joined{}, maybe("join", queue, err, uncertain)
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
