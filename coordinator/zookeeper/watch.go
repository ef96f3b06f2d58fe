package zookeeper

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// watches are the watches of a session that are set or being set, by path.
//
// The client library has no way to give up a watch: a channel stays in the Conn until the node
// changes. So a waiter that leaves lets its watch stand, and the next waiter on the same node takes it
// over: one watch for each node, which goes when the node or the connection goes,
// whoever waits and however often.
type watches struct {
	mu    sync.Mutex
	m     map[string]*watch
	sweep int // when m has grown to this, watches that fired unseen are thrown out
}

type watch struct {
	ready chan struct{} // closed when the two below are set
	fired <-chan zk.Event
	err   error
}

// minSweep is the size from which sweeping is worth it.
const minSweep = 64

func newWatches() *watches { return &watches{m: make(map[string]*watch), sweep: minSweep} }

func (w *watches) find(path string) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[path]
}

// add returns the watch on a path, and whether the caller is the one to set it.
func (w *watches) add(path string) (*watch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if found := w.m[path]; found != nil {
		return found, false
	}
	if len(w.m) >= w.sweep {
		for p, old := range w.m {
			if old.spent() {
				delete(w.m, p)
			}
		}
		w.sweep = max(minSweep, 2*len(w.m)) // so that sweeping costs no more than adding
	}
	added := &watch{ready: make(chan struct{})}
	w.m[path] = added
	return added, true
}

// spent tells whether the watch has fired or failed. It may take the event away from
// a waiter, who finds the channel closed then, and looks at the node.
func (w *watch) spent() bool {
	select {
	case <-w.ready:
	default:
		return false
	}
	if w.err != nil {
		return true
	}
	select {
	case <-w.fired:
		return true
	default:
		return false
	}
}

// drop removes a watch that is of no more use.
func (w *watches) drop(path string, old *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m[path] == old {
		delete(w.m, path)
	}
}

// lapse returns the paths of all watches and forgets those that are set. It comes with the loss
// of a connection, where socket.fill makes them fire. Of those that are being set the requests may be
// queued, to be sent on the next connection.
//
// For a given Conn it does come with the new connection. There the library has set the watches
// again, and for a node that has gone meanwhile the server fires at once. But whether it
// worked it does not say, so waiters set theirs anew.
func (w *watches) lapse() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	paths := slices.Collect(maps.Keys(w.m))
	maps.DeleteFunc(w.m, func(_ string, old *watch) bool {
		select {
		case <-old.ready:
			return true
		default:
			return false
		}
	})
	w.sweep = max(minSweep, 2*len(w.m))
	return paths
}

// Watch waits for the first of the places to go, with one data watch on each. The caller's own
// goroutine waits.
//
// A data watch is set by reading the node, so reading and watching are one request with no gap in
// between, and on a node that is gone it leaves nothing behind; an exists watch would.
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
	for {
		again := s.presence.reconnected() // before looking, so that none is missed
		set, gone, err := s.set(ctx, line, places)
		switch {
		case gone:
			return nil
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case s.own != nil && errors.Is(err, zk.ErrConnectionClosed):
			continue // enter waits for the next one; a given Conn may have been closed for good
		case err != nil:
			return err
		}
		if gone, err := s.attend(ctx, line, places, set, again); gone || err != nil {
			return err
		}
	}
}

// set sees to it that a watch is on each place, or finds one gone. It sends all requests before it
// waits for the first answer.
func (s *session) set(ctx context.Context, line driver.Line, places []driver.Place) (set []*watch, gone bool, err error) {
	set = make([]*watch, len(places))
	for i, p := range places {
		if set[i], err = s.watch(ctx, s.path(line)+"/"+p.Key); err != nil {
			return nil, false, err
		}
	}
	for _, w := range set {
		select {
		case <-w.ready:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-s.over:
			return nil, false, s.reason()
		}
		if errors.Is(w.err, zk.ErrNoNode) {
			return nil, true, nil
		}
		if w.err != nil {
			return nil, false, w.err
		}
	}
	return set, false, nil
}

// watch returns the watch on a path, which it begins to set if there is none.
func (s *session) watch(ctx context.Context, path string) (*watch, error) {
	if w := s.watches.find(path); w != nil {
		return w, nil
	}
	if err := s.enter(ctx, s.slots); err != nil {
		return nil, err
	}
	w, mine := s.watches.add(path)
	if !mine {
		s.leave(s.slots)
		return w, nil
	}
	// Not bound to ctx: others may be waiting for this one by now.
	s.run(s.slots, func() {
		_, _, fired, err := s.conn.GetW(path)
		if w.fired, w.err = fired, s.judge(err); w.err != nil {
			s.watches.drop(path, w)
		}
		close(w.ready)
	})
	return w, nil
}

// attend waits for what happens first. Without a result the caller looks again.
func (s *session) attend(ctx context.Context, line driver.Line, places []driver.Place, set []*watch, again <-chan struct{}) (gone bool, err error) {
	const ended, over, reconnected, first = 0, 1, 2, 3
	cases := make([]reflect.SelectCase, first, first+len(set))
	cases[ended] = receive(ctx.Done())
	cases[over] = receive(s.over)
	cases[reconnected] = receive(again)
	for _, w := range set {
		cases = append(cases, receive(w.fired))
	}
	chosen, value, _ := reflect.Select(cases)
	switch chosen {
	case ended:
		return false, context.Cause(ctx)
	case over:
		return false, s.reason()
	case reconnected:
		return false, nil
	}
	i := chosen - first
	s.watches.drop(s.path(line)+"/"+places[i].Key, set[i])
	switch e := value.Interface().(zk.Event); e.Type {
	case zk.EventNodeDeleted:
		return true, nil
	case zk.EventNotWatching:
		// The Conn has lost its session, or was closed.
		if err := s.judge(e.Err); err != nil {
			return false, err
		}
	}
	// The node was written to, which is no leaving; or the channel was closed, because
	// somebody else took the event: looking again tells.
	return false, nil
}

func receive[T any](c <-chan T) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
}
