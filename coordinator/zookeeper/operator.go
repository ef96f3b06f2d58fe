package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// Queues lists the kinds, then the names of each, then the children of each of
// those, all of a kind under way at once. It begins with a sync: another
// session may have joined a queue for good, and this one's server may not have
// heard of that.
//
// What is not readable is an error, and not left out: an operator who asks which
// locks are held must not be shown less.
func (s *session) Queues(ctx context.Context) ([]driver.Queue, error) {
	top := cmp.Or(s.Tree.Root, "/")
	if err := s.Sync(ctx, top); err != nil {
		return nil, err
	}
	kinds, err := s.list(ctx, top)
	if err != nil {
		return nil, err
	}
	var queues []driver.Queue
	for _, kind := range kinds {
		if s.Tree.Root == "" && kind == nodes.Reserved {
			continue
		}
		names, err := s.list(ctx, s.Tree.Root+"/"+kind)
		if err != nil {
			return nil, err
		}
		standing, err := s.standingIn(ctx, kind, names)
		if err != nil {
			return nil, err
		}
		queues = append(queues, standing...)
	}
	return queues, nil
}

// standingIn returns those of the names of a kind whose queues are not empty.
// Records are no queues, and neither is what other programs have beside them.
func (s *session) standingIn(
	ctx context.Context, kind string, names []string,
) ([]driver.Queue, error) {
	var queues, standing []driver.Queue
	listings := make([]*zkconn.Reply[[]string], 0, len(names))
	for _, name := range names {
		queue := driver.Queue(kind + "/" + name)
		if s.CheckQueue(queue) != nil {
			continue
		}
		listing, err := zkconn.StartNames(ctx, s.Conn, s.Path(queue))
		if err != nil {
			return nil, err
		}
		queues, listings = append(queues, queue), append(listings, listing)
	}
	for i, listing := range listings {
		children, err := listing.Wait(ctx)
		if err = unlisted(s.Path(queues[i]), err); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(children, func(name string) bool {
			_, ok := parseNode(name)
			return ok
		}) {
			standing = append(standing, queues[i])
		}
	}
	return standing, nil
}

// list reads the names of the children of a node; there are none if it is not
// there.
func (s *session) list(ctx context.Context, node string) ([]string, error) {
	names, err := s.Names(ctx, node)
	return names, unlisted(node, err)
}

// unlisted is the error of a listing, nil if the node is not there. A refusal
// names the node, which the caller does not know.
func unlisted(node string, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, driver.ErrRefused):
		return driver.Wrap(driver.ErrRefused, fmt.Errorf("zookeeper: the children of %s: %w",
			node, err))
	}
	return err
}

// Remove deletes one node, after Check: its name is never another entry's, so
// between the two it can only go. Its successor node goes with it, in the same
// transaction, since its follower waits with the successor node.
func (s *session) Remove(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	if err := s.Check(ctx, queue, key, token); err != nil {
		return err
	}
	n, _ := parseNode(key)
	return s.remove(ctx, s.Path(queue)+"/", n, nodes.Own{Successor: n.successor()}, false)
}
