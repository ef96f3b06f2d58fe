package engine

import (
	"container/list"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

const (
	strayDelay = time.Second      // of waiting, before a read
	strayReach = 8                // entries that are read, from the head
	strayPause = 10 * time.Second // the shortest between two reads of a queue
	mostStrays = 1000             // queues of which the latest read is remembered
)

// strays seeks the strays (see driver.Entry) of a queue for all contenders of a
// session that wait in it. Behind a stray a call would end with nothing but
// "context deadline exceeded". They share one timer, and no goroutine lasts
// from one read to the next: thousands may wait for hours.
//
// A read covers those that waited when it began if it has named a stray or
// shown the whole queue: a later stray is behind them. The session's mu guards
// the fields.
type strays struct {
	waiting list.List     // of time.Time: those that no read has covered, in order
	fresh   *list.Element // the first of them that began after the latest read, or nil
	timer   *time.Timer   // of the next read
	reading bool
	began   time.Time     // of the latest read
	pause   time.Duration // from it to the next, if none is fresh
}

// SeekStrays reports the strays of a queue in which a contender waits for more
// than a second, until stop is called.
func (s *Session) SeekStrays(queue driver.Queue) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.strays[queue]
	if q == nil {
		q = s.newStrays(queue)
	}
	own := q.waiting.PushBack(time.Now())
	if q.fresh == nil {
		q.fresh = own
		q.arm()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if q.fresh == own {
			q.fresh = own.Next()
		}
		q.waiting.Remove(own)
		if q.waiting.Len() > 0 || q.reading {
			return
		}
		q.timer.Stop()
		if q.began.IsZero() { // nothing to remember
			delete(s.strays, queue)
		}
	}
}

// newStrays is called with s.mu locked. If there are too many queues, it
// forgets those in which nobody waits; their next contenders read once more.
func (s *Session) newStrays(queue driver.Queue) *strays {
	if len(s.strays) >= mostStrays {
		for other, q := range s.strays {
			if q.waiting.Len() == 0 && !q.reading {
				delete(s.strays, other)
			}
		}
	}
	q := &strays{}
	q.timer = time.AfterFunc(strayDelay, func() { s.Go(func() { s.seekStrays(queue, q) }) })
	s.strays[queue] = q
	return q
}

// due is the time of the next read, if anyone waits.
func (q *strays) due() (due time.Time) {
	if q.waiting.Front() != q.fresh { // the queue has to move first
		due = q.began.Add(q.pause)
	}
	if q.fresh != nil {
		first := q.fresh.Value.(time.Time).Add(strayDelay)
		if soonest := q.began.Add(strayPause); first.Before(soonest) {
			first = soonest
		}
		if due.IsZero() || first.Before(due) {
			due = first
		}
	}
	return due
}

// arm starts the timer if anyone waits. The caller holds the session's mu.
func (q *strays) arm() {
	if q.waiting.Len() > 0 && !q.reading {
		q.timer.Reset(time.Until(q.due()))
	}
}

// seekStrays reads the queue if a read is due. The first of those that wait may
// have left since the timer was started.
func (s *Session) seekStrays(queue driver.Queue, q *strays) {
	if !s.beginRead(q) {
		return
	}
	covered := s.nameStrays(queue)
	s.mu.Lock()
	defer s.mu.Unlock()
	q.reading = false
	for covered && q.waiting.Front() != q.fresh {
		q.waiting.Remove(q.waiting.Front())
	}
	q.arm()
}

func (s *Session) beginRead(q *strays) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.reading || q.waiting.Len() == 0 || time.Until(q.due()) > 0 {
		q.arm()
		return false
	}
	if q.pause *= 10; q.fresh != nil {
		q.pause = 10 * strayPause
	}
	q.began, q.fresh, q.reading = time.Now(), nil, true
	return true
}

// nameStrays reports whether it has named a stray, or seen the whole queue.
func (s *Session) nameStrays(queue driver.Queue) bool {
	named := false
	entries, err := s.List(s.ctx, queue, strayReach)
	for _, e := range entries {
		if e.Stray == "" {
			continue
		}
		named = true
		s.client.Log().Warn("baton: a stray entry blocks the contenders behind it",
			"queue", queue, "service", s.client.String(), "error", e.Stray)
		s.client.Observe(event.Event{Kind: event.Stray, Session: s.ID(),
			Queue: queue, Err: errors.New(e.Stray)})
	}
	return named || err == nil && len(entries) < strayReach
}
