package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// watches are the watches of a session that are set or being set.
//
// The client library has no way to give up a watch: a channel stays in the Conn
// until what it watches changes. So a waiter that leaves lets its watch stand,
// and the next waiter for the same takes it over: one watch for each thing that
// is waited for, which goes when that or the connection goes, whoever waits and
// however often.
//
// A watch leaves m when it has fired, has failed or has lapsed, and not before:
// socket.fill has to know of all that the Conn might set again.
type watches struct {
	mu    sync.Mutex
	m     map[watchKey]*watch
	sweep int // when m has grown to this, watches that fired unseen are thrown out
}

// watchKey is what somebody waits for.
type watchKey struct {
	kind watchKind
	path string // of the node that it is about
}

type watchKind int8

const (
	onPlace     watchKind = iota // a node: its leaving
	onQueue                      // a queue: its children
	onHead                       // a queue: the leaving of its first node, and what is written to that
	onRecord                     // a record: what is written to it
	onAbsence                    // a node that is not there: its coming
	onSuccessor                  // a successor node: its leaving, and what is written to it
)

type watch struct {
	key  watchKey
	node string // the path that is watched; with onHead that of the first node

	ready chan struct{} // closed when the rest is set
	fired <-chan zk.Event
	seen  sight
	err   error
}

// sight is what the request that set a watch has read. It is set and watched in
// one request, so until the watch fires it is still so.
type sight struct {
	names []string // onLine
	value []byte   // onHead, onRecord and onSuccessor
	stat  zk.Stat  // onHead, onRecord and onSuccessor
	there bool     // all but onLine: the node is there
}

// minSweep is the size from which sweeping is worth it.
const minSweep = 64

func newWatches() *watches { return &watches{m: make(map[watchKey]*watch), sweep: minSweep} }

func (w *watches) find(key watchKey) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[key]
}

// add returns the watch of a key, and whether the caller is the one to set it,
// on the given node.
func (w *watches) add(key watchKey, node string) (*watch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if found := w.m[key]; found != nil {
		return found, false
	}
	if len(w.m) >= w.sweep {
		for k, old := range w.m {
			if old.spent() {
				delete(w.m, k)
			}
		}
		w.sweep = max(minSweep, 2*len(w.m)) // so that sweeping costs no more than adding
	}
	added := &watch{key: key, node: node, ready: make(chan struct{})}
	w.m[key] = added
	return added, true
}

// spent tells whether the watch has fired or failed. It may take the event away
// from a waiter, who finds the channel closed then, and looks again.
//
// The service tells of a change before it answers any request that came after
// the change, and the Conn keeps that order. So one that is not spent has seen
// the latest that this session knows of.
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

// names are those that a watch on a queue has seen.
func (w *watch) names() []string {
	if w == nil {
		return nil
	}
	return w.seen.names
}

// record is the one that a watch on it has seen.
func (w *watch) record() driver.Record {
	return driver.Record{Value: bytes.Clone(w.seen.value), Version: version(w.seen.stat.Version)}
}

// drop removes a watch that has fired or failed.
func (w *watches) drop(old *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m[old.key] == old {
		delete(w.m, old.key)
	}
}

// lapse forgets all watches that are set, and returns what makes the Conn fire
// them and those that are being set. It comes with the loss of a connection,
// where socket.fill hands the notices to the Conn. Of those that are being set
// the requests may be queued, to be sent on the next connection.
func (w *watches) lapse() []notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	var notices []notice
	for key, old := range w.m {
		n := notice{old.node, zk.EventNodeDataChanged}
		if key.kind == onQueue || key.kind == onPlace {
			n.kind = zk.EventNodeChildrenChanged
		}
		notices = append(notices, n)
		select {
		case <-old.ready:
			delete(w.m, key)
		default:
		}
	}
	w.sweep = max(minSweep, 2*len(w.m))
	return notices
}

// standing returns the watch of a key if there is one that has not fired.
func (s *session) standing(ctx context.Context, key watchKey) (*watch, error) {
	w := s.watches.find(key)
	if w == nil {
		return nil, nil
	}
	if err := s.isSet(ctx, w); err != nil {
		return nil, err
	}
	if w.spent() {
		s.watches.drop(w)
		return nil, nil
	}
	return w, nil
}

// watch returns the watch of a key. If there is none it sets one, on the
// given node.
func (s *session) watch(ctx context.Context, key watchKey, node string) (*watch, error) {
	for {
		if w, err := s.standing(ctx, key); w != nil || err != nil {
			return w, err
		}
		if err := s.enter(ctx, s.slots); err != nil {
			return nil, err
		}
		w, mine := s.watches.add(key, node)
		if !mine {
			s.leave(s.slots)
			continue // if it is set and fails, this call tries by itself
		}
		// Not bound to ctx: others may be waiting for this one by now.
		s.run(s.slots, func() {
			w.err = s.judge(w.request(s.conn))
			if w.err != nil {
				s.watches.drop(w)
			}
			close(w.ready)
		})
		if err := s.isSet(ctx, w); err != nil {
			return nil, err
		}
		return w, w.err
	}
}

