package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// maxTries bounds how often a join makes the parents anew. A container that is
// empty is removed by the service, so it can vanish between its creation and
// the join, but not time after time.
const maxTries = 5

// Join appends a node to the queue: one request, if the queue was used lately.
//
// The request creates an ephemeral sequential node and sets the parent's data
// to nothing. Both happen in one transaction, so the answer to the second half,
// the parent's Stat, tells about the first: the transaction's number, which is
// the node's czxid, and how many children there are. The library can ask for no
// Stat of a new node, and a listing would cost one more request and grow with
// the queue. With c.Record the version of the record's node is checked in the
// same transaction.
//
// In a queue that is busy the transaction makes a successor node as well, and if
// others are there one read looks for the successor node of the nearest of
// them: see handoff.go.
//
// With c.Again the node may be there already, and is looked for. Listing comes
// after a sync: the follower that this session has moved to may not have heard
// of a node that was made through the one before.
func (s *session) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	if err := cmp.Or(s.checkQueue(queue), checkContender(c)); err != nil {
		return driver.Joined{}, err
	}
	// In flight for as long as this call, or a request that it has left behind,
	// may still make the node. Forget waits for it, and so does a later Join
	// with Again.
	f, earlier := s.joins.begin(queue, c.ID)
	defer f.end()
	if c.Again {
		if j, found, err := s.find(ctx, queue, c.ID, earlier); err != nil {
			return driver.Joined{}, err
		} else if found {
			return s.settle(ctx, queue, c, j)
		}
	}
	if c.Alone {
		if taken, err := s.taken(ctx, queue); err != nil {
			return driver.Joined{}, err
		} else if taken {
			return driver.Joined{}, driver.ErrTaken
		}
	}
	successor := c.Follows && s.contention.busy(queue)
	for range maxTries {
		a, err := s.add(ctx, queue, c, f, successor)
		if err == nil {
			return s.settle(ctx, queue, c, s.arrive(ctx, queue, c, a))
		}
		if errors.Is(err, errNoSuccessor) {
			successor = false
			continue
		}
		if errors.Is(err, driver.ErrStale) {
			return driver.Joined{}, err
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return driver.Joined{}, err
		}
		if err := s.ensure(ctx, s.path(queue)); err != nil {
			return driver.Joined{}, err
		}
	}
	return driver.Joined{}, driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: the queue's node vanished again and again"))
}

// made is the node that a join has made, of whose path the service adds the
// number to what was asked for. A reply about another node leaves it unknown
// what the join has made.
func made(asked, path string) (node, error) {
	if !strings.HasPrefix(path, asked) {
		return node{}, misdirected(path)
	}
	n, ok := parseOwn(path[strings.LastIndexByte(asked, '/')+1:])
	if !ok || n.turn != 0 {
		return node{}, misdirected(path)
	}
	return n, nil
}

// misdirected is the error of a join whose reply is about another node.
func misdirected(path string) error {
	return driver.Wrap(driver.ErrUnavailable, fmt.Errorf("zookeeper: the reply to a join is about node %q", path))
}

// shortLine is how many children may be listed where their number alone would
// do if there were no successor nodes.
const shortQueue = 16

// taken reads whether somebody is in the queue.
//
// The view may be a moment old. If it shows nobody, the join decides. If it
// shows somebody who has left just now, the attempt fails as one a moment
// earlier would have; a sync before each look would double the cost of failing,
// the usual outcome where many try.
//
// It lists the queue, since a successor node is nobody, unless the queue is long:
// that many successor nodes are never left over.
func (s *session) taken(ctx context.Context, queue driver.Queue) (bool, error) {
	path := s.path(queue)
	if err := s.fresh(ctx, path); err != nil {
		return false, err
	}
	if s.contention.long(queue) {
		stat, err := s.stat(ctx, path)
		switch {
		case err == nil && stat.NumChildren > shortQueue:
			return true, nil
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return false, err
		}
	}
	names, err := s.names(ctx, path)
	if err != nil {
		return false, err
	}
	s.contention.saw(queue, int32(min(len(names), math.MaxInt32)))
	return !onlySuccessors(names), nil
}

