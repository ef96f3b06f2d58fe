package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// Join implements driver.Session. The script looks the ID up in any case, so
// repeating it is safe. It refuses a join of an epoch before the latest Forget.
func (s *session) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	reply, err := s.run(ctx, "join", queue, s.epoch.Load(), c.ID, c.Mode, c.Alone,
		int64(c.Record), c.Value)
	if err != nil {
		return driver.Joined{}, err
	}
	var j driver.Joined
	j.Place, j.Token, _ = place(reply[0])
	j.First = reply[1] == "1"
	if c.Follows && reply[2] != "" {
		j.Nearest, _, _ = place(reply[2])
	}
	return j, nil
}

// Ahead implements driver.Session.
func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	reply, err := s.run(ctx, "ahead", queue, own.Key)
	if err != nil {
		return driver.View{}, err
	}
	view := driver.View{Last: reply[0] == "1"}
	for _, entry := range reply[1:] {
		p, _, _ := place(entry)
		view.Ahead = append(view.Ahead, p)
	}
	return view, nil
}

// Watch implements driver.Session.
func (s *session) Watch(ctx context.Context, queue driver.Queue, all ...driver.Place) error {
	_, err := s.watch(ctx, queue, all)
	return err
}

// Follow implements driver.Handoff: the message that an entry is gone says how.
func (s *session) Follow(
	ctx context.Context, queue driver.Queue, _, ahead driver.Place,
) (bool, error) {
	how, err := s.watch(ctx, queue, []driver.Place{ahead})
	return how == "passed", err
}

// watch waits until a place has left, and returns the message that said so, if
// it was a message.
func (s *session) watch(
	ctx context.Context, queue driver.Queue, all []driver.Place,
) (how string, err error) {
	if len(all) == 0 {
		return "", invalid("nothing to watch")
	}
	var tokens []string
	for _, p := range all {
		tokens = append(tokens, p.Key)
	}
	err = s.wait(ctx, queue, tokens, func(message string) (bool, error) {
		if how = message; how != "" {
			return true, nil
		}
		_, err := s.run(ctx, "watch", queue, strings.Join(tokens, " "))
		if errors.Is(err, driver.ErrGone) {
			return true, nil
		}
		return false, err
	})
	return how, err
}

// Leave implements driver.Session.
func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.removed(s.run(ctx, "leave", queue, own.Key, "left"))
}

// Pass implements driver.Handoff: its message says that the contender behind
// own is the first now. It leaves no marker.
func (s *session) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return s.removed(s.run(ctx, "leave", queue, own.Key, "passed"))
}

// Forget implements driver.Session. Joins that were called before have an
// earlier epoch, and are refused if they arrive later. Those of other
// contenders are called again by the engine.
func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	return s.removed(s.run(ctx, "forget", queue, s.epoch.Add(1), id))
}

// removed notes how many entries the session has removed.
func (s *session) removed(reply []string, err error) error {
	if err == nil {
		s.mu.Lock()
		s.removals.Store(max(s.removals.Load(), number(reply[0])))
		s.mu.Unlock()
	}
	return err
}

// List implements driver.Session.
func (s *session) List(
	ctx context.Context, queue driver.Queue, limit int,
) ([]driver.Entry, error) {
	reply, err := s.run(ctx, "list", queue, limit)
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
	err = s.wait(ctx, queue, []string{"0"}, func(string) (bool, error) {
		reply, err := s.run(ctx, "record", queue, int64(known))
		if err != nil {
			return false, err
		}
		if r.Version = driver.Version(number(reply[0])); r.Version != 0 {
			r.Value = []byte(reply[1])
		}
		return r.Version != known, nil
	})
	return r, err
}

// SetRecord implements driver.Session.
func (s *session) SetRecord(
	ctx context.Context, queue driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if len(value) == 0 || len(value) > 64<<10 {
		return 0, invalid("a record of %d bytes; want 1 to %d", len(value), 64<<10)
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
