package zookeeper

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// service is the driver.
type service struct{ *nodes.Service }

// session is one session, with queues in Baton's own layout.
type session struct {
	*nodes.Session
	contention contention
	neighbors  neighbors
}

// Open starts a session.
func (d *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	conn, err := d.Connect(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return newSession(conn, &d.Tree), nil
}

func newSession(conn *zkconn.Conn, tree *nodes.Tree) *session {
	s := &session{
		Session:    nodes.NewSession(conn, tree),
		contention: contention{m: make(map[driver.Queue]int)},
	}
	s.Layout = s
	return s
}

// Capabilities lack ReuseIDs: ZooKeeper keeps nothing of a deleted name.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Handoff: s, Converter: s, Writer: s, HeadWatcher: s, QueueWatcher: s, Operator: s,
		OwnWatched: true,
	}
}

// Path implements nodes.Layout.
func (s *session) Path(queue driver.Queue) string { return s.Tree.Root + "/" + string(queue) }

// ChildPath is that of nodes.Session, with one allocation.
func (s *session) ChildPath(queue driver.Queue, name string) string {
	return s.Tree.Root + "/" + string(queue) + "/" + name
}

// RecordPath is beside the queue, not in it: a join counts the queue's
// children, and the service removes a queue without children. The path is no
// queue's, since queue names contain no "+".
func (s *session) RecordPath(queue driver.Queue) string { return s.Path(queue) + "+record" }

// Places implements nodes.Layout.
func (s *session) Places(
	ctx context.Context, queue driver.Queue, names []string,
) ([]driver.Place, error) {
	c, err := s.view(ctx, queue, names)
	if err != nil {
		return nil, err
	}
	return c.places(), c.ambiguous(s.Path(queue))
}

// Entry implements nodes.Layout.
func (s *session) Entry(_ driver.Queue, key string, czxid int64) (driver.Place, driver.Token) {
	n, ok := parseNode(key)
	if !ok {
		return driver.Place{}, 0
	}
	return n.Place, n.tokenOr(czxid)
}
