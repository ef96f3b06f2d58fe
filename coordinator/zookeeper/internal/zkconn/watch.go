package zkconn

import (
	"context"
	"errors"
	"path"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Kind is the request that sets a watch, and what the watch fires for.
type Kind int8

const (
	// Children fires when children come or go, or the node goes: on an
	// ephemeral node, which has no children, only then.
	Children Kind = iota
	// Data fires when the node is written to or goes.
	Data
	// First is Data on the first child of a node. It is found by its parent:
	// only the caller that sets it needs to know which child it is.
	First
	// Exists fires when the node comes, is written to or goes. It alone can be
	// set on a node that is not there.
	Exists
)

// firedBy tells whether an event makes a watch of the kind fire.
func (k Kind) firedBy(event zk.EventType) bool {
	switch event {
	case zk.EventNodeDeleted:
		return true
	case zk.EventNodeChildrenChanged:
		return k == Children
	case zk.EventNodeDataChanged:
		return k != Children
	case zk.EventNodeCreated:
		return k == Exists
	}
	return false
}

// Target is what a watch is on.
type Target struct {
	Kind Kind
	Node string
}

// key is what a watch is found by.
func (t Target) key() Target {
	if t.Kind == First {
		t.Node = path.Dir(t.Node)
	}
	return t
}

// Watch is a watch, and what the request that set it has read. Until it fires
// that is still so.
type Watch struct {
	Target Target
	Seen   Seen

	ready chan struct{} // closed when Seen is set, or err
	err   error
	fired chan struct{} // closed when event is set
	event zk.Event
}

// Seen is what a request has read of a node.
type Seen struct {
	Names  []string // Children
	Value  []byte   // Data, First
	Stat   zk.Stat  // Data, First
	Exists bool     // all but Children
}

// watches are the watches of a session that are set or being set, and have not
// fired.
//
// The client has no way to give up a watch. So a waiter that leaves lets its
// watch stand, and the next waiter for the same takes it over: one watch for
// each thing that is waited for, however many wait and however often. The
// channels of the client are not read: its callback gets each event first.
type watches struct {
	mu sync.Mutex
	m  map[Target]*Watch // by key
}

// find returns the watch of a target, nil if there is none.
func (w *watches) find(t Target) *Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[t.key()]
}

// add adds a watch for a target, unless there is one.
func (w *watches) add(t Target) (added *Watch, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m[t.key()] != nil {
		return nil, false
	}
	added = &Watch{Target: t, ready: make(chan struct{}), fired: make(chan struct{})}
	w.m[t.key()] = added
	return added, true
}

// failed drops a watch that could not be set.
func (w *watches) failed(old *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := old.Target.key(); w.m[key] == old {
		delete(w.m, key)
	}
}

// fire fires the watches that an event is about. One that is being set may be
// among them, for which the event comes too early or just in time. Its waiters
// look again, which is right in both cases.
func (w *watches) fire(e zk.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind := Children; kind <= Exists; kind++ {
		key := Target{kind, e.Path}.key()
		if old := w.m[key]; old != nil && old.Target.Node == e.Path && kind.firedBy(e.Type) {
			delete(w.m, key)
			old.event = e
			close(old.fired)
		}
	}
}

// fireAll fires all watches, without an event, and returns notices that make
// the client's own fire.
func (w *watches) fireAll() (notices []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, old := range w.m {
		event := zk.EventNodeDataChanged
		if old.Target.Kind == Children {
			event = zk.EventNodeChildrenChanged
		}
		notices = appendNotice(notices, old.Target.Node, event)
		close(old.fired)
	}
	clear(w.m)
	return notices
}

// Standing returns a watch of the target that has not fired, or else one that
// waits for its node to come; nil if there is neither. It has seen the latest
// that this session knows of: see Conn.event.
func (c *Conn) ActiveWatch(ctx context.Context, t Target) (*Watch, error) {
	for _, on := range [...]Target{t, {Exists, t.Node}} {
		w := c.watches.find(on)
		if w == nil {
			continue
		}
		if err := c.Until(ctx, w.ready); err != nil {
			return nil, err
		}
		select {
		case <-w.fired:
			continue
		default:
		}
		if w.err == nil && (on == t || !w.Seen.Exists) {
			return w, nil
		}
	}
	return nil, nil
}

// Watching returns the watch of a target. If there is none it sets one.
func (c *Conn) WatchTarget(ctx context.Context, t Target) (*Watch, error) {
	for {
		if w, err := c.ActiveWatch(ctx, t); w != nil || err != nil {
			return w, err
		}
		if err := c.acquire(ctx); err != nil {
			return nil, err
		}
		w, mine := c.watches.add(t)
		if !mine {
			c.release()
			continue // if it is set and fails, this call tries by itself
		}
		// Not bound to ctx: others may be waiting for this one by now.
		go func() {
			defer c.release()
			if w.err = c.classify(w.request(c.client)); w.err != nil {
				c.watches.failed(w)
			}
			close(w.ready)
		}()
		if err := c.Until(ctx, w.ready); err != nil {
			return nil, err
		}
		return w, w.err
	}
}

// Expecting is Watching of a node that need not be there. If it is not, the
// watch fires when it comes, and has seen nothing. (If it comes between the two
// requests, a watch on it is left over until it changes.)
func (c *Conn) WatchOrCreation(ctx context.Context, t Target) (*Watch, error) {
	for {
		w, err := c.WatchTarget(ctx, t)
		if !errors.Is(err, zk.ErrNoNode) {
			return w, err
		}
		w, err = c.WatchTarget(ctx, Target{Exists, t.Node})
		if err != nil || !w.Seen.Exists {
			return w, err
		}
	}
}

// request sends the request that reads and watches.
func (w *Watch) request(client *zk.Conn) (err error) {
	switch node := w.Target.Node; w.Target.Kind {
	case Children:
		w.Seen.Names, _, _, err = client.ChildrenW(node)
	case Exists:
		w.Seen.Exists, _, _, err = client.ExistsW(node)
	case Data, First:
		var stat *zk.Stat
		if w.Seen.Value, stat, _, err = client.GetW(node); err == nil {
			w.Seen.Stat, w.Seen.Exists = *stat, true
		}
	}
	return err
}

// Wait calls look and waits for the watch that it returns, again and again,
// until it returns none. look is given the event of the watch before; that is
// zero at first, and when the connection was lost, which does not end the wait.
func (c *Conn) Wait(ctx context.Context, look func(told zk.Event) (*Watch, error)) error {
	var told zk.Event
	for {
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
		if err := c.Until(ctx, w.fired); err != nil {
			return err
		}
		told = w.event
	}
}
