package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Follow waits with one watch: on the heel of the one ahead, which Join has
// set already if it has found that one; without a heel, on the entry ahead.
//
// A change of the heel's data says that the one ahead has passed. The heel is
// deleted together with its entry. If an operator deletes the entry alone, its
// own session deletes the heel as soon as it notices, or ends and takes it
// along.
func (s *session) Follow(ctx context.Context, line driver.Line, own, ahead driver.Place) (passed bool, err error) {
	if err := cmp.Or(s.checkLine(line), checkKey(line, own), checkKey(line, ahead)); err != nil {
		return false, err
	}
	mine, _ := parseNode(own.Key)
	heel, known := s.heelOf(line, mine, ahead)
	if heel == "" {
		return false, s.Watch(ctx, line, ahead)
	}
	err = s.wait(ctx, func(told zk.Event) (w *watch, err error) {
		switch {
		case told.Type == zk.EventNodeDeleted:
			return nil, nil
		case told.Type == zk.EventNodeDataChanged && told.State == zk.StateSyncConnected:
			// Nobody else writes to a heel. Own stands in the line, so that is
			// the one in which the watch was set.
			passed = true
			return nil, nil
		}
		w, known, passed, err = s.lookAtHeel(ctx, line, heel, ahead, known)
		return w, err
	})
	if passed && path.Base(heel) == mine.nearestHeel() { // of several who follow it this one clears it away
		tr := s.traces.of(line, mine)
		tr.spent = []string{path.Base(heel)}
		s.traces.keep(line, mine.ID, tr)
	}
	return passed && err == nil, err
}

// heelOf is the path of the heel of the one ahead; empty if it has none. known
// says that it has or had one.
func (s *session) heelOf(line driver.Line, mine node, ahead driver.Place) (heel string, known bool) {
	n, ok := parseNode(ahead.Key)
	if !ok || n.ID == "" || n.heel() == "" {
		return "", false
	}
	tr := s.traces.of(line, mine)
	known = tr.ahead == ahead.Key && !tr.bare
	if !known && (tr.ahead == ahead.Key || tr.heel == "") {
		return "", false
	}
	return s.below(line, n.heel()), known
}

// lookAtHeel returns the watch on the heel while that says nothing, nothing
// when the one ahead has left, and the watch on the entry ahead if there is no
// heel and none was known.
func (s *session) lookAtHeel(
	ctx context.Context, line driver.Line, heel string, ahead driver.Place, known bool,
) (w *watch, there, passed bool, err error) {
	w, err = s.watch(ctx, watchKey{onHeel, heel}, heel)
	switch {
	case errors.Is(err, zk.ErrNoNode) && !known:
		entry := s.below(line, ahead.Key)
		if w, err = s.watch(ctx, watchKey{onPlace, entry}, entry); errors.Is(err, zk.ErrNoNode) {
			return nil, false, false, nil
		}
		return w, false, false, err
	case errors.Is(err, zk.ErrNoNode):
		return nil, true, false, nil
	case err != nil:
		return nil, known, false, err
	}
	h, ok := read(path.Base(heel), w.seen.value)
	switch {
	case !ok || h.node.Key != ahead.Key: // the line was deleted, and made anew
		return nil, true, false, nil
	case h.passed:
		return nil, true, true, nil
	}
	return w, true, false, nil
}
