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
	return s.remove(ctx, queue, n, n.successor(), false)
}

// isStray takes what is below other kinds for another program's.
func isStray(entry string) bool {
	_, successor := parseSuccessor(path.Base(entry))
	kinds := []string{"/mutex", "/rwlock", "/semaphore", "/election"}
	return !successor && slices.Contains(kinds, path.Dir(path.Dir(entry)))
}