// onlySuccessors tells whether nobody is among the children of a queue.
func onlySuccessors(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, ok := parseSuccessor(name)
		return !ok
	})
}

// settle makes sure that a contender who wants to be alone is. The one who came
// first meanwhile does not notice; one who came later may have begun to wait
// for this node, and looks again. Others may be successor nodes, so it looks
// who they are.
func (s *session) settle(ctx context.Context, queue driver.Queue, c driver.Contender, j driver.Joined) (driver.Joined, error) {
	if !c.Alone || j.First {
		return j, nil
	}
	view, err := s.Ahead(ctx, queue, j.Place)
	if err == nil && len(view.Ahead) == 0 {
		j.First = true
		return j, nil
	}
	if err := s.Leave(ctx, queue, j.Place); err != nil && !errors.Is(err, driver.ErrGone) {
		return driver.Joined{}, err
	}
	return driver.Joined{}, driver.ErrTaken
}

// arrival is what the reply to a join says.
type arrival struct {
	driver.Joined
	node      node
	successor string // the name of its own, empty if it has none
	others    int32  // how many nodes there are besides
}

// errNoSuccessor is the outcome of a join that failed because of the successor
// node.
var errNoSuccessor = errors.New("zookeeper: the successor node could not be made")

// add sends the request that joins.
func (s *session) add(ctx context.Context, queue driver.Queue, c driver.Contender, f *flight, successor bool) (arrival, error) {
	prefix := nodePrefix(c, s.hex)
	place := s.below(queue, prefix)
	parent := place[:len(place)-len(prefix)-1]
	ops := make([]any, 0, 4)
	if c.Record != 0 {
		// First, so that no queue is made for a join that the record refuses.
		ops = append(ops, &zk.CheckVersionRequest{Path: s.record(queue), Version: dataVersion(c.Record)})
	}
	ops = append(ops, s.creating(place, c.Value, zk.FlagEphemeralSequential))
	if successor {
		ops = append(ops, s.creating(parent+"/"+successorPrefix, []byte(prefix), zk.FlagEphemeralSequential))
	}
	before := len(ops) // of which the successor node is the last
	o, err := s.multi(ctx, f, append(ops, &zk.SetDataRequest{Path: parent, Version: -1}))
	switch {
	case err == nil:
		return arrived(place, o)
	case c.Record != 0 && o.failed == 1 && errors.Is(err, zk.ErrNoNode):
		return arrival{}, driver.Wrap(driver.ErrStale, zk.ErrNoNode)
	case successor && o.failed == before:
		return arrival{}, driver.Wrap(errNoSuccessor, err)
	}
	return arrival{}, err
}

// arrived reads the reply: to the making of the node, that of the successor
// node if there is one, and the Stat of the parent.
func arrived(place string, o outcome) (arrival, error) {
	n, err := made(place, o.made[0])
	if err != nil {
		return arrival{}, err
	}
	if o.stat.Mzxid == 0 {
		return arrival{}, driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: unexpected reply to a join"))
	}
	a := arrival{node: n, others: o.stat.NumChildren - 1}
	if o.made[1] != "" {
		a.successor = path.Base(o.made[1])
		a.others--
	}
	a.Joined = driver.Joined{Place: n.Place, Token: driver.Token(o.stat.Mzxid), First: a.others == 0}
	return a, nil
}

// arrive notes what a join has met, and looks for the nearest contender by its
// successor node.
func (s *session) arrive(ctx context.Context, queue driver.Queue, c driver.Contender, a arrival) driver.Joined {
	tr := ownEntry{key: a.node.Key, successor: a.successor}
	alone := a.others == 0
	if a.successor != "" && !alone && !c.Alone {
		switch h, ok := s.nearest(ctx, queue, a.node); {
		case !ok:
		case h.passed: // it was the first in the queue and directly ahead, and has left
			a.First = true
			tr.spent = []string{a.node.nearestSuccessor()}
			alone = a.others == 1 && h.node.Session == s.hex
		default:
			a.Nearest, tr.ahead = h.node.Place, h.node.Key
		}
	}
	if tr.successor != "" {
		s.ownEntries.keep(queue, c.ID, tr)
	}
	switch {
	case alone:
		s.contention.alone(queue)
	case c.Follows && !a.node.late():
		s.contention.met(queue, a.others)
	}
	return a.Joined
}

