package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
)

// This file has the protocol of a queue: how an entry is created and deleted.
//
//	          Join                        Leave, Pass, Forget, Remove
//	absent ───────────────────► queued ────────────────────────────────► gone
//	 │  ▲                         │                                       ▲
//	 │  │ Forget                  │ Convert                               │
//	 ▼  │                         ▼           Leave, Forget, Remove       │
//	unknown                   converted ──────────────────────────────────┘
//	(the reply was lost; Join with Again tells absent from queued)
//
//	Join     creates a sequential node and sets the parent's data
//	Convert  deletes the node and creates one with its number and another mode
//	Leave    deletes the node; so do Pass, Forget and Remove
//	Forget   waits for late joins and lists the queue first; so does Join with Again
//
// An entry is an ephemeral node, so in each state it is also deleted when its
// session ends. Its name holds contender, mode, session and place in the queue
// (names.go), and no name is ever used twice. In a contended queue it has a
// successor node beside it (handoff.go).

var (
	errNotOwner = errors.New("zookeeper: the entry belongs to another session")
	errReply    = errors.New("zookeeper: unexpected reply to a join")
)

// Join appends a node to the queue, in one request if the queue exists.
//
// The request is a transaction that creates an ephemeral sequential node and
// sets the parent's data to nothing. The Stat of the parent, in the second
// reply, shows the transaction's number, which is the node's czxid, and the
// number of children. The library cannot return the Stat of a new node, and a
// listing would cost one more request and grow with the queue. With c.Record
// the transaction also checks the version of the record's node.
//
// handoff.go says what a contended queue adds.
func (s *session) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	if err := cmp.Or(s.CheckQueue(queue), nodes.CheckContender(c)); err != nil {
		return driver.Joined{}, err
	}
	// In flight as long as this call, or a request that it left behind, may
	// create the node. Forget and a later Join wait for it.
	f, err := s.BeginFlight(ctx, c.ID)
	if err != nil {
		return driver.Joined{}, err
	}
	defer f.End()
	if c.Again {
		if j, found, err := s.findEarlier(ctx, queue, c.ID); err != nil {
			return driver.Joined{}, err
		} else if found {
			return s.ensureAlone(ctx, queue, c, j)
		}
	}
	if c.Alone {
		// The view may be stale. If it is empty, the join decides. If it shows
		// an entry that has just left, this attempt fails as an earlier one
		// would have.
		if view, err := s.Ahead(ctx, queue, driver.Place{}); err != nil {
			return driver.Joined{}, err
		} else if len(view.Ahead) > 0 {
			return driver.Joined{}, driver.ErrTaken
		}
	}
	to := joining{queue, s.Path(queue), c.Follows && s.contention.contended(queue)}
	a, err := nodes.WithParent(ctx, s.Session, to.path, func() (joinReply, error) {
		a, err := s.sendJoin(ctx, to, c, f)
		if errors.Is(err, errNoSuccessor) {
			a, err = s.sendJoin(ctx, joining{to.queue, to.path, false}, c, f)
		}
		return a, err
	})
	if err != nil {
		return driver.Joined{}, err
	}
	return s.ensureAlone(ctx, queue, c, s.noteJoin(ctx, queue, c, a))
}

// joining says what a join joins.
type joining struct {
	queue     driver.Queue
	path      string // of the queue
	successor bool   // with a successor node
}

// joinReply is the content of the reply to a join.
type joinReply struct {
	driver.Joined
	node      node
	successor string // the entry's successor node, or ""
	others    int32  // number of other children
	made      int64  // the czxid of the queue
}

// errNoSuccessor: the join failed because of the successor node.
var errNoSuccessor = errors.New("zookeeper: the successor node could not be made")

func (s *session) sendJoin(
	ctx context.Context, to joining, c driver.Contender, f *nodes.Flight,
) (joinReply, error) {
	place := to.path + "/" + c.Mode + "_" + c.ID + "_" + s.Hex + "_"
	// One object for all: each lock makes one.
	r := &struct {
		own   zk.CreateRequest
		queue zk.SetDataRequest
		ops   [4]any
	}{
		// The engine does not change the value any more.
		own:   zk.CreateRequest{Path: place, Data: c.Value, Acl: s.Tree.ACL, Flags: zk.FlagEphemeralSequential},
		queue: zk.SetDataRequest{Path: to.path, Version: -1},
	}
	ops := r.ops[:0]
	if c.Record != 0 {
		// First, so that a refused join creates no queue.
		version := nodes.DataVersion(c.Record)
		ops = append(ops, &zk.CheckVersionRequest{Path: s.RecordPath(to.queue), Version: version})
	}
	ops = append(ops, &r.own)
	if to.successor {
		path, prefix := to.path+"/"+successorPrefix, place[len(to.path)+1:]
		ops = append(ops, s.CreateRequest(path, []byte(prefix), zk.FlagEphemeralSequential))
	}
	last := len(ops) // of the successor node, if any
	o, err := s.Multi(ctx, f, append(ops, &r.queue))
	switch {
	case err == nil:
		return parseJoinReply(place, o)
	case c.Record != 0 && o.Failed == 1 && errors.Is(err, zk.ErrNoNode):
		return joinReply{}, driver.Wrap(driver.ErrStale, zk.ErrNoNode)
	case to.successor && o.Failed == last:
		return joinReply{}, driver.Wrap(errNoSuccessor, err)
	}
	return joinReply{}, err
}

