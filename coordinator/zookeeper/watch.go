package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Watch waits for the first of the places to go: one place with a watch on its node, several with one on the
// line. The caller's own goroutine waits.
//
// For one, which is what nearly all wait for, the comings and goings of others are not even sent. A watch on each of
// several would be a request and a watch at the service for each; the one on the line is told of everybody who comes
// and goes, and then lists the line again, but those who wait for several are few.
//
// A lost connection does not end the wait. It goes on with the next connection, or ends
// with ctx or the session.
func (s *session) Watch(ctx context.Context, line driver.Line, places ...driver.Place) error {
	if err := s.checkLine(line); err != nil {
		return err
	}
	if len(places) == 0 {
		return invalid("watch on no place in line %q", line)
	}
	for _, p := range places {
		if err := checkKey(line, p); err != nil {
			return err
		}
	}
	if path := s.path(line); len(places) > 1 {
		all := make(map[string]struct{}, len(places))
		for _, p := range places {
			all[p.Key] = struct{}{}
		}
		return s.wait(ctx, func(zk.Event) (*watch, error) {
			return freshly(ctx, s, path, func() (*watch, error) { return s.lookForAll(ctx, path, all) })
		})
	}
	node := s.below(line, places[0].Key)
	return s.wait(ctx, func(told zk.Event) (*watch, error) {
		if told.Type == zk.EventNodeDeleted {
			return nil, nil
		}
		// The watch is set by listing the node's children, of which an ephemeral node has none. So looking and watching are one
		// request with no gap in between; it is not told when the node is written to, as a data watch is; and on a node that is gone
		// it leaves nothing behind, as an exists watch would.
		w, err := s.watch(ctx, watchKey{onPlace, node}, node)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		return w, err
	})
}

// lookForAll returns a watch on the line while all of some places, by their keys, are in it, and nothing when one is not.
//
// A watch that stands from before shows without a request who is in the line
// and who is not.
func (s *session) lookForAll(ctx context.Context, path string, places map[string]struct{}) (*watch, error) {
	w, err := s.watch(ctx, watchKey{onLine, path}, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil // all are gone, and the line after them
	case err != nil || hasAll(w.seen.names, places):
		return w, err
	}
	return nil, nil
}

// hasAll tells whether all of the places are among the children.
func hasAll(names []string, places map[string]struct{}) bool {
	there := 0
	for _, name := range names {
		if _, ok := places[name]; ok {
			there++
		}
	}
	return there == len(places)
}

// wait looks, and waits for the watch that the look returns, until one returns none. A look is told what the
// watch before has said, if that has fired.
func (s *session) wait(ctx context.Context, look func(told zk.Event) (*watch, error)) error {
	var told zk.Event
	for {
		again := s.presence.reconnected() // before looking, so that none is missed
		w, err := look(told)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, zk.ErrConnectionClosed):
			told = zk.Event{}
			continue // enter waits for the next one
		case err != nil || w == nil:
			return err
		}
		if told, err = s.attend(ctx, w, again); err != nil {
			return err
		}
	}
}

// attend waits for what happens first. If that is a new connection, the event is zero.
func (s *session) attend(ctx context.Context, w *watch, again <-chan struct{}) (zk.Event, error) {
	select {
	case <-ctx.Done():
		return zk.Event{}, context.Cause(ctx)
	case <-s.over:
		return zk.Event{}, s.reason()
	case <-again:
		return zk.Event{}, nil
	case e := <-w.fired: // zero if somebody else took the event: looking again tells
		s.watches.drop(w)
		if e.Type == zk.EventNotWatching { // the Conn has lost its session, or was closed
			if err := s.judge(e.Err); err != nil {
				return zk.Event{}, err
			}
		}
		return e, nil
	}
}