// nearest looks for the successor node of the one directly ahead, and watches
// it: for Follow, which finds the watch standing. A failure says nothing: then
// the queue is read.
func (s *session) nearest(ctx context.Context, queue driver.Queue, n node) (h successorData, ok bool) {
	name := n.nearestSuccessor()
	if name == "" {
		return successorData{}, false
	}
	successor := s.below(queue, name)
	w, err := s.watch(ctx, watchKey{onSuccessor, successor}, successor)
	if err != nil {
		return successorData{}, false
	}
	h, ok = read(name, w.seen.value)
	return h, ok
}

// parentKind is what kind of node queues are. It is learnt once for all sessions
// of a driver.
type parentKind struct{ plain atomic.Bool }

// ensure makes the nodes above a queue's contenders, from the bottom: usually
// only the last is missing, and there may be no permission to look at those
// above.
//
// They are containers, which the service removes when they have become empty.
// Servers before 3.5 do not know those and get plain nodes, which stay.
func (s *session) ensure(ctx context.Context, node string) error {
	for range maxTries {
		err := s.create(ctx, node)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case code(err) == codeUnimplemented:
			s.kind.plain.Store(true)
		case errors.Is(err, zk.ErrNoNode) && path.Dir(node) != "/":
			if err := s.ensure(ctx, path.Dir(node)); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: the nodes above the queue vanished again and again"))
}

func (s *session) create(ctx context.Context, node string) error {
	_, err := call(ctx, s, func() (string, error) {
		if s.kind.plain.Load() {
			return s.conn.Create(node, nil, zk.FlagPersistent, s.acl)
		}
		return s.conn.CreateContainer(node, nil, zk.FlagContainer, s.acl)
	})
	return err
}

// Leave deletes the node, in one request, and its successor node with it.
//
// No version or owner needs to be checked at the service: a node's name holds a
// random ID, a session and a sequence number, so the path is the entry, and is
// never another one.
func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.withdraw(ctx, queue, own, false)
}

// Pass deletes the node and writes to its successor node, if it has one and the
// queue is busy still: in one transaction, which also deletes the successor node
// of the one that passed to it.
func (s *session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.withdraw(ctx, queue, own, true)
}

func (s *session) withdraw(ctx context.Context, queue driver.Queue, own driver.Place, pass bool) error {
	if err := cmp.Or(s.checkQueue(queue), checkKey(queue, own)); err != nil {
		return err
	}
	n, _ := parseNode(own.Key)
	if n.Session != s.hex {
		// Any client could delete it. Only the session that holds may let go.
		return driver.Wrap(driver.ErrGone, errNotMine)
	}
	tr := s.ownEntries.of(queue, n)
	pass = pass && tr.successor != "" && tr.successor == n.successor() && s.contention.busy(queue) && s.left.note(queue, tr.successor, 1)
	err := s.depart(ctx, queue, n, tr, pass)
	if tr.successor != "" && errors.Is(err, driver.ErrGone) {
		// Somebody else has deleted the entry, or an earlier attempt of this
		// call had no answer.
		s.shed(ctx, queue, tr.successor)
	}
	return err
}

// depart deletes a node and what is to go with it, and forgets it when it is
// gone.
func (s *session) depart(ctx context.Context, queue driver.Queue, n node, tr ownEntry, pass bool) error {
	node := s.below(queue, n.Key)
	err := s.takeAway(ctx, queue, n, node, tr, pass)
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.written.drop(node)
		s.ownEntries.drop(queue, n)
	}
	return err
}

