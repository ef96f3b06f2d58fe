package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

var _ driver.Examiner = (*service)(nil)

// Queues lists the kinds, then the names of each kind, then the children of
// each name. It syncs first: this session's server may be behind and not know
// of another session's join.
//
// It skips records and nodes of other programs. A node that it cannot read is
// an error: an operator must not see fewer locks than are held.
func (s *session) Queues(ctx context.Context) ([]driver.Queue, error) {
	if err := s.Sync(ctx, "/"); err != nil {
		return nil, err
	}
	kinds, err := s.childPaths(ctx, "")
	if err != nil {
		return nil, err
	}
	names, err := s.childPaths(ctx, kinds...)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return s.CheckQueue(driver.Queue(name[1:])) != nil
	})
	entries, err := s.childPaths(ctx, names...)
	if err != nil {
		return nil, err
	}
	var queues []driver.Queue
	for _, entry := range entries {
		if _, ok := parseNode(path.Base(entry)); ok || isStray(entry) {
			queues = append(queues, driver.Queue(path.Dir(entry)[1:]))
		}
	}
	return slices.Compact(queues), nil
}

// childPaths returns the children of nodes, all as paths below the root. It
// sends all listings at once. A missing node has no children.
func (s *session) childPaths(ctx context.Context, parents ...string) (children []string, err error) {
	listings := make([]*zkconn.Reply[[]string], len(parents))
	for i, parent := range parents {
		node := cmp.Or(s.Tree.Root+parent, "/")
		if listings[i], err = zkconn.StartNames(ctx, s.Conn, node); err != nil {
			return nil, err
		}
	}
	for i, listing := range listings {
		names, err := listing.Wait(ctx)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			node := cmp.Or(s.Tree.Root+parents[i], "/")
			return nil, fmt.Errorf("zookeeper: the children of %s: %w", node, err)
		}
		for _, name := range names {
			children = append(children, parents[i]+"/"+name)
		}
	}
	return children, nil
}

// Remove deletes a node after Check. No other entry can get its name between
// the two. The same transaction deletes the successor node, for which the
// follower waits.
func (s *session) Remove(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	if err := s.Check(ctx, queue, key, token); err != nil {
		return err
	}
	n, _ := parseNode(key)
	return s.remove(ctx, removal{
		queue: queue, node: n, path: s.ChildPath(queue, key), successor: n.successor(),
	})
}

// manyNames is when Examine warns. Of as many empty queues ZooKeeper removes
// 10,000 a minute by default, all of them within five minutes.
const manyNames = 50_000

// Examine also counts the names of each kind. A name that is no longer used
// stays until ZooKeeper removes its empty container.
func (d *service) Examine(ctx context.Context) []driver.Finding {
	found, shortest := d.Conf.Examine(ctx)
	if shortest == 0 {
		return found
	}
	conn, err := d.Connect(ctx, max(shortest, 2*d.Tree.Tick))
	if err != nil {
		return found // the client's own session will say why
	}
	defer func() { _ = conn.Close(ctx) }()
	kinds := ownKinds
	if d.Tree.Root != "" {
		if kinds, err = conn.Names(ctx, d.Tree.Root); err != nil {
			return found // likewise
		}
	}
	for _, kind := range kinds {
		stat, err := conn.Stat(ctx, d.Tree.Root+"/"+kind)
		if err != nil || stat.NumChildren < manyNames {
			continue
		}
		found = append(found, driver.Found(driver.Warning, "names", "%s/%s has %d, empty ones included",
			d.Tree.Root, kind, stat.NumChildren).
			So("if most are not in use, new names come faster than ZooKeeper removes empty ones: "+
				"raise znode.container.maxPerMinute (10000), or use fewer names"))
	}
	return found
}

// ownKinds are the kinds below which other programs are not expected.
var ownKinds = []string{"mutex", "rwlock", "semaphore", "election"}

// isStray takes what is below other kinds for another program's.
func isStray(entry string) bool {
	_, successor := parseSuccessor(path.Base(entry))
	return !successor && slices.Contains(ownKinds, path.Dir(path.Dir(entry))[1:])
}
