package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Record waits with a data watch on the record's node, or for its coming if there is none. The version is the service's
// count of changes to the node's data, plus one. It starts again if an operator deletes the node:
// nobody else does.
//
// To wait for the coming of the node is better than to watch what is above it: that has
// all lines of the kind for children, which come and go. The watch goes when the record is made, and all who wait for that
// in this session share it.
func (s *session) Record(ctx context.Context, line driver.Line, known driver.Version) (driver.Record, error) {
	if err := s.checkLine(line); err != nil {
		return driver.Record{}, err
	}
	node := s.record(line)
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

// readRecord reads a record. A watch on it that has not fired shows it without a request; see names.
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

// lookAtRecord returns the record if it is in another version than known, else the watch to wait for.
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

// SetRecord writes the record in one request, if it was made by an earlier one: its node stays when everybody has left.
func (s *session) SetRecord(ctx context.Context, line driver.Line, value []byte, known driver.Version) (driver.Version, error) {
	if err := s.checkLine(line); err != nil {
		return 0, err
	}
	if len(value) == 0 {
		return 0, invalid("record without a value")
	}
	if err := checkValue(value); err != nil {
		return 0, err
	}
	f, _ := s.joins.begin(line, recordFlight)
	defer f.end()
	node, value := s.record(line), bytes.Clone(value) // the request may outlive the call
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

// recordFlight is what the writing of records is in flight under. No contender is called so.
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
