package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// This file has what a contender waits for behind another one:
//
//	the entry ahead is      at first                        after a second, besides
//	another session's       watch of its successor node,    watch of the own entry
//	                        or of the entry
//	this session's          nothing at the service: its     watches of the own entry
//	                        release wakes the followers     and of the one ahead
//
// Waiters for one node share a watch. So n waiters of a session behind each
// other have n watches. Each shows an entry's contender and the next one that
// an operator has deleted the entry.

// ownWatchDelay is how long a follower waits before it watches its own entry.
// Most waits are shorter, and save the request.
const ownWatchDelay = time.Second

// follower is a call of Follow.
type follower struct {
	*session
	queue      driver.Queue
	own, ahead string        // keys
	near       *neighbor     // the entry ahead, if it is of this session
	behind     bool          // the entry ahead has a successor node
	given      *zkconn.Watch // on it, if Join has set it
	delay      *time.Timer   // nil when it has ended
	mine, its  *zkconn.Watch // on the own entry, and on what shows the one ahead
}

// Follow waits with one watch of the entry ahead at most. Join sets that watch
// if it finds the successor node of another session's entry.
//
// If an operator deletes an entry without its successor node, its session
// deletes the node as soon as it notices, or at its own end.
func (s *session) Follow(
	ctx context.Context, queue driver.Queue, own, ahead driver.Place,
) (passed bool, err error) {
	err = cmp.Or(s.CheckQueue(queue), nodes.CheckKey(queue, own), nodes.CheckKey(queue, ahead))
	if err != nil {
		return false, err
	}
	if me, ok := parseNode(own.Key); ok && me.conversions > 0 {
		return false, zkconn.Invalid("place %q in the queue %q: a converted entry follows none", own.Key, queue)
	}
	f := s.newFollower(queue, own, ahead)
	defer f.stopDelay()
	for {
		left, passed, err := f.look(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return false, context.Cause(ctx)
		case errors.Is(err, zk.ErrConnectionClosed): // the next watch waits for a connection
		case err != nil || left:
			return passed && err == nil, err
		default:
			if err := f.rest(ctx); err != nil {
				return false, err
			}
		}
	}
}

func (s *session) newFollower(queue driver.Queue, own, ahead driver.Place) *follower {
	f := &follower{session: s, queue: queue, own: own.Key, ahead: ahead.Key}
	if f.near = s.neighbors.follow(queue, own, ahead); f.near == nil {
		e, _ := s.OwnEntry(s.ChildPath(queue, own.Key))
		n, _ := parseNode(ahead.Key)
		if f.behind = e.Follows == ahead.Key && n.successor() != ""; f.behind {
			f.given = e.Watch
		}
	}
	f.delay = time.NewTimer(ownWatchDelay)
	return f
}

func (f *follower) stopDelay() {
	if f.delay != nil {
		f.delay.Stop()
		f.delay = nil
	}
}

// look reports whether the entry ahead has left, or sets the watches that are
// missing. It looks at the own entry afterwards: if that was deleted before the
// entry ahead passed, the service has said so before.
func (f *follower) look(ctx context.Context) (left, passed bool, err error) {
	if left, passed, err = f.seen(ctx); err != nil {
		return false, false, err
	}
	if f.delay == nil && (f.mine == nil || f.mine.Over()) {
		if f.mine, err = f.watchEntry(ctx, f.own); err != nil { // ErrGone, if it was deleted
			return false, false, err
		}
	}
	switch {
	case left, f.its != nil && !f.its.Over(), f.near != nil && f.delay != nil:
		return left, passed, nil
	}
	f.its, err = f.watchAhead(ctx)
	return err == nil && f.its == nil, false, err
}

// seen reports what the session and the watch have shown of the entry ahead.
func (f *follower) seen(ctx context.Context) (left, passed bool, err error) {
	if f.near != nil {
		if left, passed = f.neighbors.hasLeft(f.near); left {
			return left, passed, nil
		}
	}
	switch {
	case f.its.Shows(zk.EventNodeDeleted):
		if f.near != nil {
			passed, err = f.neighbors.outcome(ctx, f.Until, f.near)
		}
		return true, passed, err
	case f.its.Shows(zk.EventNodeDataChanged):
		// Only its owner writes to a successor node. Own is still queued,
		// so the queue, and with it the successor node, was not replaced.
		return true, true, nil
	}
	return false, false, nil
}

// rest waits until there may be something to look at.
func (f *follower) rest(ctx context.Context) error {
	var late <-chan time.Time
	var left <-chan struct{}
	if f.delay != nil {
		late = f.delay.C
	}
	if f.near != nil {
		left = f.near.gone
	}
	select {
	case <-f.mine.Fired():
	case <-f.its.Fired():
	case <-left:
	case <-late:
		f.delay = nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.Done():
		return f.Err()
	}
	return nil
}

// watchAhead returns a watch that shows when the entry ahead has left, or nil
// when it has.
func (f *follower) watchAhead(ctx context.Context) (w *zkconn.Watch, err error) {
	switch {
	case f.given != nil: // it may have fired already
		w, f.given = f.given, nil
		return w, nil
	case f.behind:
		n, _ := parseNode(f.ahead)
		w, err = f.watchSuccessor(ctx, n)
	default:
		w, err = f.watchEntry(ctx, f.ahead)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return w, err
}

func (f *follower) watchEntry(ctx context.Context, key string) (*zkconn.Watch, error) {
	return f.WatchTarget(ctx, zkconn.Target{Kind: zkconn.Children, Node: f.ChildPath(f.queue, key)})
}

// watchSuccessor returns a watch on the successor node of the entry ahead.
func (f *follower) watchSuccessor(ctx context.Context, ahead node) (*zkconn.Watch, error) {
	successor := ahead.successor()
	w, err := f.WatchTarget(ctx, zkconn.Target{Kind: zkconn.Data, Node: f.ChildPath(f.queue, successor)})
	if err != nil {
		return nil, err
	}
	if n, _ := entryOf(successor, w.Seen.Value); n.Key != ahead.Key {
		// Someone wrote to it, or the queue was deleted and created anew.
		return f.watchEntry(ctx, f.ahead)
	}
	return w, nil
}
