package zkconn

import (
	"context"
	"errors"
	"path"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
)

// Kind is the request that sets a watch, and the events that it fires for.
type Kind int8

const (
	// Children fires when a child is created or deleted, or the node is
	// deleted: on an ephemeral node, which has no children, only then.
	Children Kind = iota
	// Data fires when the node is written to or deleted.
	Data
	// First is Data on the first child of a node. Its key is the parent, so
	// only the caller that sets it needs to know which child it is.
	First
	// Exists fires when the node is created, written to or deleted. It alone
	// can be set on a missing node.
	Exists
)

// firedBy reports whether an event fires a watch of the kind.
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

// Target is the subject of a watch.
type Target struct {
	Kind Kind
	Node string
}

// key identifies the watch of a target.
func (t Target) key() Target {
	if t.Kind == First {
		t.Node = path.Dir(t.Node)
	}
	return t
}

// Watch is a watch with the result of the request that set it, which stays
// current until the watch fires.
type Watch struct {
	Target Target
	Seen   Seen

	ready chan struct{} // closed when Seen or err is set
	err   error
	fired chan struct{} // closed when event is set, or stays zero
	event zk.Event

	// behind: a child is gone, and the event that says so is on its way. It
	// comes after that of the child.
	behind atomic.Bool
}

// Fired returns a channel that is closed when the watch has fired. It is nil
// for no watch.
func (w *Watch) Fired() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.fired
}

// Over reports whether the watch has fired.
func (w *Watch) Over() bool {
	select {
	case <-w.fired:
		return true
	default:
		return false
	}
}

// Shows reports whether there is a watch that this event has fired.
func (w *Watch) Shows(event zk.EventType) bool {
	return w != nil && w.Over() && w.event.Type == event
}

// Seen is what a request has read of a node.
type Seen struct {
	Names  []string // Children
	Value  []byte   // Data, First
	Stat   zk.Stat  // Data, First
	Exists bool     // all but Children
}

// watches holds a session's watches that are set or being set, and have not
// fired.
//
// The client cannot remove a watch. So a waiter that leaves keeps its watch
// active, and the next waiter for the same target reuses it: one watch per
// target, however many wait and however often. The client's channels are not
// read: its callback gets each event first.
//
// No wait needs to be refreshed. A server sends the event of a change when it
// applies the change, before the reply to any later request. Each renewal is a
// sync, whose reply comes when the server has applied everything that the
// leader had committed before. So a server that lags, or applies nothing any
// more, does not answer renewals though it answers pings. After a quarter of
// the TTL its connection is closed, which fires all watches, and the waiters
// read again at another server.
type watches struct {
	mu sync.Mutex
	m  map[Target]*Watch // by key
}

// find returns the watch of a target, or nil.
func (w *watches) find(t Target) *Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[t.key()]
}

// add adds a watch for a target that has none.
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

// failed removes a watch that could not be set.
func (w *watches) failed(old *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := old.Target.key(); w.m[key] == old {
		delete(w.m, key)
	}
}

// fire fires the watches of an event. A watch that is still being set fires
// without it: the event may be of an earlier watch on the node, which the
// client set again after a reconnect. Its waiters read again, which is always
// right.
func (w *watches) fire(e zk.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind := Children; kind <= Exists; kind++ {
		key := Target{kind, e.Path}.key()
		if old := w.m[key]; old != nil && old.Target.Node == e.Path && kind.firedBy(e.Type) {
			delete(w.m, key)
			select {
			case <-old.ready:
				old.event = e
			default:
			}
			close(old.fired)
		}
	}
	if e.Type == zk.EventNodeDeleted {
		if parent := w.m[Target{Children, path.Dir(e.Path)}]; parent != nil {
			parent.behind.Store(true)
		}
	}
}

// fireAll fires all watches, without an event, and returns notices that fire
// the client's own.
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

// ActiveWatch returns a watch of the target that has not fired, or one that
// waits for its node to be created, or nil. Its Seen is the latest that this
// session knows: see Conn.event.
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

// WatchTarget returns the active watch of a target, or sets one.
func (c *Conn) WatchTarget(ctx context.Context, t Target) (*Watch, error) {
	for {
		if w, err := c.ActiveWatch(ctx, t); w != nil || err != nil {
			return w, err
		}
		if err := c.acquire(ctx); err != nil {
			return nil, err
		}
		w, added := c.watches.add(t)
		if !added {
			c.release()
			continue // if setting it fails, this call tries by itself
		}
		// Not bound to ctx: others may be waiting for this watch by now.
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

// WatchOrCreation is WatchTarget of a node that may be missing. Then the watch
// fires on its creation, and has seen nothing. (If the node is created between
// the two requests, a watch on it remains until it changes.)
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

// Wait calls next and waits for the watch that it returns, repeatedly, until
// that is nil. next gets the event of the previous watch. The event is zero at
// first, and after a lost connection, which does not end the wait.
func (c *Conn) Wait(ctx context.Context, next func(event zk.Event) (*Watch, error)) error {
	var event zk.Event
	for {
		w, err := next(event)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, zk.ErrConnectionClosed):
			event = zk.Event{}
			continue // acquire waits for the next connection
		case err != nil || w == nil:
			return err
		}
		if err := c.Until(ctx, w.fired); err != nil {
			return err
		}
		event = w.event
	}
}
