package zookeeper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// maxTries bounds how often a join makes the parents anew. A container that is empty is
// removed by the service, so it can vanish between its creation and the join, but
// not time after time.
const maxTries = 5

// Join appends a node to the line: one request, if the line was used lately.
//
// The request creates an ephemeral sequential node and sets the parent's data to
// nothing. Both happen in one transaction, so the answer to the second half, the
// parent's Stat, tells about the first: the transaction's number, which is the node's czxid,
// and how many children there are. The library can ask for no Stat of a new node,
// and a listing would cost one more request and grow with the line. With c.Record the version of the record's node is
// checked in the same transaction.
//
// With c.Again the node may be there already, and is looked for. Listing comes after a
// sync: the follower that this session has moved to may not have heard of a node that was
// made through the one before.
func (s *session) Join(ctx context.Context, line driver.Line, c driver.Contender) (driver.Joined, error) {
	if err := cmp.Or(s.checkLine(line), checkContender(c)); err != nil {
		return driver.Joined{}, err
	}
	c.Value = bytes.Clone(c.Value) // a request may outlive the call
	// In flight for as long as this call, or a request that it has left behind, may still make the
	// node. Forget waits for it, and so does a later Join with Again.
	f, earlier := s.joins.begin(c.ID)
	defer s.joins.end(c.ID, f)
	if err := s.lent.enlist(line, c.ID); err != nil {
		return driver.Joined{}, err
	}
	if c.Again {
		if j, found, err := s.find(ctx, line, c.ID, earlier); err != nil {
			return driver.Joined{}, err
		} else if found {
			return s.settle(ctx, line, c, j)
		}
	}
	if c.Alone {
		if taken, err := s.taken(ctx, line); err != nil {
			return driver.Joined{}, err
		} else if taken {
			s.lent.strike(line, c.ID)
			return driver.Joined{}, driver.ErrTaken
		}
	}
	for range maxTries {
		j, err := s.add(ctx, line, c, f)
		if err == nil {
			return s.settle(ctx, line, c, j)
		}
		if errors.Is(err, driver.ErrStale) {
			s.lent.strike(line, c.ID)
			return driver.Joined{}, err
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return driver.Joined{}, err
		}
		if err := s.ensure(ctx, s.path(line)); err != nil {
			return driver.Joined{}, err
		}
	}
	return driver.Joined{}, driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: the line's node vanished again and again"))
}

// taken reads whether somebody is in the line.
//
// The view may be a moment old. If it shows nobody, the join decides. If it shows
// somebody who has left just now, the attempt fails as one a moment earlier would
// have; a sync before each look would double the cost of failing, the usual outcome where
// many try.
func (s *session) taken(ctx context.Context, line driver.Line) (bool, error) {
	if err := s.fresh(ctx, s.path(line)); err != nil {
		return false, err
	}
	return call(ctx, s, func() (bool, error) {
		exists, stat, err := s.conn.Exists(s.path(line))
		return err == nil && exists && stat.NumChildren > 0, err
	})
}

// settle makes sure that a contender who wants to be alone is. The one who came first meanwhile
// does not notice; one who came later may have begun to wait for this node, and
// looks again.
func (s *session) settle(ctx context.Context, line driver.Line, c driver.Contender, j driver.Joined) (driver.Joined, error) {
	if !c.Alone || j.First {
		return j, nil
	}
	if err := s.Leave(ctx, line, j.Place); err != nil && !errors.Is(err, driver.ErrGone) {
		return driver.Joined{}, err
	}
	return driver.Joined{}, driver.ErrTaken
}

// add sends the request that joins.
func (s *session) add(ctx context.Context, line driver.Line, c driver.Contender, f *flight) (driver.Joined, error) {
	parent := s.path(line)
	var ops []any
	if c.Record != 0 {
		// First, so that no line is made for a join that the record refuses.
		ops = append(ops, &zk.CheckVersionRequest{Path: s.record(line), Version: dataVersion(c.Record)})
	}
	ops = append(ops,
		&zk.CreateRequest{
			Path: parent + "/" + nodePrefix(c, s.hex), Data: c.Value, Acl: s.acl, Flags: zk.FlagEphemeralSequential,
		},
		&zk.SetDataRequest{Path: parent, Version: -1})
	return fly(ctx, s, line, c.ID, f, ops, func(results []zk.MultiResponse, err error) (driver.Joined, error) {
		switch {
		case err == nil:
			return joined(results[len(ops)-2:])
		case c.Record != 0 && failed(results) == 0 && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion)):
			return driver.Joined{}, driver.Wrap(driver.ErrStale, err)
		}
		return driver.Joined{}, err
	})
}

// fly sends a transaction that makes a node of a contender, as a part of a flight: Forget waits until it has landed, whether or
// not its caller still does. A given Conn may have another session by then, to which the node would belong.
func fly[T any](
	ctx context.Context, s *session, line driver.Line, id string, f *flight, ops []any,
	read func([]zk.MultiResponse, error) (T, error),
) (T, error) {
	s.joins.extend(f)
	out, err := start(ctx, s, s.slots, func() (T, error) {
		defer s.joins.end(id, f)
		results, err := s.conn.Multi(ops...)
		if s.lent != nil && s.conn.SessionID() != s.id {
			s.undo(s.path(line), id)
		}
		return read(results, err)
	})
	if err != nil {
		s.joins.end(id, f)
		var zero T
		return zero, err
	}
	return await(ctx, s, out)
}

// failed tells which operation of a transaction has failed, -1 if the reply does not say. Those before it
// have no error, since they would have succeeded; those after it have one that says that they were not tried.
func failed(results []zk.MultiResponse) int {
	return slices.IndexFunc(results, func(r zk.MultiResponse) bool { return r.Error != nil })
}

// joined reads the reply.
func joined(results []zk.MultiResponse) (driver.Joined, error) {
	if len(results) != 2 || results[1].Stat == nil {
		return driver.Joined{}, errors.New("zookeeper: unexpected reply to a join")
	}
	n, ok := parseNode(path.Base(results[0].String))
	if !ok {
		return driver.Joined{}, errors.New("zookeeper: the service made a node without a sequence number")
	}
	stat := results[1].Stat
	return driver.Joined{Place: n.Place, Token: driver.Token(stat.Mzxid), First: stat.NumChildren == 1}, nil
}

// parentKind is what kind of node lines are. It is learnt once for all sessions of a driver.
type parentKind struct{ plain atomic.Bool }

// ensure makes the nodes above a line's contenders, from the bottom: usually only the last is
// missing, and there may be no permission to look at those above.
//
// They are containers, which the service removes when they have become empty. Servers
// before 3.5 do not know those and get plain nodes, which stay.
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
	return driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: the nodes above the line vanished again and again"))
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
