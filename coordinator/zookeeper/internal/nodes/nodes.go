// Package nodes has the part shared by the native driver and the foreign
// layouts: queues, entries and records as nodes of ZooKeeper.
//
// [Session] has the methods of the contract that are the same in every layout,
// and the requests that the layouts' own methods use. A [Layout] says where the
// nodes of a queue are and in which order.
//
//	nodes.go   drivers, sessions, and the nodes above the queues
//	parents.go guesses which of those are missing
//	flight.go  transactions that a later call may have to wait for
//	read.go    Watch, WatchQueue, List, Check, Head
//	write.go   Record, SetRecord, and writing an entry's value
//	check.go   checks of names and values
package nodes

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// Reserved is ZooKeeper's own part of the tree.
const Reserved = "zookeeper"

// Tree is the part of ZooKeeper's tree that a driver uses, for all its
// sessions.
type Tree struct {
	Root string // the chroot as a path: "" or "/a/b"
	ACL  []zk.ACL
	// Plain makes queues plain nodes instead of containers, which the service
	// removes when they are empty. Servers before 3.5 do not know containers.
	Plain atomic.Bool
	Tick  time.Duration // the servers' tickTime, or 0 if it is not known

	parents parents
}

// Service is the part that the drivers share.
type Service struct {
	Conf zkconn.Config
	Tree Tree
	Name string // for String: scheme, servers and chroot
}

var _ driver.Examiner = (*Service)(nil)

// Examine checks the servers.
func (d *Service) Examine(ctx context.Context) []driver.Finding {
	found, _ := d.Conf.Examine(ctx)
	return found
}

func (d *Service) String() string { return d.Name }

// Connect opens a session.
func (d *Service) Connect(ctx context.Context, ttl time.Duration) (*zkconn.Conn, error) {
	if ttl < 2*d.Tree.Tick {
		return nil, zkconn.Invalid("TTL %v is less than two ticks of %v", ttl, d.Tree.Tick)
	}
	return d.Conf.Open(ctx, ttl)
}

// Close ends what the driver does in the background. Each session closes its
// own connection.
func (d *Service) Close(ctx context.Context) error { return d.Conf.Close(ctx) }

// Layout says where the nodes of a queue are, and what they mean.
type Layout interface {
	// Path is where a queue is, and RecordPath where its record is, "" if it
	// has none.
	Path(driver.Queue) string
	RecordPath(driver.Queue) string

	// Places returns the places of the children of a queue, in order. They may
	// be newer than the names. It is ErrRefused if there is no order.
	Places(ctx context.Context, queue driver.Queue, names []string) ([]driver.Place, error)

	// Entry returns the place of the entry with this key, and its token if its
	// node has this czxid. The token is 0 if the key is not an entry's.
	Entry(queue driver.Queue, key string, czxid int64) (driver.Place, driver.Token)
}

// Session is one session, in any layout.
type Session struct {
	*zkconn.Conn
	Tree   *Tree
	Hex    string // the session's ID
	Layout Layout

	mu      sync.Mutex
	own     map[string]OwnEntry // by path
	flights map[string]*Flight  // by contender; they may still be applied
	unused  int                 // calls of deleteUnused under way
	deleted chan struct{}       // if set, closed when there are none
}

// OwnEntry is what a session knows of its own entry besides the place, while
// the entry is queued. Only the native layout has successor nodes.
type OwnEntry struct {
	Successor string        // the name of its successor node, or ""
	Follows   string        // the key of the entry ahead, if that has a successor node
	Watch     *zkconn.Watch // on that successor node, if Join has set it

	version int32 // of the node's data
}

// NewSession returns a session of a tree. The caller sets its Layout.
func NewSession(conn *zkconn.Conn, tree *Tree) *Session {
	return &Session{
		Conn: conn, Tree: tree, Hex: conn.ID(),
		own: make(map[string]OwnEntry), flights: make(map[string]*Flight),
	}
}

// ID returns the session's ID in hex.
func (s *Session) ID() string { return s.Hex }

// OwnEntry returns what is known of the entry at a path.
func (s *Session) OwnEntry(node string) (own OwnEntry, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, known = s.own[node]
	return own, known
}

// SetOwnEntry changes what is known of the entry at a path.
func (s *Session) SetOwnEntry(node string, change func(*OwnEntry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.own[node]
	change(&o)
	s.own[node] = o
}

// DeleteOwnEntry forgets the entry at a path.
func (s *Session) DeleteOwnEntry(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.own, node)
}

// DeleteOwnEntries forgets the entries at some paths.
func (s *Session) DeleteOwnEntries(at func(node string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.own, func(node string, _ OwnEntry) bool { return at(node) })
}

// ChildPath is the path of a child of a queue.
func (s *Session) ChildPath(queue driver.Queue, name string) string {
	return s.Layout.Path(queue) + "/" + name
}

