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
func (l *Queue) Follow() *Follower {
	return &Follower{queue: l, known: driver.Any, shown: driver.Any}
}

// Next returns the first in the queue: at the first call as it is now, and then
// each time that it has changed. ok is false when the queue is empty. Of
// changes in quick succession it may skip all but the last. Tokens never fall
// from one call to the next. It goes on after a lost session; then an older
// payload of the same contender, or one that has just left, may be returned
// once more.
//
// It watches one entry, whatever the length of the queue and the number of
// followers. When ctx ends while it waits, it returns context.Cause(ctx).
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
				first = f.queue.contender(h.Entry)
				first.Holding = h.Version != 0
				return first, first.Holding, nil
			}
		case ctx.Err() != nil || !errors.Is(err, coordinator.ErrSessionLost):
			return first, false, engine.Describe(ctx, "observe", f.queue.name, err)
		}
	}
}

// take notes a head, and reports whether it is new. The heads of a new session
// may begin with older ones than the last session has read. The token shows
// that: the first in the queue is only followed by one with a greater token. An
// older state of the same contender cannot be told from a newer one, and is
// returned once more.
func (f *Follower) take(h driver.Head) bool {
	f.known = h.Version
	if h.Version == f.shown || h.Version != 0 && h.Token < f.token {
		return false
	}
	f.shown, f.token = h.Version, max(f.token, h.Token)
	return true
}
