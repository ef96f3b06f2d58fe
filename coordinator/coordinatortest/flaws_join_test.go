package coordinatortest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// joined changes what Join returns.
func joined(change func(w *world, queue driver.Queue, c driver.Contender, j *driver.Joined)) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
			j, err := s.session.Join(ctx, queue, c)
			if err == nil {
				change(w, queue, c, &j)
			}
			return j, err
		}
	}
}

// asked changes or refuses a contender before it joins.
func asked(change func(w *world, queue driver.Queue, c *driver.Contender) error) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
			if err := change(w, queue, &c); err != nil {
				return driver.Joined{}, err
			}
			return s.session.Join(ctx, queue, c)
		}
	}
}

func joinFlaws() []flaw {
	const similar = "Queue/queues and records of similar names are unrelated"
	return []flaw{
		{
			name: "tokens fall",
			finds: []string{
				"J1,V1/order, tokens and views over sessions and clients", "J1/tokens rise over a restart",
				"J1/order of concurrent joins",
			},
			session: joined(func(_ *world, _ driver.Queue, _ driver.Contender, j *driver.Joined) { j.Token = 1000 - j.Token }),
		},
		{
			name: "tokens start again with the queue", finds: []string{"Token/rises after the queue was empty"},
			session: joined(func(w *world, queue driver.Queue, _ driver.Contender, j *driver.Joined) {
				j.Token = driver.Token(len(w.svc.Snapshot(queue)))
			}),
		},
		{
			name: "a repeated join makes another entry",
			finds: []string{
				"J2/joining again finds the entry", "J2/joining again after a lost reply finds the entry",
				"J2/a join that arrives after it was repeated adds nothing",
			},
			session: asked(func(_ *world, _ driver.Queue, c *driver.Contender) error {
				if c.Again {
					c.ID = newID()
				}
				return nil
			}),
		},
		{
			name: "every join returns First", finds: []string{"J3/only the first gets First"},
			session: joined(func(_ *world, _ driver.Queue, _ driver.Contender, j *driver.Joined) { j.First = true }),
		},
		{
			name: "a lost session joins through another", finds: []string{"J5/an ended session cannot join"},
			session: func(w *world, s *patched) {
				s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
					j, err := s.session.Join(ctx, queue, c)
					if errors.Is(err, driver.ErrSessionLost) {
						return w.observer().Join(ctx, queue, c)
					}
					return j, err
				}
			},
		},
		{
			name: "alone is ignored", finds: []string{"J6/alone is refused and leaves no entry and no watch"},
			session: asked(func(_ *world, _ driver.Queue, c *driver.Contender) error {
				c.Alone = false
				return nil
			}),
		},
		{
			name: "alone is refused by its own entry", finds: []string{"J6/alone joins an empty queue"},
			session: asked(func(w *world, queue driver.Queue, c *driver.Contender) error {
				if c.Alone && len(w.svc.Snapshot(queue)) > 0 {
					return driver.ErrTaken
				}
				return nil
			}),
		},
		{
			name:    "a refused join joins and leaves, and watches wake for the whole queue",
			finds:   []string{"W2/Watch: other contenders end no wait", "J7/a refused join wakes no contender and leaves no watch"},
			session: joinAndLook,
		},
		{
			name:    "a refused join leaves a watch",
			finds:   []string{"J6/alone is refused and leaves no entry and no watch", "J7/a refused join wakes no contender and leaves no watch"},
			session: joinAndWatch,
		},
		{name: "names are folded", finds: []string{similar}, session: renamed(strings.ToLower)},
		{
			name: "names are cut at an escape", finds: []string{similar},
			session: renamed(func(name string) string { before, _, _ := strings.Cut(name, "%2F"); return before }),
		},
		{
			name: "names of records are folded", finds: []string{similar},
			session: func(_ *world, s *patched) {
				s.record = func(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
					return s.session.Record(ctx, driver.Queue(strings.ToLower(string(queue))), known)
				}
			},
		},
		{
			name: "keys are made of IDs", finds: []string{"Key/is never used for another entry"},
			session: func(w *world, s *patched) {
				joined(func(_ *world, _ driver.Queue, c driver.Contender, j *driver.Joined) { j.Place.Key = c.ID })(w, s)
				s.leave = func(_ context.Context, queue driver.Queue, own driver.Place) error { return remove(w, queue, own.Key) }
			},
		},
		{
			name: "join returns no mode", finds: []string{"List,Mode,V4/a list and a view show entries in order, with mode and value"},
			session: joined(func(_ *world, _ driver.Queue, _ driver.Contender, j *driver.Joined) { j.Place.Mode = "" }),
		},
	}
}

// joinAndLook joins, compares and leaves.
func joinAndLook(w *world, s *patched) {
	s.watch = watchQueue(w)
	s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
		asked := c
		c.Alone, c.Record = false, 0
		j, err := s.session.Join(ctx, queue, c)
		if err == nil && asked.Alone && !j.First {
			err = driver.ErrTaken
		}
		if err == nil && asked.Record != 0 && asked.Record != w.svc.Record(queue).Version {
			err = driver.ErrStale
		}
		if errors.Is(err, driver.ErrTaken) || errors.Is(err, driver.ErrStale) {
			time.Sleep(time.Millisecond) // a round trip
			_ = s.session.Leave(ctx, queue, j.Place)
		}
		return j, err
	}
}

func joinAndWatch(w *world, s *patched) {
	s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
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

// renamed joins a queue of another name.
func renamed(to func(string) string) func(*world, *patched) {
	return func(_ *world, s *patched) {
		s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
			return s.session.Join(ctx, driver.Queue(to(string(queue))), c)
		}
	}
}

func staleFlaws() []flaw {
	const (
		late    = "J7/a late join compares the current record"
		refused = "J2,J7/another version is refused, unless the entry is there"
		joins   = "J7/a join with the record's version joins"
	)
	return []flaw{
		{
			name: "joins ignore versions", finds: []string{refused, late},
			session: asked(func(_ *world, _ driver.Queue, c *driver.Contender) error {
				c.Record = 0
				return nil
			}),
		},
		{
			name: "versions are compared before the join, and before the search for its entry", finds: []string{refused, late},
			session: asked(func(w *world, queue driver.Queue, c *driver.Contender) error {
				if c.Record != 0 && c.Record != w.svc.Record(queue).Version {
					return driver.ErrStale
				}
				c.Record = 0
				return nil
			}),
		},
		{
			name: "every version is refused", finds: []string{joins},
			session: asked(func(_ *world, _ driver.Queue, c *driver.Contender) error {
				if c.Record != 0 {
					return driver.ErrStale
				}
				return nil
			}),
		},
		{
			name: "version zero means no record", finds: []string{joins},
			session: asked(func(w *world, queue driver.Queue, c *driver.Contender) error {
				if c.Record == 0 && w.svc.Record(queue).Version != 0 {
					return driver.ErrStale
				}
				return nil
			}),
		},
	}
}
