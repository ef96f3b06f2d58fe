package nodes

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
	"github.com/baton-go/baton/internal/hint"
)

// Listing returns the names of the children of a queue, none if it is missing.
func (s *Session) Listing(ctx context.Context, queue driver.Queue) ([]string, error) {
	path := s.Layout.Path(queue)
	return zkconn.Fresh(ctx, s.Conn, path, func() ([]string, error) { return s.Names(ctx, path) })
}

func (s *Session) places(ctx context.Context, queue driver.Queue) ([]driver.Place, error) {
	names, err := s.Listing(ctx, queue)
	if err != nil {
		return nil, err
	}
	return s.Layout.Places(ctx, queue, names)
}

// ViewOf is own's view of a queue with these places. ambiguous is the error for
// a queue without an order.
func ViewOf(places []driver.Place, own driver.Place, ambiguous error) (driver.View, error) {
	i := len(places)
	if own != (driver.Place{}) {
		i = slices.IndexFunc(places, func(p driver.Place) bool { return p.Key == own.Key })
	}
	switch {
	case i < 0:
		return driver.View{}, driver.ErrGone
	case ambiguous != nil:
		return driver.View{}, ambiguous
	}
	return driver.View{Ahead: places[:i], Last: i >= len(places)-1}, nil
}

// Watch waits for the first of the places to go: for one place with a watch on
// its node, for several with one on the queue.
//
// With one place, the usual case, the service sends nothing about other
// entries. The watch for several fires each time a contender joins or leaves,
// and costs a listing. One watch on each would cost a request and a watch at
// the service for each. Children that are no places end no wait.
func (s *Session) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	if err := s.CheckQueue(queue); err != nil {
		return err
	}
	if len(places) == 0 {
		return zkconn.Invalid("watch on no place in the queue %q", queue)
	}
	for _, p := range places {
		if err := CheckKey(queue, p); err != nil {
			return err
		}
	}
	target := zkconn.Target{Kind: zkconn.Children, Node: s.ChildPath(queue, places[0].Key)}
	if len(places) > 1 {
		target.Node = s.Layout.Path(queue)
	}
	return s.Wait(ctx, func(event zk.Event) (*zkconn.Watch, error) {
		if event.Type == zk.EventNodeDeleted {
			return nil, nil
		}
		w, err := s.WatchTarget(ctx, target)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil, nil
		case err == nil && len(places) > 1 && !haveAll(w.Seen.Names, places):
			return nil, nil
		}
		return w, err
	})
}

func haveAll(names []string, places []driver.Place) bool {
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	return !slices.ContainsFunc(places, func(p driver.Place) bool { return !there[p.Key] })
}

// WatchQueue lists the queue with the request that sets a watch on it, again
// after each event.
func (s *Session) WatchQueue(
	ctx context.Context, queue driver.Queue, show func([]driver.Place) bool,
) error {
	if err := s.CheckQueue(queue); err != nil {
		return err
	}
	return s.Wait(ctx, func(zk.Event) (*zkconn.Watch, error) {
		w, err := s.freshWatch(ctx, zkconn.Children, s.Layout.Path(queue))
		if err != nil {
			return nil, err
		}
		places, err := s.Layout.Places(ctx, queue, w.Seen.Names)
		if err != nil || !show(places) {
			return nil, err
		}
		return w, nil
	})
}

// freshWatch returns the watch on a node, or the one that fires on its
// creation. Both are at least as new as everything that this session has read.
func (s *Session) freshWatch(
	ctx context.Context, kind zkconn.Kind, node string,
) (*zkconn.Watch, error) {
	return zkconn.Fresh(ctx, s.Conn, node, func() (*zkconn.Watch, error) {
		return s.WatchOrCreation(ctx, zkconn.Target{Kind: kind, Node: node})
	})
}

// List reads the names in one request and each entry in one more, all sent at
// once.
func (s *Session) List(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
	if err := s.CheckQueue(queue); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, zkconn.Invalid("limit %d: want 0 or more", limit)
	}
	heads, err := s.first(ctx, queue, limit)
	var entries []driver.Entry
	for _, h := range heads {
		entries = append(entries, h.Entry)
	}
	return entries, err
}

// first reads the first entries of a queue, all if limit is 0.
//
// A missing entry may have left, or been converted to another name. Skipping it
// would omit an entry that never left. So the names are listed again, and only
// new ones read, until each has an entry. The result is the queue at the last
// listing.
func (s *Session) first(ctx context.Context, queue driver.Queue, limit int) ([]driver.Head, error) {
	read := func(client *zk.Conn, p driver.Place) (driver.Head, error) {
		value, stat, err := client.Get(s.ChildPath(queue, p.Key))
		if err != nil {
			return driver.Head{}, err
		}
		return s.headOf(queue, p.Key, zkconn.Seen{Value: value, Stat: *stat}), nil
	}
	known := make(map[string]driver.Head)
	for {
		places, err := s.places(ctx, queue)
		if err != nil {
			return nil, err
		}
		if limit > 0 {
			places = places[:min(limit, len(places))]
		}
		all, err := Gather(ctx, s, places, known, read)
		if err != nil {
			return nil, err
		}
		if !all {
			continue
		}
		heads := make([]driver.Head, len(places))
		for i, p := range places {
			heads[i] = known[p.Key]
		}
		return heads, nil
	}
}