// parseJoinReply reads the names of the node and its successor node, if any,
// and the Stat of the parent.
func parseJoinReply(place string, o nodes.Outcome) (joinReply, error) {
	n, err := createdNode(place, o.Made[0])
	if err != nil {
		return joinReply{}, err
	}
	if o.Stat.Mzxid == 0 {
		return joinReply{}, driver.Wrap(driver.ErrUnavailable, errReply)
	}
	a := joinReply{node: n, others: o.Stat.NumChildren - 1, made: o.Stat.Czxid}
	if o.Made[1] != "" {
		a.successor = path.Base(o.Made[1])
		a.others--
	}
	a.Place, a.Token, a.First = n.Place, driver.Token(o.Stat.Mzxid), a.others == 0
	return a, nil
}

// createdNode parses the path of the node that a join created. If the reply is
// about another node, it is unknown what the join created.
func createdNode(asked, path string) (node, error) {
	if !strings.HasPrefix(path, asked) {
		return node{}, nodes.WrongNode(path)
	}
	n, ok := parseNode(path[strings.LastIndexByte(asked, '/')+1:])
	if !ok || n.conversions != 0 {
		return node{}, nodes.WrongNode(path)
	}
	return n, nil
}

// ensureAlone removes the entry of a contender that wants to be alone and is
// not. An entry that joined later may have begun to wait for it, and reads the
// queue again. The other children may be successor nodes, so it lists them.
func (s *session) ensureAlone(
	ctx context.Context, queue driver.Queue, c driver.Contender, j driver.Joined,
) (driver.Joined, error) {
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

// ownNode is the node of an entry of this session. ZooKeeper lets any client
// delete it; the contract only this session.
func (s *session) ownNode(queue driver.Queue, own driver.Place) (node, error) {
	if err := cmp.Or(s.CheckQueue(queue), nodes.CheckKey(queue, own)); err != nil {
		return node{}, err
	}
	n, _ := parseNode(own.Key)
	if n.Session != s.Hex {
		return node{}, driver.Wrap(driver.ErrGone, errNotOwner)
	}
	return n, nil
}

// Leave deletes the node and its successor node, in one request.
//
// It checks no version or owner at the service: a node's name contains a random
// ID, a session and a sequence number, so no other entry ever has the path.
func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.release(ctx, queue, own, false)
}

// Pass writes to the node's successor node, if there is one, and deletes both,
// in one transaction.
func (s *session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.release(ctx, queue, own, true)
}

func (s *session) release(
	ctx context.Context, queue driver.Queue, own driver.Place, pass bool,
) error {
	n, err := s.ownNode(queue, own)
	if err != nil {
		return err
	}
	r := removal{queue: queue, node: n, path: s.ChildPath(queue, n.Key), pass: pass}
	e, _ := s.OwnEntry(r.path)
	r.successor = e.Successor
	return s.remove(ctx, r)
}

// removal says what is removed.
type removal struct {
	queue     driver.Queue
	node      node
	path      string // of the node
	successor string // its successor node, or ""
	pass      bool
}

// remove deletes a node and its successor node, and forgets the entry when the
// node is gone.
func (s *session) remove(ctx context.Context, r removal) error {
	near := s.neighbors.leaves(r.queue, r.node.Place)
	err := s.delete(ctx, r)
	gone := errors.Is(err, driver.ErrGone)
	s.neighbors.end(near, err == nil || gone, err == nil && r.pass)
	if err != nil && !gone {
		return err
	}
	if gone && r.successor != "" {
		// An operator has deleted the entry, or an earlier attempt of this call
		// got no reply.
		s.wakeFollower(ctx, s.ChildPath(r.queue, r.successor))
	}
	s.DeleteOwnEntry(r.path)
	return err
}

// delete sends the request that deletes a node, and its successor node if it
// still exists.
func (s *session) delete(ctx context.Context, r removal) error {
	if r.successor != "" {
		successor := s.ChildPath(r.queue, r.successor)
		ops := []any{nodes.DeleteRequest(successor), nodes.DeleteRequest(r.path)}
		if r.pass { // before the deletion: see Follow
			write := &zk.SetDataRequest{Path: successor} // if never written to
			ops = slices.Insert(ops, 0, any(write))
		}
		o, err := s.Multi(ctx, nil, ops)
		switch {
		case err == nil || o.Failed == 0 || o.Failed == len(ops):
			return err
		case r.pass && !errors.Is(err, zk.ErrNoNode):
			r.pass = false // the deletion wakes the follower
			return s.delete(ctx, r)
		}
	}
	return s.Delete(ctx, r.path, -1)
}

// wakeFollower deletes the successor node of an entry that is gone. It retries
// in the background.
func (s *session) wakeFollower(ctx context.Context, successor string) {
	err := s.Delete(ctx, successor, -1)
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		return
	}
	time.AfterFunc(time.Second, func() {
		s.Run(func() { s.wakeFollower(context.Background(), successor) })
	})
}

// Forget deletes all nodes of a contender of this session in a queue, after it
// has made sure that no more can appear: see BeginFlight.
func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	if err := cmp.Or(s.CheckQueue(queue), nodes.CheckID(id)); err != nil {
		return err
	}
	f, err := s.BeginFlight(ctx, id)
	if err != nil {
		return err
	}
	defer f.End()
	mine, all, err := s.entriesOf(ctx, queue, id)
	if err != nil {
		return err
	}
	for _, n := range mine {
		r := removal{queue: queue, node: n, path: s.ChildPath(queue, n.Key)}
		if all.hasSuccessor(n) {
			r.successor = n.successor()
		}
		err := s.remove(ctx, r)
		if err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
	}
	// Also what requests without a reply have removed or converted.
	s.neighbors.forget(queue, id)
	within := s.Path(queue) + "/"
	s.DeleteOwnEntries(func(node string) bool {
		name, inQueue := strings.CutPrefix(node, within)
		n, _ := parseNode(name)
		return inQueue && n.ID == id
	})
	return nil
}
