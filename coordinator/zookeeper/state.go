package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Head waits with a data watch on the node of the first entry. The version is
// the node's mzxid: the number of the transaction that made it, or wrote to it
// last, which no other state of a head shares.
//
// Nobody comes to stand ahead of whoever is first, so as long as the node is
// there it is the first, and the queue need not be listed: one who follows a
// queue hears of each write by one notice and one read, and lists only when the
// head has gone. In an empty queue it waits for the children to change; and
// where the queue itself is not there, which is what becomes of one that is
// empty for a while, for its coming.
func (s *session) Head(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Head, error) {
	if err := s.checkQueue(queue); err != nil {
		return driver.Head{}, err
	}
	read := func() (driver.Head, error) { return s.readHead(ctx, queue) }
	if known == driver.Any {
		return freshly(ctx, s, s.path(queue), read)
	}
	var head driver.Head
	first := "" // the first node, while that is known
	err := s.wait(ctx, func(told zk.Event) (*watch, error) {
		if told.Type == zk.EventNodeDeleted {
			first = ""
		}
		return freshly(ctx, s, s.path(queue), func() (w *watch, err error) {
			head, w, err = s.lookAtHead(ctx, queue, known, first)
			if w != nil && w.key.kind == onHead {
				first = w.node
			}
			return w, err
		})
	})
	if err != nil {
		return driver.Head{}, err
	}
	return head, nil
}

// readHead reads the first entry of a queue.
func (s *session) readHead(ctx context.Context, queue driver.Queue) (driver.Head, error) {
	for {
		n, found, err := s.first(ctx, queue)
		if err != nil || !found {
			return driver.Head{}, err
		}
		h, err := call(ctx, s, func() (driver.Head, error) {
			value, stat, err := s.conn.Get(s.below(queue, n.Key))
			if err != nil {
				return driver.Head{}, err
			}
			return headOf(n, value, stat), nil
		})
		// One that is gone meanwhile may have been converted, and be the first
		// still.
		if !errors.Is(err, zk.ErrNoNode) {
			return h, err
		}
	}
}

// first lists a queue for its first node.
func (s *session) first(ctx context.Context, queue driver.Queue) (n node, found bool, err error) {
	c, err := s.children(ctx, queue)
	if err == nil {
		err = s.ambiguous(queue, c)
	}
	if err != nil || len(c.nodes) == 0 {
		return node{}, false, err
	}
	return c.nodes[0], true, nil
}

func headOf(n node, value []byte, stat *zk.Stat) driver.Head {
	return driver.Head{Entry: entryOf(n, value, stat.Czxid), Version: driver.Version(stat.Mzxid)}
}

// lookAtHead returns the head if it is in another state than known, else the
// watch to wait for. First is the path of the first node, if that is known.
func (s *session) lookAtHead(ctx context.Context, queue driver.Queue, known driver.Version, first string) (driver.Head, *watch, error) {
	if known == 0 {
		return s.lookForAny(ctx, queue)
	}
	w, err := s.watchFirst(ctx, queue, first)
	if err != nil || w == nil {
		return driver.Head{}, nil, err // empty now
	}
	n, _ := parseNode(path.Base(w.node))
	h := headOf(n, bytes.Clone(w.seen.value), &w.seen.stat)
	if h.Version == known {
		return h, w, nil
	}
	return h, nil, nil
}

// watchFirst returns the watch on the first node of a queue, nothing if the
// queue is empty. A watch that stands from before is on the first node still.
func (s *session) watchFirst(ctx context.Context, queue driver.Queue, first string) (*watch, error) {
	key := watchKey{onHead, s.path(queue)}
	for {
		if w, err := s.standing(ctx, key); w != nil || err != nil {
			return w, err
		}
		if first == "" {
			n, found, err := s.first(ctx, queue)
			if err != nil || !found {
				return nil, err
			}
			first = s.below(queue, n.Key)
		}
		w, err := s.watch(ctx, key, first)
		if !errors.Is(err, zk.ErrNoNode) {
			return w, err
		}
		first = ""
	}
}

// lookForAny returns the head if there is one, else a watch that fires when
// somebody joins.
//
// It lists before it watches, since a watch on the children of a queue that is
// not empty is told of the comings and goings of others. (When somebody joins
// between the two, it leaves one that is told of the next of them.) While it
// waits the queue may be removed, being empty, and made anew. The watch on its
// children fires for that, and the next look waits for the queue itself, so no
// join is missed.
func (s *session) lookForAny(ctx context.Context, queue driver.Queue) (driver.Head, *watch, error) {
	path := s.path(queue)
	for {
		w, err := s.standing(ctx, watchKey{onAbsence, path})
		if err != nil || w != nil && !w.seen.there {
			return driver.Head{}, w, err
		}
		w, err = s.standing(ctx, watchKey{onQueue, path})
		if err != nil || w != nil && onlySuccessors(w.seen.names) {
			return driver.Head{}, w, err
		}
		h, err := s.readHead(ctx, queue)
		if err != nil || h.Version != 0 {
			return h, nil, err
		}
		w, err = s.watch(ctx, watchKey{onQueue, path}, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if w, err = s.watchAbsent(ctx, path); w != nil || err != nil {
				return driver.Head{}, w, err
			}
		case err != nil || onlySuccessors(w.seen.names):
			return driver.Head{}, w, err
		}
	}
}