// takeAway sends the request that deletes a node, and what is to go with it.
// When something of that is not there any more, or is refused, it is left out:
// only the node itself counts.
func (s *session) takeAway(ctx context.Context, queue driver.Queue, n node, node string, tr ownEntry, pass bool) error {
	if !pass && tr.successor == "" && len(tr.spent) == 0 {
		return s.remove(ctx, node)
	}
	parent := s.path(queue) + "/"
	var ops []any
	at := 0   // where the node's own is
	if pass { // before the node goes: see Follow
		ops = append(ops, &zk.SetDataRequest{Path: parent + tr.successor, Data: successorData{n, true}.data()})
		at = 1
	}
	ops = append(ops, deleting(node))
	if tr.successor != "" && !pass {
		ops = append(ops, deleting(parent+tr.successor))
	}
	for _, name := range tr.spent {
		ops = append(ops, deleting(parent+name))
	}
	for len(ops) > 1 {
		o, err := s.multi(ctx, nil, slices.Clone(ops))
		bad := o.failed - 1
		switch {
		case err == nil || bad < 0 || bad == at:
			return err
		case pass && !errors.Is(err, zk.ErrNoNode) && bad < at: // whoever follows must not wait for it
			ops[bad], pass = deleting(parent+tr.successor), false
		default:
			if ops = slices.Delete(ops, bad, bad+1); bad < at {
				at--
			}
		}
	}
	return s.remove(ctx, node)
}

// Forget deletes whatever nodes a contender of this session has in a queue,
// after making sure that no more can appear. A request to join, or to convert,
// is in one of four places:
//
//   - In this process: waiting for the connection, queued in the Conn, or sent and unanswered.
//     The Conn sends what is queued even after a reconnect, so Forget waits until the
//     goroutine of each such request has returned. That takes a quarter of the TTL
//     at most, see impatience.
//   - On a connection that was lost, or at the server at its end. This session has a
//     connection now, or Forget could not ask. A server that another connection of the session
//     is made to closes the old one before it answers; if it is another server, the leader has
//     noted the move and refuses what the old server passes on later.
//   - At the leader, not yet committed, or committed and not yet known to the server that
//     this session is connected to. The sync queues behind it at the leader and its answer
//     comes to this server after it.
//   - Applied, then, and in the listing.
//
// A conversion that is called while Forget runs may give the node another name
// after the listing. Then the delete finds nothing, and Forget lists again.
// Once a delete has found the node, no conversion does any more.
func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	if err := s.checkQueue(queue); err != nil {
		return err
	}
	if !within(id, 16, 32, isHex) {
		return invalid("contender ID %q: want 16 to 32 lower-case hex digits", id)
	}
	joins := s.joins.flights(id)
	for missed := true; missed; {
		nodes, all, err := s.mine(ctx, queue, id, joins)
		if err != nil {
			return err
		}
		missed, joins = false, nil
		for _, n := range nodes {
			tr := s.ownEntries.of(queue, n)
			if tr.successor = ""; all.hasSuccessor(n) {
				tr.successor = n.successor()
			}
			err := s.depart(ctx, queue, n, tr, false)
			if errors.Is(err, zk.ErrNoNode) {
				missed, err = true, nil
			}
			if err != nil {
				return err
			}
		}
		if !missed {
			err = s.removeOrphans(ctx, queue, all, id)
		}
		if err != nil {
			return err
		}
	}
	s.ownEntries.forget(queue, id)
	return nil
}

// removeOrphans deletes those of the successor nodes whose entries are gone
// that are a contender's of this session: somebody else has deleted its entry.
func (s *session) removeOrphans(ctx context.Context, queue driver.Queue, c queueView, id string) error {
	for _, name := range c.orphans() {
		successor := s.below(queue, name)
		data, err := call(ctx, s, func() ([]byte, error) {
			data, _, err := s.conn.Get(successor)
			return data, err
		})
		if err == nil && s.ownsSuccessor(name, data, id) {
			err = s.remove(ctx, successor)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, driver.ErrRefused) {
			return err
		}
	}
	return nil
}

// ownsSuccessor tells whether a successor node is that of a contender of this
// session.
func (s *session) ownsSuccessor(name string, data []byte, id string) bool {
	h, ok := read(name, data)
	return ok && h.node.ID == id && h.node.Session == s.hex
}
