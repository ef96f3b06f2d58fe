package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// Join puts a contender into a queue. While the service is unavailable it tries
// again, until ctx or the session ends. When it fails, the contender is removed
// in the background, as soon as the service answers and until the session ends:
// nothing that a lost reply hides stays in the queue.
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
		// It may be true by now and not have been when the contender joined.
		// Recipes conclude from it what those behind can see.
		j.First, j.Nearest = false, driver.Place{}
		return j, nil
	case err == nil:
		return j, nil
	case uncertain:
		s.Discard(queue, c.ID)
	case errors.Is(err, ErrTaken), errors.Is(err, ErrStale):
		s.reuse(c.ID) // else each refused contender would cost those after it a name
	}
	return driver.Joined{}, maybe("join", queue, err, uncertain)
}

// These bound the requests of a session that are under way at once. The others
// wait here.
//
// A service that gets ten thousand requests at once answers some of them too
// late, and to repeat a join costs more than to send it: the earlier request,
// which may be applied yet, has to be ruled out, and on etcd that makes other
// joins fail. So a crowd that is too much for a moment would keep the service
// busy without end. Contenders that give up together leave at once as well, and
// make others read, which costs as much as the queue is long.
const (
	mostChanges = 256 // joins, and as many removals in the background
	mostReads   = 16
)

// enter waits for a place among the requests of a kind, which the caller frees
// by receiving.
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

// NewID returns the ID of a new contender. It has 96 random bits, so that no
// other contender ever has it, as the numbers of a semaphore's permits require.
// With again it has 64, enough for those that are in the queue at the same
// time: each lock sends, stores and receives every character of it.
//
// With again it may be the ID of an earlier contender of this session, if the
// driver wants [driver.Capabilities].ReuseIDs. A name that was used once stays
// in etcd's index, which is walked to read a queue, until it is compacted. With
// new names for all, a queue that is locked a thousand times a second would
// become slower by the minute.
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

// mostIDs bounds what is kept of a rush.
const mostIDs = 16 << 10

// reuse makes the ID of a contender available that is in no queue and of which
// every request was answered: none can meet the next contender of that ID.
func (s *Session) reuse(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.can.ReuseIDs && len(s.ids) < mostIDs {
		s.ids = append(s.ids, id)
	}
}