// watchAbsent returns a watch that fires when a node comes, nothing if it is
// there.
func (s *session) watchAbsent(ctx context.Context, node string) (*watch, error) {
	w, err := s.watch(ctx, watchKey{onAbsence, node}, node)
	if err != nil || !w.seen.there {
		return w, err
	}
	return nil, nil
}

// Record waits with a data watch on the record's node, or for its coming if
// there is none. The version is the service's count of changes to the node's
// data, plus one. It starts again if an operator deletes the node: nobody else
// does.
//
// To wait for the coming of the node is better than to watch what is above it:
// that has all queues of the kind for children, which come and go. The watch
// goes when the record is made, and all who wait for that in this session share
// it.
func (s *session) Record(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
	if err := s.checkQueue(queue); err != nil {
		return driver.Record{}, err
	}
	node := s.record(queue)
	if known == driver.Any {
		return freshly(ctx, s, node, func() (driver.Record, error) { return s.readRecord(ctx, node) })
	}
	var record driver.Record
	err := s.wait(ctx, func(zk.Event) (*watch, error) {
		return freshly(ctx, s, node, func() (w *watch, err error) {
			record, w, err = s.lookAtRecord(ctx, node, known)
			return w, err
		})
	})
	if err != nil {
		return driver.Record{}, err
	}
	return record, nil
}

// readRecord reads a record. A watch on it that has not fired shows it without
// a request; see names.
func (s *session) readRecord(ctx context.Context, node string) (driver.Record, error) {
	if w, err := s.standing(ctx, watchKey{onRecord, node}); err != nil {
		return driver.Record{}, err
	} else if w != nil {
		return w.record(), nil
	}
	r, err := call(ctx, s, func() (driver.Record, error) {
		value, stat, err := s.conn.Get(node)
		if err != nil {
			return driver.Record{}, err
		}
		return driver.Record{Value: value, Version: version(stat.Version)}, nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return driver.Record{}, nil
	}
	return r, err
}

// lookAtRecord returns the record if it is in another version than known, else
// the watch to wait for.
func (s *session) lookAtRecord(ctx context.Context, node string, known driver.Version) (driver.Record, *watch, error) {
	for {
		if known == 0 {
			w, err := s.standing(ctx, watchKey{onAbsence, node})
			if err != nil || w != nil && !w.seen.there {
				return driver.Record{}, w, err
			}
		}
		w, err := s.watch(ctx, watchKey{onRecord, node}, node)
		if errors.Is(err, zk.ErrNoNode) {
			if known != 0 {
				return driver.Record{}, nil, nil
			}
			if w, err = s.watchAbsent(ctx, node); w != nil || err != nil {
				return driver.Record{}, w, err
			}
			continue
		}
		if err != nil {
			return driver.Record{}, nil, err
		}
		r := w.record()
		if r.Version == known {
			return r, w, nil
		}
		return r, nil, nil
	}
}

// SetRecord writes the record in one request, if it was made by an earlier one:
// its node stays when everybody has left.
func (s *session) SetRecord(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
	if err := s.checkQueue(queue); err != nil {
		return 0, err
	}
	if len(value) == 0 {
		return 0, invalid("record without a value")
	}
	if err := checkValue(value); err != nil {
		return 0, err
	}
	f, _ := s.joins.begin(queue, recordFlight)
	defer f.end()
	node, value := s.record(queue), bytes.Clone(value) // the request may outlive the call
	if known != 0 {
		return s.putRecord(ctx, f, func() (driver.Version, error) {
			stat, err := s.conn.Set(node, value, dataVersion(known))
			if errors.Is(err, zk.ErrNoNode) {
				return 0, driver.Wrap(driver.ErrStale, err)
			}
			if err != nil {
				return 0, err
			}
			return version(stat.Version), nil
		})
	}
	for range maxTries {
		v, err := s.putRecord(ctx, f, func() (driver.Version, error) {
			_, err := s.conn.Create(node, value, zk.FlagPersistent, s.acl)
			if errors.Is(err, zk.ErrNodeExists) {
				return 0, driver.Wrap(driver.ErrStale, err)
			}
			return version(0), err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return v, err
		}
		if err := s.ensure(ctx, path.Dir(node)); err != nil {
			return 0, err
		}
	}
	return 0, driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: the node above the record vanished again and again"))
}

// recordFlight is what the writing of records is in flight under. No contender
// is called so.
const recordFlight = "record"

// putRecord sends a request that writes a record, as part of a flight.
func (s *session) putRecord(ctx context.Context, f *flight, request func() (driver.Version, error)) (driver.Version, error) {
	f.extend()
	r, err := start(ctx, s, s.slots, func() (driver.Version, error) {
		defer f.end()
		return request()
	})
	if err != nil {
		f.end()
		return 0, err
	}
	return await(ctx, s, r)
}
