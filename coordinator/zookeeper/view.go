package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
)

// Ahead lists the queue, in one request.
//
// A session's reads are never older than its own writes. So without asking the
// leader, the view has every entry that was in the queue when own joined and
// has not left since.
func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	if err := s.CheckView(queue, own); err != nil {
		return driver.View{}, err
	}
	c, err := s.readQueue(ctx, queue)
	if err != nil {
		return driver.View{}, err
	}
	view, err := nodes.ViewOf(c.places(), own, c.ambiguous(s.Path(queue)))
	if i := len(view.Ahead); err == nil && i < len(c.nodes) && c.nodes[i].Session == s.Hex {
		s.noteSuccessor(queue, c, i)
	}
	return view, err
}

// readQueue lists a queue, in order. A missing queue is empty.
func (s *session) readQueue(ctx context.Context, queue driver.Queue) (queueView, error) {
	names, err := s.Listing(ctx, queue)
	if err != nil {
		return queueView{}, err
	}
	return s.view(ctx, queue, names)
}

// view orders the children of a queue.
//
// When sequence numbers have run out, the tokens are the order, which takes one
// read of each node. A node that is gone by then may have been converted, so
// the queue is listed again until each token is known.
func (s *session) view(ctx context.Context, queue driver.Queue, names []string) (queueView, error) {
	known := make(map[string]driver.Token)
	for {
		c := parseChildren(names)
		if !slices.ContainsFunc(c.nodes, node.overflowed) {
			return c, nil
		}
		read := func(client *zk.Conn, p driver.Place) (driver.Token, error) {
			there, stat, err := client.Exists(s.ChildPath(queue, p.Key)) // allowed to all who may list
			if err == nil && !there {
				err = zk.ErrNoNode
			}
			if err != nil {
				return 0, err
			}
			_, token := s.Entry(queue, p.Key, stat.Czxid)
			return token, nil
		}
		all, err := nodes.Gather(ctx, s.Session, c.places(), known, read)
		if err != nil {
			return queueView{}, err
		}
		if all {
			slices.SortFunc(c.nodes, func(a, b node) int {
				return cmp.Compare(known[a.Key], known[b.Key])
			})
			return c, nil
		}
		if names, err = s.Listing(ctx, queue); err != nil {
			return queueView{}, err
		}
	}
}

// entriesOf lists a queue, and the nodes in it of one contender of this
// session, after everything sent before: see BeginFlight. It ignores strays:
// clean-up must work in spite of them. If the contender has no node, an
// operator may have deleted it alone, and a follower still waits for the
// successor node.
func (s *session) entriesOf(
	ctx context.Context, queue driver.Queue, id string,
) (mine []node, all queueView, err error) {
	if err := s.Sync(ctx, s.Path(queue)); err != nil {
		return nil, queueView{}, err
	}
	all, err = s.readQueue(ctx, queue)
	for _, n := range all.nodes {
		if n.ID == id && n.Session == s.Hex {
			mine = append(mine, n)
		}
	}
	if err == nil && len(mine) == 0 {
		err = s.removeOrphans(ctx, queue, all)
	}
	return mine, all, err
}

// findEarlier returns the node that an earlier join of this contender created.
func (s *session) findEarlier(
	ctx context.Context, queue driver.Queue, id string,
) (j driver.Joined, found bool, err error) {
	mine, all, err := s.entriesOf(ctx, queue, id)
	if err != nil || len(mine) == 0 {
		return driver.Joined{}, false, err
	}
	n := mine[0]
	stat, err := s.Stat(ctx, s.ChildPath(queue, n.Key))
	switch {
	case errors.Is(err, zk.ErrNoNode): // removed meanwhile
		return driver.Joined{}, false, nil
	case err != nil:
		return driver.Joined{}, false, err
	}
	if all.hasSuccessor(n) {
		s.SetOwnEntry(s.ChildPath(queue, n.Key), func(o *nodes.OwnEntry) { o.Successor = n.successor() })
	}
	first := all.nodes[0].Key == n.Key && len(all.strays) == 0
	return driver.Joined{Place: n.Place, Token: n.tokenOr(stat.Czxid), First: first}, true, nil
}
