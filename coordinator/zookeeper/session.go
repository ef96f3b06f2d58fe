package zookeeper

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// service is the driver. Each session has a connection of its own.
type service struct{ *nodes.Service }

// session is one session, with queues in Baton's own layout.
type session struct {
	*nodes.Session
	contention contention
}

// Open starts a session.
func (d *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	conn, err := d.Conf.Open(ctx, ttl)
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

// Capabilities are all but the reuse of IDs: ZooKeeper keeps nothing of a name
// that is gone.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Handoff: s, Converter: s, Writer: s, HeadWatcher: s, QueueWatcher: s, Operator: s,
	}
}

// Path is where a queue is.
func (s *session) Path(queue driver.Queue) string { return s.Tree.Root + "/" + string(queue) }

// RecordPath is where a queue's record is: beside the queue, not in it. A queue
// has no children but entries and their successor nodes, whose number a join is
// told, and the service removes it when it has none. No queue is called like a
// record, since "+" is not among the characters of their names.
func (s *session) RecordPath(queue driver.Queue) string { return s.Path(queue) + "+record" }

// Places are the places of the children of a queue.
func (s *session) Places(
	ctx context.Context, queue driver.Queue, names []string,
) ([]driver.Place, error) {
	c, err := s.view(ctx, queue, names)
	if err != nil {
		return nil, err
	}
	return c.places(), c.ambiguous(s.Path(queue))
}

// Entry is the place and the token of an entry. The token is 0 if the key is
// not that of an entry.
func (s *session) Entry(_ driver.Queue, key string, czxid int64) (driver.Place, driver.Token) {
	n, ok := parseNode(key)
	if !ok {
		return driver.Place{}, 0
	}
	return n.Place, n.tokenOr(czxid)
}