// WithParent sends a request that needs a parent node. If that is missing, it
// creates the node and sends the request again, repeatedly, since the service
// removes empty containers. It creates it first if it is probably missing. If
// it fails in the end, the containers that it has created are deleted again.
func WithParent[T any](ctx context.Context, s *Session, node string, send func() (T, error)) (T, error) {
	var made creations
	known, missing := s.Tree.parents.guess(node)
	if missing {
		// An error ends nothing: the request may succeed all the same, for
		// example if this user may not create the queue. If not, it shows why.
		err := s.ensure(ctx, node, &made)
		missing = err == nil && len(made) > 0
	}
	for {
		value, err := send()
		if !errors.Is(err, zk.ErrNoNode) || errors.Is(err, driver.ErrStale) {
			if err != nil {
				s.deleteUnused(made)
			} else if !known {
				s.Tree.parents.learn(node, missing)
			}
			return value, err
		}
		missing = true
		if err := s.ensure(ctx, node, &made); err != nil {
			s.deleteUnused(made)
			return value, err
		}
	}
}

// creations are the containers that a call has, or may have, created, ancestors
// first.
type creations []creation

type creation struct {
	node  string
	reply *zkconn.Reply[string]
}

// ensure creates a node and its ancestors, from the bottom: usually only the
// last is missing, and there may be no permission to read the ancestors.
func (s *Session) ensure(ctx context.Context, node string, made *creations) error {
	for {
		plain := s.Tree.Plain.Load()
		r, err := zkconn.Start(ctx, s.Conn, func(client *zk.Conn) (string, error) {
			if plain {
				return client.Create(node, nil, zk.FlagPersistent, s.Tree.ACL)
			}
			return client.CreateContainer(node, nil, zk.FlagContainer, s.Tree.ACL)
		})
		if err != nil {
			return err
		}
		_, err = r.Wait(ctx)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case zkconn.Unimplemented(err) && !plain:
			s.Tree.Plain.Store(true) // another call may have done so
		case errors.Is(err, zk.ErrNoNode) && path.Dir(node) != "/":
			if err := s.ensure(ctx, path.Dir(node), made); err != nil {
				return err
			}
		default:
			if !plain {
				*made = append(*made, creation{node, r})
			}
			return err
		}
	}
}

// deleteUnused deletes containers that nobody has used, in the background. The
// service removes only those that had a child. Who joins a queue meanwhile
// creates it again.
//
// A plain node stays even if it was used. A container with children cannot be
// deleted; neither can one with data or another version, since a join writes to
// its queue.
func (s *Session) deleteUnused(made creations) {
	if len(made) == 0 {
		return
	}
	s.mu.Lock()
	s.unused++
	s.mu.Unlock()
	go func() {
		s.Run(func() {
			ctx := context.Background() // each wait ends with the session
			for _, m := range slices.Backward(made) {
				_, err := m.reply.Wait(ctx)
				for again := err == nil || errors.Is(err, zk.ErrConnectionClosed); again; {
					again = errors.Is(s.Delete(ctx, m.node, 0), zk.ErrConnectionClosed)
				}
			}
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.unused--; s.unused == 0 && s.deleted != nil {
			close(s.deleted)
			s.deleted = nil
		}
	}()
}

// closePatience is how long Close waits for the deletion of containers.
const closePatience = time.Second

// Close is Conn's, after the containers that nobody has used were deleted: no
// other session would do it. It waits for that only for a moment, and for half
// of its time at most, since the session's entries lock their names meanwhile:
// the server at hand may be silent, and another one end the session.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.unused > 0 && s.deleted == nil {
		s.deleted = make(chan struct{})
	}
	deleted := s.deleted
	s.mu.Unlock()
	if deleted != nil {
		patience := closePatience
		if by, ok := ctx.Deadline(); ok {
			patience = min(patience, time.Until(by)/2)
		}
		select {
		case <-deleted:
		case <-s.Done():
		case <-ctx.Done():
		case <-time.After(patience):
		}
	}
	return s.Conn.Close(ctx)
}

// CreateRequest creates a node with a copy of the value.
func (s *Session) CreateRequest(node string, value []byte, flags int32) *zk.CreateRequest {
	value = append([]byte(nil), value...)
	return &zk.CreateRequest{Path: node, Data: value, Acl: s.Tree.ACL, Flags: flags}
}

// DeleteRequest deletes a node of any version.
func DeleteRequest(node string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: node, Version: -1} }

// Slack is half a tick and the interval of the renewals.
//
// A follower reports its clients' touches to the leader, which ends sessions,
// every half tick. If it crashes in between, the leader knows only the touch
// before the last report. A leader that has lost its quorum may acknowledge for
// a tick, which the coordinator's margin and this cover from a TTL of two and a
// half ticks on; the new one restarts every session's TTL. A leader that was
// paused meanwhile could acknowledge much later, so zkconn has a majority
// confirm a renewal after a pause.
//
// If the tick is not given it counts as 0.4 of the TTL. Not covered is a
// follower that crashes after a renewal was lost or late: see the model of the
// loss clock in docs/model.
func (s *Session) Slack() time.Duration {
	tick := cmp.Or(s.Tree.Tick, s.TTL()*2/5)
	return tick/2 + s.TTL()/driver.RenewalsPerTTL
}
