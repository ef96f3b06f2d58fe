// Package nodes has what the native driver and the foreign layouts have in
// common: queues, entries and records as nodes of ZooKeeper.
//
// [Session] has those methods of the contract that are the same in every
// layout, and the requests that the others are made of. A [Layout] says where
// the nodes of a queue are and in which order.
//
//	nodes.go   what a driver and a session have; nodes above the queues
//	flight.go  transactions that a later call may have to wait for
//	read.go    Watch, WatchQueue, List, Check, Head
//	write.go   Record, SetRecord, and writing an entry's value
//	check.go   what may be put into a path
package nodes

import (
	"context"
	"errors"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// Reserved is the part of the tree that belongs to the service itself.
const Reserved = "zookeeper"

// Tree is the part of ZooKeeper's tree that a driver uses. Its sessions share
// it.
type Tree struct {
	Root string // the chroot as a path: "" or "/a/b"
	ACL  []zk.ACL
	// Plain makes queues plain nodes, and not containers, which the service
	// removes when they have become empty. Servers before 3.5 do not know
	// containers.
	Plain atomic.Bool
}

// Service is what the drivers have in common.
type Service struct {
	Conf zkconn.Config
	Tree Tree
	Name string // for people: scheme, servers and chroot
}

var _ driver.Examiner = (*Service)(nil)

// Examine asks the servers.
func (d *Service) Examine(ctx context.Context) []driver.Finding { return d.Conf.Examine(ctx) }

func (d *Service) String() string { return d.Name }

// Close has nothing to give back: each session closes its own connection.
func (d *Service) Close(context.Context) error { return nil }

// Layout says where the nodes of a queue are, and what they mean.
type Layout interface {
	// Path is where a queue is, and RecordPath where its record is; empty if it
	// has none.
	Path(driver.Queue) string
	RecordPath(driver.Queue) string

	// Places are the places of the children of a queue, in order. They may be
	// newer than the names. It is ErrRefused if there is no order.
	Places(ctx context.Context, queue driver.Queue, names []string) ([]driver.Place, error)

	// Entry is the place of an entry with this key, and its token if its node
	// has this czxid.
	Entry(queue driver.Queue, key string, czxid int64) (driver.Place, driver.Token)
}

// Session is one session.
type Session struct {
	*zkconn.Conn
	Tree   *Tree
	Hex    string // the session's ID
	Layout Layout

	mu      sync.Mutex
	own     map[string]OwnEntry // by path
	flights map[string]*Flight  // by contender, that may still be applied
}

// Own is what a session knows of an entry of its own besides its place, for as
// long as that is in its queue. The native layout alone has successor nodes.
type OwnEntry struct {
	Successor string        // the name of its successor node, empty if there is none
	Follows   string        // the key of an entry ahead that has a successor node
	Watch     *zkconn.Watch // on that successor node, if Join has set it

	version int32 // of the node's data
}

// NewSession returns a session of a tree. Its Layout is still to be set.
func NewSession(conn *zkconn.Conn, tree *Tree) *Session {
	return &Session{
		Conn: conn, Tree: tree, Hex: conn.ID(),
		own: make(map[string]OwnEntry), flights: make(map[string]*Flight),
	}
}

// Own returns what is known of the entry at a path.
func (s *Session) OwnEntry(node string) (own OwnEntry, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, known = s.own[node]
	return own, known
}

// Keep changes what is known of the entry at a path.
func (s *Session) SetOwnEntry(node string, change func(*OwnEntry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.own[node]
	change(&o)
	s.own[node] = o
}

// Gone forgets an entry that is gone.
func (s *Session) DeleteOwnEntry(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.own, node)
}

// ChildPath is where a child of a queue is.
func (s *Session) ChildPath(queue driver.Queue, name string) string {
	return s.Layout.Path(queue) + "/" + name
}

// Ensure makes a node and those above it, from the bottom: usually only the
// last is missing, and there may be no permission to read those above.
func (s *Session) Ensure(ctx context.Context, node string) error {
	for {
		_, err := zkconn.Do(ctx, s.Conn, func(client *zk.Conn) (string, error) {
			if s.Tree.Plain.Load() {
				return client.Create(node, nil, zk.FlagPersistent, s.Tree.ACL)
			}
			return client.CreateContainer(node, nil, zk.FlagContainer, s.Tree.ACL)
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case zkconn.Unimplemented(err) && !s.Tree.Plain.Swap(true):
		case errors.Is(err, zk.ErrNoNode) && path.Dir(node) != "/":
			if err := s.Ensure(ctx, path.Dir(node)); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// WithParent sends a request that needs a node. If that is not there, Below makes it
// and sends the request again: more than once if need be, since the service
// removes containers that are empty.
func WithParent[T any](ctx context.Context, s *Session, node string, send func() (T, error)) (T, error) {
	for {
		value, err := send()
		if !errors.Is(err, zk.ErrNoNode) || errors.Is(err, driver.ErrStale) {
			return value, err
		}
		if err := s.Ensure(ctx, node); err != nil {
			return value, err
		}
	}
}

// Creating is the request to make a node with a copy of the value.
func (s *Session) CreateRequest(node string, value []byte, flags int32) *zk.CreateRequest {
	value = append([]byte(nil), value...)
	return &zk.CreateRequest{Path: node, Data: value, Acl: s.Tree.ACL, Flags: flags}
}

// Deleting is the request to delete a node.
func DeleteRequest(node string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: node, Version: -1} }

// Slack is a quarter of the TTL.
//
// A follower reports the touches of its clients to the leader, which ends
// sessions, every half tick. If it dies in between, the leader knows only of
// the touch before, which is at most a quarter of the TTL older, since the
// coordinator renews that often, and which had been reported, since a TTL is at
// least two ticks. A leader that has lost its quorum may acknowledge for a
// tick; the new one gives every session its whole TTL again.
//
// Not covered are a follower that dies when a renewal has been lost or late,
// and a TTL of just two ticks: see the model of the loss clock in docs/model.
func (s *Session) Slack() time.Duration { return s.TTL() / 4 }
