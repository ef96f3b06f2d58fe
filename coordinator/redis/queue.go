package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// largest is the size of the largest record or value of an entry.
const largest = 64 << 10

// Join implements driver.Session. The script looks the ID up in any case, so
// repeating it is safe. It refuses a join of an epoch before the latest Forget.
func (s *session) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	s.note(c.ID, known{record: c.Record != 0})
	script := "join"
	if c.Record == 0 {
		script += anyRecord
	}
	reply, err := s.run(ctx, script, queue, s.epoch.Load(), c.ID, c.Mode, c.Alone,
		int64(c.Record), c.Value)
	if err != nil {
		if errors.Is(err, driver.ErrTaken) || errors.Is(err, driver.ErrStale) ||
			errors.Is(err, driver.ErrRefused) {
			s.forgo(c.ID, "") // the others may have been applied
		}
		return driver.Joined{}, err
	}
	var j driver.Joined
	j.Place, j.Token, _ = place(reply[0])
	s.note(c.ID, known{j.Place.Key, c.Record != 0})
	j.First = reply[1] == "1"
	if c.Follows && reply[2] != "" {
		j.Nearest, _, _ = place(reply[2])
	}
	return j, nil
}

// Ahead implements driver.Session. The view has the record's version if the
// contender named one when it joined: then the record exists, see anyRecord.
func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	script := "ahead"
	if c, _ := s.knows(own.ID); !c.record {
		script += anyRecord
	}
	reply, err := s.run(ctx, script, queue, own.Key)
	if err != nil {
		return driver.View{}, err
	}
	view := driver.View{Last: reply[0] == "1", Record: driver.Version(number(reply[1]))}
	for _, entry := range reply[2:] {
		p, _, _ := place(entry)
		view.Ahead = append(view.Ahead, p)
	}
	return view, nil
}

// Watch implements driver.Session.
func (s *session) Watch(ctx context.Context, queue driver.Queue, all ...driver.Place) error {
	_, err := s.watch(ctx, queue, driver.Place{}, all)
	return err
}

// Follow implements driver.Handoff.
func (s *session) Follow(
	ctx context.Context, queue driver.Queue, own, ahead driver.Place,
) (bool, error) {
	return s.watch(ctx, queue, own, []driver.Place{ahead})
}

// watch waits until a place has left. Messages say that this may be so, and the
// script decides: others may have the right to publish. passed: the last
// message said that the place handed over, and own is the first.
func (s *session) watch(
	ctx context.Context, queue driver.Queue, own driver.Place, all []driver.Place,
) (passed bool, err error) {
	if len(all) == 0 {
		return false, invalid("nothing to watch")
	}
	var tokens []string
	for _, p := range all {
		tokens = append(tokens, p.Key)
	}
	err = s.wait(ctx, queue, tokens, func(message string) (bool, time.Duration, error) {
		reply, err := s.run(ctx, "watch", queue, strings.Join(tokens, " "), own.Key)
		if errors.Is(err, driver.ErrGone) {
			passed = message == "passed" && reply[0] == "1"
			return true, 0, nil
		}
		if err != nil || reply[0] == "" {
			return false, pollUp, err
		}
		// The message of an entry of a dead session is sent by the first that
		// meets it: at that time one reads.
		return false, time.Duration(number(reply[0])) * time.Microsecond, nil
	})
	return passed, err
}

// Leave implements driver.Session.
func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, "left")
}

// Pass implements driver.Handoff: its message says that the contender behind
// own is the first now. It leaves no marker.
func (s *session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.leave(ctx, queue, own, "passed")
}

func (s *session) leave(
	ctx context.Context, queue driver.Queue, own driver.Place, how string,
) error {
	_, err := s.run(ctx, "leave", queue, own.Key, how)
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.forgo(own.ID, own.Key)
	}
	return err
}

// Forget implements driver.Session. Joins that were called before have an
// earlier epoch, and are refused if they arrive later. Those of other
// contenders are called again by the engine.
func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	_, err := s.run(ctx, "forget", queue, s.epoch.Add(1), id)
	if err == nil {
		s.forgo(id, "")
	}
	return err
}

// List implements driver.Session.
func (s *session) List(
	ctx context.Context, queue driver.Queue, limit int,
) ([]driver.Entry, error) {
	const mostHead = 1000
	reply, err := s.run(ctx, "list", queue, limit, mostHead+largest)
	if err != nil {
		return nil, err
	}
	list := make([]driver.Entry, 0, len(reply))
	for _, entry := range reply {
		p, token, value := place(entry)
		list = append(list, driver.Entry{Place: p, Token: token, Value: []byte(value)})
	}
	return list, nil
}

// Record implements driver.Session. The script watches the record if its
// version is known.
func (s *session) Record(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (r driver.Record, err error) {
	err = s.wait(ctx, queue, []string{"0"}, func(string) (bool, time.Duration, error) {
		reply, err := s.run(ctx, "record", queue, int64(known), largest+1)
		if err != nil {
			return false, 0, err
		}
		if r.Version = driver.Version(number(reply[0])); r.Version != 0 {
			r.Value = []byte(reply[1])
		}
		return r.Version != known, pollUp, nil
	})
	return r, err
}

// SetRecord implements driver.Session. With Any it sends nothing: the master
// that answers Record has all finished writes.
func (s *session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if len(value) == 0 || len(value) > largest {
		return 0, invalid("a record of %d bytes; want 1 to %d", len(value), largest)
	}
	if known == driver.Any {
		if s.ctx.Err() != nil {
			return 0, statuses["lost"]
		}
		return 0, driver.ErrStale
	}
	reply, err := s.run(ctx, "write", queue, int64(known), value)
	if err != nil {
		return 0, err
	}
	return driver.Version(number(reply[0])), nil
}

// number parses a number that a script made.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
