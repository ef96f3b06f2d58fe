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
)

// Listing reads the names of the children of a queue, none if it is not there.
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

// ViewOf is what own has ahead in a queue of these places: all of them if it is
// the zero Place. ambiguous is the error for a queue without an order.
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

// Watch waits for the first of the places to go: one place with a watch on its
// node, several with one on the queue. The caller's own goroutine waits.
//
// For one, which is what nearly all wait for, the comings and goings of others
// are not even sent. The watch for several fires for each contender that comes
// or goes, which costs a listing, where one on each would cost a request and a
// watch at the service for each. It goes by names alone: children that are no
// places end no wait.
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
	return s.Wait(ctx, func(told zk.Event) (*zkconn.Watch, error) {
		if told.Type == zk.EventNodeDeleted {
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

// WatchQueue lists the queue by the request that sets a watch on it, again
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

// expecting returns the watch on a node, or the one that fires when it comes.
// Both are as new as all that this session was told.
func (s *Session) freshWatch(
	ctx context.Context, kind zkconn.Kind, node string,
) (*zkconn.Watch, error) {
	return zkconn.Fresh(ctx, s.Conn, node, func() (*zkconn.Watch, error) {
		return s.WatchOrCreation(ctx, zkconn.Target{Kind: kind, Node: node})
	})
}

// List reads the names in one request and each entry in one more, all under way
// at once.
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

// first reads the first entries of a queue; with a limit of 0 all.
//
// An entry that is not there any more may have left, or stand in its place
// under another name: to read on with the next would then leave out an entry
// that never left. So the names are listed again, and what was read already is
// not read again, until there is an entry for each. The result is the queue as
// it was at the last listing.
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

// Gather reads what is not known yet of each place, by its key, all under way
// at once, and tells whether they were all there.
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

// Check reads one node's Stat, after a sync: another session may have seen the
// entry go, and this one's server may not have heard of that (K1). A later
// connection's server is no older than the answer to the sync.
//
// A leader that has lost its quorum answers a sync until it finds out, which
// takes a tick. A transaction would not have that gap, and would be a write.
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
		// A key is what another process says it is.
		return driver.Wrap(driver.ErrGone, err)
	case err != nil:
		return err
	}
	if _, is := s.Layout.Entry(queue, key, stat.Czxid); is != token || token == 0 {
		return driver.ErrGone // a child that is no entry has token 0
	}
	return nil
}

// Head waits with a data watch on the node of the first entry. The version is
// the node's mzxid: the number of the transaction that made it, or wrote to it
// last, which no other state of a head shares.
//
// No contender joins ahead of the first, so as long as the node is there it is
// the first: one who follows a queue gets one notice and one read for each
// write, and lists only when the head has gone.
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
	err := s.Wait(ctx, func(told zk.Event) (*zkconn.Watch, error) {
		first := ""
		if told.Type == zk.EventNodeDataChanged {
			first = told.Path
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
	return driver.Head{
		Entry:   driver.Entry{Place: p, Token: token, Value: bytes.Clone(seen.Value)},
		Version: driver.Version(seen.Stat.Mzxid),
	}
}

// watchHead returns the head and the watch on its node, which is first unless
// that is empty; in an empty queue no head, and a watch that fires when a
// contender joins. A watch that stands from before is on the first node still.
//
// It lists before it watches the children, since a watch on the children of a
// queue that is not empty fires for the others too. An empty queue may be
// removed while it waits. The watch on its children fires for that, and the
// next call waits for the queue itself, so no join is missed.
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
