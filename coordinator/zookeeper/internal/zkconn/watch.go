package zkconn

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Kind is the request that sets a watch, and what the watch fires for.
type Kind int8

const (
	// Children fires when children come or go, or the node goes. It leaves
	// nothing behind on a node that is not there. On an ephemeral node, which
	// has no children, it waits for the node to go and ignores writes to it.
	Children Kind = iota
	// Data fires when the node is written to or goes. It leaves nothing behind
	// on a node that is not there.
	Data
	// Exists fires when the node comes, is written to or goes.
	Exists
)

// Target is what a watch is on.
type Target struct {
	Kind Kind
	Node string
	// As is the name that the watch is shared by, if not by its node: only the
	// caller that sets it needs to know the node then.
	As string
}

type watchKey struct {
	kind Kind
	name string
}

func (t Target) key() watchKey { return watchKey{t.Kind, cmp.Or(t.As, t.Node)} }

// Watch is a watch that is set, and what the request that set it has read. It is
// set and read in one request, so until it fires that is still so.
type Watch struct {
	Target Target
	Seen   Seen

	ready chan struct{} // closed when the rest is set
	fired <-chan zk.Event
	err   error
}

// Seen is what a request has read of a node.
type Seen struct {
	Names  []string // Children
	Value  []byte   // Data
	Stat   zk.Stat  // Data
	Exists bool     // Data and Exists
}

// watches are the watches of a session that are set or being set.
//
// The client has no way to give up a watch: a channel stays in it until what it
// watches changes. So a waiter that leaves lets its watch stand, and the next
// waiter for the same takes it over: one watch for each thing that is waited
// for, which goes when that or the connection goes, however many wait and
// however often.
//
// A watch leaves m when it has fired, has failed or has lapsed, and not before:
// socket.fill has to know of all that the client might set again.
type watches struct {
	mu    sync.Mutex
	m     map[watchKey]*Watch
	sweep int // when m has grown to this, watches that fired unseen are thrown out
}

// minSweep is the size from which sweeping is worth it.
const minSweep = 64

func newWatches() *watches { return &watches{m: make(map[watchKey]*Watch), sweep: minSweep} }

func (w *watches) find(key watchKey) *Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[key]
}

// add returns the watch of a target, and whether the caller is the one to set
// it.
func (w *watches) add(t Target) (*Watch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if found := w.m[t.key()]; found != nil {
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
	added := &Watch{Target: t, ready: make(chan struct{})}
	w.m[t.key()] = added
	return added, true
}

// spent tells whether the watch has fired or failed. It may take the event away
// from a waiter, who finds the channel closed then, and looks again.
//
// The service tells of a change before it answers any request that came after
// the change, and the client keeps that order. So one that is not spent has
// seen the latest that this session knows of.
func (w *Watch) spent() bool {
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

// drop removes a watch that has fired or failed.
func (w *watches) drop(old *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := old.Target.key(); w.m[key] == old {
		delete(w.m, key)
	}
}

// lapse forgets all watches that are set, and returns what makes the client fire
// them and those that are being set. It is called when a connection is lost:
// socket.fill hands the notices to the client. Of the watches that are being
// set the requests may be queued, to be sent on the next connection.
func (w *watches) lapse() []notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	var notices []notice
	for key, old := range w.m {
		n := notice{old.Target.Node, zk.EventNodeDataChanged}
		if key.kind == Children {
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

// Standing returns the watch of a target if there is one that has not fired, else
// nil.
func (c *Conn) Standing(ctx context.Context, t Target) (*Watch, error) {
	w := c.watches.find(t.key())
	if w == nil {
		return nil, nil
	}
	if err := c.Until(ctx, w.ready); err != nil {
		return nil, err
	}
	if w.spent() {
		c.watches.drop(w)
		return nil, nil
	}
	return w, nil
}

// Watching returns the watch of a target. If there is none it sets one.
func (c *Conn) Watching(ctx context.Context, t Target) (*Watch, error) {
	for {
		if w, err := c.Standing(ctx, t); w != nil || err != nil {
			return w, err
		}
		if err := c.enter(ctx, c.slots); err != nil {
			return nil, err
		}
		w, mine := c.watches.add(t)
		if !mine {
			c.leave(c.slots)
			continue // if it is set and fails, this call tries by itself
		}
		// Not bound to ctx: others may be waiting for this one by now.
		c.run(c.slots, func() {
			w.err = c.judge(w.request(c.client))
			if w.err != nil {
				c.watches.drop(w)
			}
			close(w.ready)
		})
		if err := c.Until(ctx, w.ready); err != nil {
			return nil, err
		}
		return w, w.err
	}
}

// request sends the request that reads and watches.
func (w *Watch) request(client *zk.Conn) (err error) {
	switch node := w.Target.Node; w.Target.Kind {
	case Children:
		w.Seen.Names, _, w.fired, err = client.ChildrenW(node)
	case Exists:
		w.Seen.Exists, _, w.fired, err = client.ExistsW(node)
	case Data:
		var stat *zk.Stat
		if w.Seen.Value, stat, w.fired, err = client.GetW(node); err == nil {
			w.Seen.Stat, w.Seen.Exists = *stat, true
		}
	}
	return err
}

// Wait calls look and waits for the watch that it returns, again and again,
// until it returns none. look is given the event of the watch before; that is
// zero at first, and when it is called because the connection is a new one. So
// a lost connection does not end the wait.
func (c *Conn) Wait(ctx context.Context, look func(told zk.Event) (*Watch, error)) error {
	var told zk.Event
	for {
		again := c.presence.reconnected() // before look, so that none is missed
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
		if told, err = c.attend(ctx, w, again); err != nil {
			return err
		}
	}
}

// attend waits for what happens first. If that is a new connection, the event
// is zero.
func (c *Conn) attend(ctx context.Context, w *Watch, again <-chan struct{}) (zk.Event, error) {
	select {
	case <-ctx.Done():
		return zk.Event{}, context.Cause(ctx)
	case <-c.over:
		return zk.Event{}, c.Err()
	case <-again:
		return zk.Event{}, nil
	case e := <-w.fired: // zero if another waiter took the event: looking again tells
		c.watches.drop(w)
		if e.Type == zk.EventNotWatching { // the client has lost its session, or was closed
			if err := c.judge(e.Err); err != nil {
				return zk.Event{}, err
			}
		}
		return e, nil
	}
}
