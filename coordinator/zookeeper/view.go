package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Ahead lists the queue, in one request.
//
// What one session reads never goes back behind what it wrote, so the view has
// everybody who stood in the queue when own joined and has not left since,
// without asking the leader. For one who stands nowhere, with the zero Place,
// everybody is ahead.
func (s *session) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	whole := own == driver.Place{}
	if err := s.checkQueue(queue); err != nil {
		return driver.View{}, err
	}
	if err := checkKey(queue, own); err != nil && !whole {
		return driver.View{}, err
	}
	c, err := s.children(ctx, queue)
	if err != nil {
		return driver.View{}, err
	}
	nodes := c.nodes
	i := len(nodes)
	if !whole {
		i = slices.IndexFunc(nodes, func(n node) bool { return n.Key == own.Key })
	}
	if i < 0 {
		return driver.View{}, driver.ErrGone
	}
	if err := s.ambiguous(queue, c); err != nil {
		return driver.View{}, err
	}
	if !whole && nodes[i].Session == s.hex {
		s.ownEntries.note(queue, c, i)
	}
	return c.ahead(i), nil
}

// ahead is the view of the i-th in the queue; that of one who stands nowhere is
// behind the last.
func (c queueView) ahead(i int) driver.View {
	v := driver.View{Ahead: make([]driver.Place, i), Last: i >= len(c.nodes)-1}
	for j, n := range c.nodes[:i] {
		v.Ahead[j] = n.Place
	}
	return v
}

// children reads a queue, in order. A queue that is not there is empty.
//
// Where sequence numbers have run out the tokens are the order, and they take
// one read of each node. A node that went meanwhile may stand under another
// name, so the queue is listed again until each one is known.
func (s *session) children(ctx context.Context, queue driver.Queue) (queueView, error) {
	path := s.path(queue)
	known := make(map[string]driver.Token)
	for {
		names, err := freshly(ctx, s, path, func() ([]string, error) { return s.names(ctx, path) })
		if err != nil {
			return queueView{}, err
		}
		c := s.parse(queue, names)
		if s.layout != nil {
			return c, nil // what is late there is an error: see ambiguousFor
		}
		if !slices.ContainsFunc(c.nodes, node.late) {
			return c, nil
		}
		all, err := gather(ctx, s, c.nodes, known, func(n node) (driver.Token, error) {
			there, stat, err := s.conn.Exists(path + "/" + n.Key) // whoever may list may ask for it
			if err == nil && !there {
				err = zk.ErrNoNode
			}
			if err != nil {
				return 0, err
			}
			return n.tokenOr(stat.Czxid), nil
		})
		if err != nil {
			return queueView{}, err
		}
		if all {
			slices.SortFunc(c.nodes, func(a, b node) int { return cmp.Compare(known[a.Key], known[b.Key]) })
			return c, nil
		}
	}
}

// names reads the names of the children of a queue as this connection's server
// knows them. A watch on the queue that has not fired shows them without a
// request.
func (s *session) names(ctx context.Context, path string) ([]string, error) {
	if w, err := s.standing(ctx, watchKey{onQueue, path}); w != nil || err != nil {
		return w.names(), err
	}
	names, err := call(ctx, s, func() ([]string, error) {
		names, _, err := s.conn.Children(path)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// mine lists a queue, and those of its nodes that are this session's of one
// contender. It waits until the given joins have landed, and it misses none of
// their nodes: see Forget for the reasons. Strays are nothing to it; clean-up
// must work in spite of them.
func (s *session) mine(ctx context.Context, queue driver.Queue, id string, joins []*flight) (mine []node, all queueView, err error) {
	for _, f := range joins {
		select {
		case <-f.landed:
		case <-ctx.Done():
			return nil, queueView{}, context.Cause(ctx)
		case <-s.over:
			return nil, queueView{}, s.reason()
		}
	}
	if err := s.sync(ctx, s.path(queue)); err != nil {
		return nil, queueView{}, err
	}
	all, err = s.children(ctx, queue)
	for _, n := range all.nodes {
		if n.ID == id && n.Session == s.hex {
			mine = append(mine, n)
		}
	}
	return mine, all, err
}

// find looks for the node that one of the earlier joins of this contender may
// have made.
func (s *session) find(ctx context.Context, queue driver.Queue, id string, earlier []*flight) (j driver.Joined, found bool, err error) {
	for {
		mine, all, err := s.mine(ctx, queue, id, earlier)
		if err != nil || len(mine) == 0 {
			return driver.Joined{}, false, err
		}
		n := mine[0]
		if all.hasSuccessor(n) {
			s.ownEntries.keep(queue, id, ownEntry{key: n.Key, successor: n.successor()})
		}
		j := driver.Joined{Place: n.Place, Token: n.token, First: all.nodes[0].Key == n.Key && len(all.strays) == 0}
		if n.turn > 0 {
			return j, true, nil
		}
		stat, err := s.stat(ctx, s.below(queue, n.Key))
		switch {
		case err == nil:
			j.Token = driver.Token(stat.Czxid)
			return j, true, nil
		case !errors.Is(err, zk.ErrNoNode):
			return driver.Joined{}, false, err
		}
		earlier = nil // somebody has removed it meanwhile, or it has another name: look again
	}
}

// List reads the names in one request and each entry in one more, all under way
// at once.
//
// An entry that is not there any more may have left, or stand in its place
// under another name: to read on with the next would then leave out somebody
// who never left. So the names are listed again, and what was read already is
// not read again, until there is an entry for each. The result is the queue as
// it was at the last listing.
func (s *session) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	if err := s.checkQueue(queue); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, invalid("limit %d: want 0 or more", limit)
	}
	known := make(map[string]driver.Entry)
	for {
		c, err := s.children(ctx, queue)
		if err == nil {
			err = s.ambiguous(queue, c)
		}
		if err != nil {
			return nil, err
		}
		nodes := c.nodes
		if limit > 0 {
			nodes = nodes[:min(limit, len(nodes))]
		}
		all, err := gather(ctx, s, nodes, known, func(n node) (driver.Entry, error) {
			value, stat, err := s.conn.Get(s.below(queue, n.Key))
			if err != nil {
				return driver.Entry{}, err
			}
			return entryOf(n, value, stat.Czxid), nil
		})
		if err != nil {
			return nil, err
		}
		if !all {
			continue
		}
		entries := make([]driver.Entry, len(nodes))
		for i, n := range nodes {
			entries[i] = known[n.Key]
		}
		return entries, nil
	}
}

// gather reads something of each node of which it is not known yet, all under
// way at once, and tells whether they were all there.
func gather[T any](ctx context.Context, s *session, nodes []node, known map[string]T, read func(node) (T, error)) (all bool, err error) {
	replies := make(map[string]*reply[T])
	for _, n := range nodes {
		if _, ok := known[n.Key]; ok {
			continue
		}
		r, err := start(ctx, s, s.slots, func() (T, error) { return read(n) })
		if err != nil {
			return false, err
		}
		replies[n.Key] = r
	}
	all = true
	for key, r := range replies {
		v, err := await(ctx, s, r)
		switch {
		case err == nil:
			known[key] = v
		case errors.Is(err, zk.ErrNoNode):
			all = false
		default:
			return false, err
		}
	}
	return all, nil
}

func entryOf(n node, value []byte, czxid int64) driver.Entry {
	return driver.Entry{Place: n.Place, Token: n.tokenOr(czxid), Value: value}
}
