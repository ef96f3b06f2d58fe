package coordinatortest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// joined changes what Join returns.
func joined(change func(w *world, s *patched, queue driver.Queue, c driver.Contender, j driver.Joined) driver.Joined) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
			j, err := s.session.Join(ctx, queue, c)
			if err == nil {
				j = change(w, s, queue, c, j)
			}
			return j, err
		}
	}
}

func joinFlaws() []flaw {
	return []flaw{
		{
			name: "token goes back",
			finds: []string{
				"J1,V1/order, tokens and views over sessions and clients", "J1/tokens rise over a restart",
				"J1/order of joins at the same time",
			},
			session: joined(func(_ *world, _ *patched, _ driver.Queue, _ driver.Contender, j driver.Joined) driver.Joined {
				j.Token = 1000 - j.Token
				return j
			}),
		},
		{
			name:  "token is a number that starts again with the queue",
			finds: []string{"Token/rises over times when the queue is empty"},
			session: joined(func(w *world, _ *patched, queue driver.Queue, _ driver.Contender, j driver.Joined) driver.Joined {
				j.Token = driver.Token(len(w.svc.Snapshot(queue)))
				return j
			}),
		},
		{
			name: "create is repeated after a lost reply",
			finds: []string{
				"J2/joining again finds the entry", "J2/joining again after a lost reply finds the entry",
				"J2/a join that arrives after it was repeated adds nothing",
			},
			session: func(_ *world, s *patched) {
				s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
					if c.Again {
						c.ID = newID()
					}
					return s.session.Join(ctx, queue, c)
				}
			},
		},
		{
			name:  "everyone is first",
			finds: []string{"J3/only the first may see first"},
			session: joined(func(_ *world, _ *patched, _ driver.Queue, _ driver.Contender, j driver.Joined) driver.Joined {
				j.First = true
				return j
			}),
		},
		{
			name:    "a lost session joins through another",
			finds:   []string{"J5/an ended session cannot join"},
			session: func(w *world, s *patched) { s.join = joinAnyway(w, s) },
		},
		{
			name:  "alone is ignored",
			finds: []string{"J6/alone is refused and leaves no entry and no watch"},
			session: func(_ *world, s *patched) {
				s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
					c.Alone = false
					return s.session.Join(ctx, queue, c)
				}
			},
		},
		{
			name:  "alone is refused by its own entry",
			finds: []string{"J6/alone joins an empty queue"},
			session: func(w *world, s *patched) {
				s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
					if c.Alone && len(w.svc.Snapshot(queue)) > 0 {
						return driver.Joined{}, driver.ErrTaken
					}
					return s.session.Join(ctx, queue, c)
				}
			},
		},
		{
			name:  "alone joins, looks and leaves, and watches hear of the whole queue",
			finds: []string{"W2/Watch: others who come and go wake nobody"},
			session: func(w *world, s *patched) {
				s.join, s.watch = joinAndLook(s), watchQueue(w)
			},
		},
		{
			name:    "a refused join leaves a watch",
			finds:   []string{"J6/alone is refused and leaves no entry and no watch", "J7/a refused join wakes nobody and leaves no watch"},
			session: func(w *world, s *patched) { s.join = joinAndWatch(w, s) },
		},
		{
			name:    "names are folded and unescaped",
			finds:   []string{"Queue/queues and records of similar names do not see each other"},
			session: func(_ *world, s *patched) { s.renameLines(func(l string) string { return strings.ToLower(l) }) },
		},
		{
			name:  "names are cut at an escape",
			finds: []string{"Queue/queues and records of similar names do not see each other"},
			session: func(_ *world, s *patched) {
				s.renameLines(func(l string) string { before, _, _ := strings.Cut(l, "%2F"); return before })
			},
		},
		{
			name:  "keys are made of IDs",
			finds: []string{"Key/is never used for another entry"},
			session: joined(func(w *world, s *patched, _ driver.Queue, c driver.Contender, j driver.Joined) driver.Joined {
				s.leave = func(_ context.Context, queue driver.Queue, own driver.Place) error { return remove(w, queue, own.Key) }
				j.Place.Key = c.ID
				return j
			}),
		},
		{
			name:  "joined does not show the mode",
			finds: []string{"List,Mode,V4/a list and a view show entries in order, with mode and value"},
			session: joined(func(_ *world, _ *patched, _ driver.Queue, _ driver.Contender, j driver.Joined) driver.Joined {
				j.Place.Mode = ""
				return j
			}),
		},
	}
}

// joinAnyway pretends that a lost session's Join went well, by an entry without a session.
func joinAnyway(w *world, s *patched) joinFunc {
	return func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
		j, err := s.session.Join(ctx, queue, c)
		if errors.Is(err, driver.ErrSessionLost) {
			w.svc.AddForeign(queue)
			return driver.Joined{Place: driver.Place{ID: c.ID}}, nil
		}
		return j, err
	}
}

// joinAndLook is Alone without the service's help.
func joinAndLook(s *patched) joinFunc {
	return func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
		alone := c.Alone
		c.Alone = false
		j, err := s.session.Join(ctx, queue, c)
		if err != nil || !alone || j.First {
			return j, err
		}
		time.Sleep(time.Millisecond) // the round trip of the look
		_ = s.session.Leave(ctx, queue, j.Place)
		return driver.Joined{}, driver.ErrTaken
	}
}

func joinAndWatch(w *world, s *patched) joinFunc {
	return func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
		j, err := s.session.Join(ctx, queue, c)
		if errors.Is(err, driver.ErrTaken) || errors.Is(err, driver.ErrStale) {
			first := w.svc.Snapshot(queue)[0].Place
			go func() { _ = s.session.Watch(context.Background(), queue, first) }() // ends with the driver
		}
		return j, err
	}
}

// watchQueue returns when anything in the queue changes.
func watchQueue(w *world) watchFunc {
	return func(ctx context.Context, queue driver.Queue, _ ...driver.Place) error {
		for before := w.print(queue); sleep(ctx, 100*time.Microsecond); {
			if w.print(queue) != before {
				return nil
			}
		}
		return ctx.Err()
	}
}

// renameLines maps the name of every queue.
func (s *patched) renameLines(to func(string) string) {
	name := func(l driver.Queue) driver.Queue { return driver.Queue(to(string(l))) }
	s.join = func(ctx context.Context, l driver.Queue, c driver.Contender) (driver.Joined, error) {
		return s.session.Join(ctx, name(l), c)
	}
	s.ahead = func(ctx context.Context, l driver.Queue, own driver.Place) (driver.View, error) {
		return s.session.Ahead(ctx, name(l), own)
	}
	s.leave = func(ctx context.Context, l driver.Queue, own driver.Place) error {
		return s.session.Leave(ctx, name(l), own)
	}
	s.list = func(ctx context.Context, l driver.Queue, limit int) ([]driver.Entry, error) {
		return s.session.List(ctx, name(l), limit)
	}
	s.record = func(ctx context.Context, l driver.Queue, known driver.Version) (driver.Record, error) {
		return s.session.Record(ctx, name(l), known)
	}
	s.setRecord = func(ctx context.Context, l driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
		return s.session.SetRecord(ctx, name(l), value, known)
	}
}
