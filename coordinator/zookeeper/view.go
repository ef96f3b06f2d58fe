package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Ahead lists the line, in one request.
//
// What one session reads never goes back behind what it wrote, so the view has everybody who
// stood in the line when own joined and has not left since, without asking the leader.
func (s *session) Ahead(ctx context.Context, line driver.Line, own driver.Place) ([]driver.Place, error) {
	if err := cmp.Or(s.checkLine(line), checkKey(line, own)); err != nil {
		return nil, err
	}
	nodes, strays, err := s.children(ctx, line)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(nodes, func(n node) bool { return n.Key == own.Key })
	if i < 0 {
		return nil, driver.ErrGone
	}
	if err := ambiguous(line, strays); err != nil {
		return nil, err
	}
	places := make([]driver.Place, i)
	for j, n := range nodes[:i] {
		places[j] = n.Place
	}
	return places, nil
}

// children reads a line, in order. A line that is not there is empty.
func (s *session) children(ctx context.Context, line driver.Line) (nodes []node, strays []string, err error) {
	if err := s.fresh(ctx, s.path(line)); err != nil {
		return nil, nil, err
	}
	names, err := call(ctx, s, func() ([]string, error) {
		names, _, err := s.conn.Children(s.path(line))
		return names, err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, nil, err
	}
	nodes, strays = parseChildren(names)
	return nodes, strays, nil
}

// mine lists this session's nodes of one contender, and tells whether the first of them has nobody
// ahead. It waits until the given joins have landed, and it misses none of their nodes: see Forget
// for the reasons. Strays are nothing to it; clean-up must work in spite of them.
func (s *session) mine(ctx context.Context, line driver.Line, id string, joins []*flight) (mine []node, first bool, err error) {
	for _, f := range joins {
		select {
		case <-f.landed:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-s.over:
			return nil, false, s.reason()
		}
	}
	if err := s.sync(ctx, s.path(line)); err != nil {
		return nil, false, err
	}
	nodes, strays, err := s.children(ctx, line)
	if err != nil {
		return nil, false, err
	}
	for i, n := range nodes {
		if n.ID == id && n.Session == s.hex {
			mine = append(mine, n)
			first = first || i == 0 && len(strays) == 0
		}
	}
	return mine, first, nil
}

// find looks for the node that one of the earlier joins of this contender may have made.
func (s *session) find(ctx context.Context, line driver.Line, id string, earlier []*flight) (j driver.Joined, found bool, err error) {
	mine, first, err := s.mine(ctx, line, id, earlier)
	if err != nil || len(mine) == 0 {
		return driver.Joined{}, false, err
	}
	n := mine[0]
	czxid, err := call(ctx, s, func() (int64, error) {
		exists, stat, err := s.conn.Exists(s.path(line) + "/" + n.Key)
		if err == nil && !exists {
			err = zk.ErrNoNode
		}
		if err != nil {
			return 0, err
		}
		return stat.Czxid, nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return driver.Joined{}, false, nil // somebody has removed it: join anew
	}
	return driver.Joined{Place: n.Place, Token: driver.Token(czxid), First: first}, err == nil, err
}

// List reads the names in one request and each entry in one more, all under way at once.
func (s *session) List(ctx context.Context, line driver.Line, limit int) ([]driver.Entry, error) {
	if err := s.checkLine(line); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, invalid("limit %d: want 0 or more", limit)
	}
	nodes, strays, err := s.children(ctx, line)
	if err == nil {
		err = ambiguous(line, strays)
	}
	if err != nil {
		return nil, err
	}
	entries := []driver.Entry{}
	for len(nodes) > 0 && (limit == 0 || len(entries) < limit) {
		// Those that went while it read are made up for by the next in line, so that a
		// leader who steps down does not make the line look empty.
		n := len(nodes)
		if limit > 0 {
			n = min(n, limit-len(entries))
		}
		read, err := s.read(ctx, line, nodes[:n])
		if err != nil {
			return nil, err
		}
		entries, nodes = append(entries, read...), nodes[n:]
	}
	// The same order, by the service's own word.
	slices.SortFunc(entries, func(a, b driver.Entry) int { return cmp.Compare(a.Token, b.Token) })
	return entries, nil
}

// read reads nodes and leaves out those that are gone.
func (s *session) read(ctx context.Context, line driver.Line, nodes []node) ([]driver.Entry, error) {
	replies := make([]<-chan reply[driver.Entry], len(nodes))
	for i, n := range nodes {
		var err error
		replies[i], err = start(ctx, s, s.slots, func() (driver.Entry, error) {
			value, stat, err := s.conn.Get(s.path(line) + "/" + n.Key)
			if err != nil {
				return driver.Entry{}, err
			}
			return driver.Entry{Place: n.Place, Token: driver.Token(stat.Czxid), Value: value}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	var entries []driver.Entry
	for _, r := range replies {
		e, err := await(ctx, s, r)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}
