package nodes

import (
	"bytes"
	"context"
	"errors"
	"math"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// WriteTo writes to the node of this session's entry, in one request with the
// expected version of its data. It wakes no waiter for the node's deletion: see
// Watch.
//
// An earlier write whose caller has gone may still be queued in the client, or
// be on its way. It has that version or an older one. Once this write is
// applied, the earlier one is refused. If the earlier one comes first, this one
// is refused, reads the version, and tries again.
func (s *Session) WriteTo(ctx context.Context, node string, value []byte) error {
	value = bytes.Clone(value) // the request may outlive the call
	for {
		own, _ := s.OwnEntry(node)
		version := own.version
		stat, err := zkconn.Do(ctx, s.Conn, func(client *zk.Conn) (*zk.Stat, error) {
			return client.Set(node, value, version)
		})
		switch {
		case err == nil:
			s.noteVersion(node, stat.Version)
			return nil
		case !errors.Is(err, zk.ErrBadVersion):
			return err // also ErrGone: Leave still needs the successor node
		}
		stat, err = s.Stat(ctx, node)
		if err != nil {
			return err
		}
		s.noteVersion(node, stat.Version)
	}
}

// noteVersion notes a version from a reply. Replies may be noted out of order.
func (s *Session) noteVersion(node string, version int32) {
	s.SetOwnEntry(node, func(o *OwnEntry) { o.version = max(version, o.version) })
}

// version is the contract's version of a node's data. The service counts from
// 0, which in the contract means that there is no record.
func version(data int32) driver.Version { return driver.Version(data) + 1 }

// DataVersion is the service's number for a version, or -2, which matches no
// node. (-1 matches any.)
func DataVersion(v driver.Version) int32 {
	if v < 1 || v > math.MaxInt32 {
		return -2
	}
	return int32(v - 1)
}

// Record waits with a data watch on the record's node, or for its creation. A
// watch on its parent would fire for all queues of the kind. The version is the
// service's version of the node's data, plus one. It restarts if an operator
// deletes the node: Baton never does.
func (s *Session) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Record, error) {
	node, err := s.recordPath(queue)
	if err != nil {
		return driver.Record{}, err
	}
	if known == driver.Any {
		seen, err := zkconn.Fresh(ctx, s.Conn, node, func() (zkconn.Seen, error) {
			return s.Get(ctx, node)
		})
		return recordOf(seen), err
	}
	var record driver.Record
	err = s.Wait(ctx, func(zk.Event) (*zkconn.Watch, error) {
		w, err := s.freshWatch(ctx, zkconn.Data, node)
		if err != nil {
			return nil, err
		}
		if record = recordOf(w.Seen); record.Version != known {
			return nil, nil
		}
		return w, nil
	})
	return record, err
}

func (s *Session) recordPath(queue driver.Queue) (string, error) {
	if err := s.CheckQueue(queue); err != nil {
		return "", err
	}
	node := s.Layout.RecordPath(queue)
	if node == "" {
		return "", zkconn.Invalid("queue %q: the layout has no record for it", queue)
	}
	return node, nil
}

func recordOf(seen zkconn.Seen) driver.Record {
	if !seen.Exists {
		return driver.Record{}
	}
	return driver.Record{Value: bytes.Clone(seen.Value), Version: version(seen.Stat.Version)}
}

// SetRecord writes the record in one request, unless it is the first: its node
// stays when the queue is empty.
func (s *Session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	node, err := s.recordPath(queue)
	if err != nil {
		return 0, err
	}
	if len(value) == 0 {
		return 0, zkconn.Invalid("record without a value")
	}
	if err := CheckValue(value); err != nil {
		return 0, err
	}
	value = bytes.Clone(value) // the request may outlive the call
	if known != 0 {
		return zkconn.Do(ctx, s.Conn, func(client *zk.Conn) (driver.Version, error) {
			stat, err := client.Set(node, value, DataVersion(known))
			if errors.Is(err, zk.ErrNoNode) {
				return 0, driver.Wrap(driver.ErrStale, err)
			}
			if err != nil {
				return 0, err
			}
			return version(stat.Version), nil
		})
	}
	return WithParent(ctx, s, path.Dir(node), func() (driver.Version, error) {
		return zkconn.Do(ctx, s.Conn, func(client *zk.Conn) (driver.Version, error) {
			_, err := client.Create(node, value, zk.FlagPersistent, s.Tree.ACL)
			if errors.Is(err, zk.ErrNodeExists) {
				return 0, driver.Wrap(driver.ErrStale, err)
			}
			return version(0), err
		})
	})
}