// isSet waits until a watch is set or has failed.
func (s *session) isSet(ctx context.Context, w *watch) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return s.reason()
	}
}

// request sends the request that reads and watches. Where there is no node it
// leaves nothing behind, but for the watch that waits for it to come.
func (w *watch) request(conn *zk.Conn) (err error) {
	var stat *zk.Stat
	switch w.key.kind {
	case onQueue:
		w.seen.names, _, w.fired, err = conn.ChildrenW(w.node)
		return err
	case onAbsence:
		w.seen.there, _, w.fired, err = conn.ExistsW(w.node)
		return err
	case onPlace:
		_, _, w.fired, err = conn.ChildrenW(w.node)
		w.seen.there = err == nil
		return err
	default:
		w.seen.value, stat, w.fired, err = conn.GetW(w.node)
	}
	if err == nil {
		w.seen.stat, w.seen.there = *stat, true
	}
	return err
}

// Watch waits for the first of the places to go: one place with a watch on its
// node, several with one on the queue. The caller's own goroutine waits.
//
// For one, which is what nearly all wait for, the comings and goings of others
// are not even sent. A watch on each of several would be a request and a watch
// at the service for each; the one on the queue is told of everybody who comes
// and goes, and then lists the queue again, but those who wait for several are
// few.
//
// A lost connection does not end the wait. It goes on with the next connection,
// or ends with ctx or the session.
func (s *session) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	if err := s.checkQueue(queue); err != nil {
		return err
	}
	if len(places) == 0 {
		return invalid("watch on no place in the queue %q", queue)
	}
	for _, p := range places {
		if err := checkKey(queue, p); err != nil {
			return err
		}
	}
	if path := s.path(queue); len(places) > 1 {
		all := make(map[string]struct{}, len(places))
		for _, p := range places {
			all[p.Key] = struct{}{}
		}
		return s.wait(ctx, func(zk.Event) (*watch, error) {
			return freshly(ctx, s, path, func() (*watch, error) { return s.lookForAll(ctx, path, all) })
		})
	}
	node := s.below(queue, places[0].Key)
	return s.wait(ctx, func(told zk.Event) (*watch, error) {
		if told.Type == zk.EventNodeDeleted {
			return nil, nil
		}
		// The watch is set by listing the node's children, of which an
		// ephemeral node has none. So looking and watching are one request with
		// no gap in between; it is not told when the node is written to, as a
		// data watch is; and on a node that is gone it leaves nothing behind,
		// as an exists watch would.
		w, err := s.watch(ctx, watchKey{onPlace, node}, node)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		return w, err
	})
}

// lookForAll returns a watch on the queue while all of some places, by their
// keys, are in it, and nothing when one is not.
//
// A watch that stands from before shows without a request who is in the queue
// and who is not.
func (s *session) lookForAll(ctx context.Context, path string, places map[string]struct{}) (*watch, error) {
	w, err := s.watch(ctx, watchKey{onQueue, path}, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil // all are gone, and the queue after them
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

// wait looks, and waits for the watch that the look returns, until one returns
// none. A look is told what the watch before has said, if that has fired.
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

// attend waits for what happens first. If that is a new connection, the event
// is zero.
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

// WatchQueue lists the queue by the request that sets a watch on it, again after
// each event.
func (s *session) WatchQueue(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error {
	if err := s.checkQueue(queue); err != nil {
		return err
	}
	var shown []driver.Place
	first := true
	return s.wait(ctx, func(zk.Event) (*watch, error) {
		places, w, err := s.watchQueue(ctx, queue)
		if err != nil || !first && slices.Equal(places, shown) {
			return w, err
		}
		first, shown = false, places
		if !show(places) {
			return nil, nil
		}
		return w, nil
	})
}

// watchLine returns the places of a queue, and the watch that fires when they
// change. Where the order takes more than a listing, the places may be newer
// than the watch. If a queue is made between the two requests that look for it,
// a watch on its node is left over until that is deleted.
func (s *session) watchQueue(ctx context.Context, queue driver.Queue) ([]driver.Place, *watch, error) {
	path := s.path(queue)
	for {
		w, err := freshly(ctx, s, path, func() (*watch, error) { return s.watch(ctx, watchKey{onQueue, path}, path) })
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if w, err = s.watchAbsent(ctx, path); w != nil || err != nil {
				return nil, w, err
			}
			continue
		case err != nil:
			return nil, nil, err
		}
		c := s.parse(queue, w.names())
		if slices.ContainsFunc(c.nodes, node.late) {
			v, err := s.Ahead(ctx, queue, driver.Place{})
			return v.Ahead, w, err
		}
		return c.ahead(len(c.nodes)).Ahead, w, s.ambiguous(queue, c)
	}
}