// Gather reads the places that are not in known, all at once, adds them by key,
// and reports whether all exist.
func Gather[T any](
	ctx context.Context, s *Session, places []driver.Place, known map[string]T,
	read func(*zk.Conn, driver.Place) (T, error),
) (all bool, err error) {
	replies := make(map[string]*zkconn.Reply[T])
	for _, p := range places {
		if _, ok := known[p.Key]; ok {
			continue
		}
		r, err := zkconn.Start(ctx, s.Conn, func(client *zk.Conn) (T, error) {
			return read(client, p)
		})
		if err != nil {
			return false, err
		}
		replies[p.Key] = r
	}
	all = true
	for key, r := range replies {
		v, err := r.Wait(ctx)
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

// Check reads the node's Stat after a sync: another session may have seen the
// entry go, and this session's server may be behind (K1). The server of a later
// connection is no older than the reply to the sync.
//
// For a tick, a leader that has lost its quorum still answers a sync. A
// transaction would close that gap, and would be a write.
func (s *Session) Check(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	if err := s.CheckQueue(queue); err != nil {
		return err
	}
	if CheckKey(queue, driver.Place{Key: key}) != nil {
		return driver.ErrGone
	}
	if err := s.Sync(ctx, s.Layout.Path(queue)); err != nil {
		return err
	}
	stat, err := s.Stat(ctx, s.ChildPath(queue, key))
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrInvalidPath):
		// The key comes from another process.
		return driver.Wrap(driver.ErrGone, err)
	case err != nil:
		return err
	}
	if _, is := s.Layout.Entry(queue, key, stat.Czxid); is != token || token == 0 {
		return driver.ErrGone // a stray has token 0
	}
	return nil
}

// Head waits with a data watch on the first entry's node. The version is the
// node's mzxid: the number of the transaction that created it or last wrote to
// it, which no other state of a head shares.
//
// No contender joins ahead of the first, so it stays the first as long as its
// node exists. Head costs one notice and one read for each write, and lists
// only when the first has left.
func (s *Session) Head(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Head, error) {
	if err := s.CheckQueue(queue); err != nil {
		return driver.Head{}, err
	}
	where := s.Layout.Path(queue)
	if known == driver.Any {
		return zkconn.Fresh(ctx, s.Conn, where, func() (driver.Head, error) {
			heads, err := s.first(ctx, queue, 1)
			if err != nil || len(heads) == 0 {
				return driver.Head{}, err
			}
			return heads[0], nil
		})
	}
	var head driver.Head
	err := s.Wait(ctx, func(event zk.Event) (*zkconn.Watch, error) {
		first := ""
		if event.Type == zk.EventNodeDataChanged {
			first = event.Path
		}
		return zkconn.Fresh(ctx, s.Conn, where, func() (w *zkconn.Watch, err error) {
			head, w, err = s.watchHead(ctx, queue, first)
			if err != nil || head.Version != known {
				return nil, err
			}
			return w, nil
		})
	})
	return head, err
}

func (s *Session) headOf(queue driver.Queue, key string, seen zkconn.Seen) driver.Head {
	p, token := s.Layout.Entry(queue, key, seen.Stat.Czxid)
	stray := hint.Stray(seen.Stat.EphemeralOwner != 0, "zkCli.sh delete", s.ChildPath(queue, key))
	return driver.Head{
		Entry:   driver.Entry{Place: p, Token: token, Value: bytes.Clone(seen.Value), Stray: stray},
		Version: driver.Version(seen.Stat.Mzxid),
	}
}

// watchHead returns the head and the watch on its node, which is first unless
// that is "". For an empty queue it returns no head, and a watch that fires
// when a contender joins. An active watch from before is still on the first
// node.
//
// It lists before it watches the children: in a queue that is not empty, a
// watch on the children fires for the others too. If the service removes the
// empty queue, the watch on its children fires, and the next call waits for the
// queue itself, so no join is missed.
func (s *Session) watchHead(
	ctx context.Context, queue driver.Queue, first string,
) (driver.Head, *zkconn.Watch, error) {
	queued := zkconn.Target{Kind: zkconn.Children, Node: s.Layout.Path(queue)}
	w, err := s.ActiveWatch(ctx, zkconn.Target{Kind: zkconn.First, Node: s.ChildPath(queue, "")})
	for w == nil && err == nil {
		if first == "" {
			places, err := s.places(ctx, queue)
			if err == nil && len(places) == 0 {
				if w, err = s.WatchOrCreation(ctx, queued); err == nil {
					places, err = s.Layout.Places(ctx, queue, w.Seen.Names)
				}
			}
			if err != nil || len(places) == 0 {
				return driver.Head{}, w, err
			}
			first = s.ChildPath(queue, places[0].Key)
		}
		w, err = s.WatchTarget(ctx, zkconn.Target{Kind: zkconn.First, Node: first})
		if errors.Is(err, zk.ErrNoNode) {
			w, err, first = nil, nil, ""
		}
	}
	if err != nil {
		return driver.Head{}, nil, err
	}
	return s.headOf(queue, path.Base(w.Target.Node), w.Seen), w, nil
}
