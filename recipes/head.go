package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// Follower follows the first of a queue. It is not safe for concurrent use.
type Follower struct {
	queue *Queue
	known driver.Version    // of the head that the service showed last
	shown driver.Version    // of the one that Next returned last; driver.Any before the first
	token coordinator.Token // of the latest contender that Next returned
}

// Follow returns a follower of the queue's first contender. It does no I/O.
func (l *Queue) Follow() *Follower { return &Follower{queue: l, known: driver.Any, shown: driver.Any} }

// Next returns the first in the queue, at the first call as it is now, and then each
// time that it has changed: another contender, another payload, or nobody, when
// ok is false. Of changes in quick succession it may skip all but the last. It
// survives lost sessions, since it follows with the next one.
//
// Tokens never fall from one call to the next. After a lost session, an older
// payload of the same contender, or one who has just left, may be returned once
// more.
//
// It watches one entry, whatever the length of the queue and the number of followers. A ctx that
// ends while it waits comes back as context.Cause(ctx).
func (f *Follower) Next(ctx context.Context) (first Contender, ok bool, err error) {
	for {
		s, err := f.queue.client.Session(ctx)
		if err != nil {
			return first, false, engine.Describe(ctx, "observe", f.queue.name, err)
		}
		h, err := s.Head(ctx, f.queue.id, f.known)
		switch {
		case err == nil:
			if f.take(h) {
				return f.queue.contender(h.Entry), h.Version != 0, nil
			}
		case ctx.Err() != nil || !errors.Is(err, coordinator.ErrSessionLost):
			return first, false, engine.Describe(ctx, "observe", f.queue.name, err)
		}
	}
}

// take notes a head, and reports whether it is news.
//
// What a session is shown never goes back, but a new one may begin with what is
// older than what the last one was shown. Tokens tell: the first in the queue is
// only ever followed by one with a greater token. An older state of the same
// one cannot be told from a newer one, nor one who has left from one who was
// missing in what the last session was shown; it is shown once more then, since
// the last change must not be missed.
func (f *Follower) take(h driver.Head) bool {
	f.known = h.Version
	if h.Version == f.shown || h.Version != 0 && h.Token < f.token {
		return false
	}
	f.shown, f.token = h.Version, max(f.token, h.Token)
	return true
}
