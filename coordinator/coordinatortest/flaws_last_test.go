package coordinatortest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// ended changes Last.
func ended(last func(w *world, queue driver.Queue, own driver.Place, view driver.View) bool) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.ahead = func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
			view, err := s.session.Ahead(ctx, queue, own)
			view.Last = err == nil && last(w, queue, own, view)
			return view, err
		}
	}
}

func lastFlaws() []flaw {
	return []flaw{
		{
			name:    "last is never told",
			finds:   []string{"Last/the end of a queue shows nobody behind", "Last/shows that those behind have left"},
			session: ended(func(*world, driver.Queue, driver.Place, driver.View) bool { return false }),
		},
		{
			name:    "everyone is last",
			finds:   []string{"V3/last is false in front of others", "V3/last is false in front of others"},
			session: ended(func(*world, driver.Queue, driver.Place, driver.View) bool { return true }),
		},
		{
			name:  "last goes by the age of entries",
			finds: []string{"V3/last is false in front of others"},
			session: ended(func(w *world, queue driver.Queue, own driver.Place, _ driver.View) bool {
				return !slices.ContainsFunc(w.svc.Snapshot(queue), func(x driver.Entry) bool { return made(x.Key) > made(own.Key) })
			}),
		},
		{
			name:    "last is put together of two looks",
			finds:   []string{"V3/last is never true while somebody is always behind"},
			session: ended(lastOfTwo),
		},
	}
}

func wholeFlaws() []flaw {
	return []flaw{
		{
			name:  "the whole queue ends before its last",
			finds: []string{"List,Mode,V4/a list and a view show entries in order, with mode and value"},
			session: wholly(func(before, now driver.View) driver.View {
				now.Ahead = now.Ahead[:max(0, len(now.Ahead)-1)]
				return now
			}),
		},
		{
			name:  "nobody comes last",
			finds: []string{"List,Mode,V4/a list and a view show entries in order, with mode and value"},
			session: wholly(func(before, now driver.View) driver.View {
				now.Last = len(now.Ahead) == 0
				return now
			}),
		},
		{
			name:    "the whole queue is a step behind",
			finds:   []string{"S1,V4/a list, a view and the head show what the session has finished"},
			session: wholly(func(before, now driver.View) driver.View { return before }),
		},
	}
}

// wholly changes what Ahead shows to one who does not stand in the queue.
func wholly(change func(before, now driver.View) driver.View) func(*world, *patched) {
	return func(_ *world, s *patched) {
		before := driver.View{Last: true}
		s.ahead = func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
			now, err := s.session.Ahead(ctx, queue, own)
			if own != nowhere || err != nil {
				return now, err
			}
			shown := change(before, now)
			before = now
			return shown, nil
		}
	}
}

// made is the revision of which the memory service makes a key.
func made(key string) int {
	n, _ := strconv.Atoi(key[1:])
	return n
}

// lastOfTwo takes those for gone who are not there in both.
func lastOfTwo(w *world, queue driver.Queue, own driver.Place, _ driver.View) bool {
	before := w.svc.Snapshot(queue)
	time.Sleep(2 * time.Millisecond)
	seen := false
	for _, x := range before {
		if _, there := w.standing(queue, x.ID); seen && there {
			return false
		}
		seen = seen || x.ID == own.ID
	}
	return true
}

func staleFlaws() []flaw {
	return []flaw{
		{
			name: "versions are not looked at",
			finds: []string{
				"J2,J7/another version is refused, unless the entry is there",
				"J7/a late join meets the record as it is then",
			},
			session: versioned(func(_ *world, c driver.Contender, _ driver.Queue) (driver.Contender, error) {
				c.Record = 0
				return c, nil
			}),
		},
		{
			name:  "versions are looked at before the join",
			finds: []string{"J7/a late join meets the record as it is then"},
			session: versioned(func(w *world, c driver.Contender, queue driver.Queue) (driver.Contender, error) {
				if c.Record != 0 && c.Record != w.svc.Record(queue).Version {
					return c, driver.ErrStale
				}
				c.Record = 0
				return c, nil
			}),
		},
		{
			name:  "no version is right",
			finds: []string{"J7/a join with the record's version joins"},
			session: versioned(func(_ *world, c driver.Contender, _ driver.Queue) (driver.Contender, error) {
				if c.Record != 0 {
					return c, driver.ErrStale
				}
				return c, nil
			}),
		},
		{
			name:  "no version means no record",
			finds: []string{"J7/a join with the record's version joins"},
			session: versioned(func(w *world, c driver.Contender, queue driver.Queue) (driver.Contender, error) {
				if c.Record == 0 && w.svc.Record(queue).Version != 0 {
					return c, driver.ErrStale
				}
				return c, nil
			}),
		},
		{
			name:  "versions come before the own entry",
			finds: []string{"J2,J7/another version is refused, unless the entry is there"},
			session: versioned(func(w *world, c driver.Contender, queue driver.Queue) (driver.Contender, error) {
				if c.Record != 0 && c.Record != w.svc.Record(queue).Version {
					return c, driver.ErrStale
				}
				return c, nil
			}),
		},
		{
			name:    "join looks at the version and leaves, and watches hear of the whole queue",
			finds:   []string{"J7/a refused join wakes nobody and leaves no watch"},
			session: func(w *world, s *patched) { s.join, s.watch = joinAndCompare(w, s), watchQueue(w) },
		},
	}
}

// versioned changes or refuses a contender before it joins.
func versioned(change func(w *world, c driver.Contender, queue driver.Queue) (driver.Contender, error)) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
			c, err := change(w, c, queue)
			if err != nil {
				return driver.Joined{}, err
			}
			return s.session.Join(ctx, queue, c)
		}
	}
}

func joinAndCompare(w *world, s *patched) joinFunc {
	return func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
		version := c.Record
		c.Record = 0
		j, err := s.session.Join(ctx, queue, c)
		if err != nil || version == 0 || version == w.svc.Record(queue).Version {
			return j, err
		}
		time.Sleep(time.Millisecond) // the round trip of the look
		_ = s.session.Leave(ctx, queue, j.Place)
		return driver.Joined{}, driver.ErrStale
	}
}
