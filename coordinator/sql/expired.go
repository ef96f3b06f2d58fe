package sql

import (
	"context"
	"time"
)

// A session that has expired counts until its row is deleted. A client that
// meets its entries deletes it. Another transaction may have locked the row, or
// that of a queue in which the session has an entry, for as long as it likes.
// So sessions are ended in the background, one after the other: neither the
// waits of this client nor all of its connections wait for such a lock. A read
// waits for a moment, and then shows the entries that are still there.

const (
	endWithin = time.Second // of which a read waits, but not for more than half of its own time
	endAgain  = safety      // after a failure
)

// expire begins to end sessions that have expired. The channels are closed when
// that has been tried.
func (s *session) expire(ids []string) (tried []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.dead[id] == nil {
			done := make(chan struct{})
			s.dead[id] = done
			if !s.d.spawn(func() { s.endExpired(id, done) }) {
				close(done)
			}
		}
		tried = append(tried, s.dead[id])
	}
	return tried
}

// endExpired ends a session that has expired, and makes the waits for its
// entries check again. After a failure it is not tried again for a while.
func (s *session) endExpired(id string, done chan struct{}) {
	select {
	case s.ending <- struct{}{}:
	case <-s.ctx.Done():
		close(done)
		return
	}
	err := within(s.ctx, func(ctx context.Context) error { return s.d.end(ctx, id, true) })
	<-s.ending
	close(done)
	if err != nil {
		again := time.NewTimer(endAgain)
		defer again.Stop()
		select {
		case <-again.C:
		case <-s.ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dead, id)
	if err == nil && len(s.waiters) > 0 { // the first call of rouse begins run
		s.freed.Store(true)
		s.rouse()
	}
}

// awaitEnds waits until the ends of sessions were tried, but leaves time to
// read.
func awaitEnds(ctx context.Context, tried []<-chan struct{}) {
	most := endWithin
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)/2)
	}
	enough := time.NewTimer(most)
	defer enough.Stop()
	for _, t := range tried {
		select {
		case <-t:
		case <-enough.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
