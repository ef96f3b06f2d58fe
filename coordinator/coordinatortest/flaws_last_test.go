package coordinatortest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// ended changes Last.
func ended(last func(w *world, line driver.Line, own driver.Place, view driver.View) bool) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.ahead = func(ctx context.Context, line driver.Line, own driver.Place) (driver.View, error) {
			view, err := s.session.Ahead(ctx, line, own)
			view.Last = err == nil && last(w, line, own, view)
			return view, err
		}
	}
}

func lastFlaws() []flaw {
	return []flaw{
		{
			name:    "last is never told",
			finds:   []string{"Last/the end of a line shows nobody behind", "Last/shows that those behind have left"},
			session: ended(func(*world, driver.Line, driver.Place, driver.View) bool { return false }),
		},
		{
			name:    "everyone is last",
			finds:   []string{"V3/last is false in front of others", "V3/last is false in front of a converted entry"},
			session: ended(func(*world, driver.Line, driver.Place, driver.View) bool { return true }),
		},
		{
			name:  "last goes by the age of entries",
			finds: []string{"V3/last is false in front of a converted entry"},
			session: ended(func(w *world, line driver.Line, own driver.Place, _ driver.View) bool {
				return !slices.ContainsFunc(w.svc.Snapshot(line), func(x driver.Entry) bool { return made(x.Key) > made(own.Key) })
			}),
		},
		{
			name:    "last is put together of two looks",
			finds:   []string{"V3/last is never true while there is always somebody behind"},
			session: ended(lastOfTwo),
		},
	}
}

func wholeFlaws() []flaw {
	return []flaw{
		{
			name:  "the whole line ends before its last",
			finds: []string{"V4/the whole line is shown to one who does not stand in it"},
			session: wholly(func(before, now driver.View) driver.View {
				now.Ahead = now.Ahead[:max(0, len(now.Ahead)-1)]
				return now
			}),
		},
		{
			name:  "nobody comes last",
			finds: []string{"V4/the whole line is shown to one who does not stand in it"},
			session: wholly(func(before, now driver.View) driver.View {
				now.Last = len(now.Ahead) == 0
				return now
			}),
		},
		{
			name:    "the whole line is a step behind",
			finds:   []string{"V4/the whole line is as the session has left it"},
			session: wholly(func(before, now driver.View) driver.View { return before }),
		},
	}
}

// wholly changes what Ahead shows to one who does not stand in the line.
func wholly(change func(before, now driver.View) driver.View) func(*world, *patched) {
	return func(_ *world, s *patched) {
		before := driver.View{Last: true}
		s.ahead = func(ctx context.Context, line driver.Line, own driver.Place) (driver.View, error) {
			now, err := s.session.Ahead(ctx, line, own)
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
func lastOfTwo(w *world, line driver.Line, own driver.Place, _ driver.View) bool {
	before := w.svc.Snapshot(line)
	time.Sleep(2 * time.Millisecond)
	seen := false
	for _, x := range before {
		if _, there := w.standing(line, x.ID); seen && there {
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
				"J7/a join with another version is refused and leaves no entry",
				"J7/a join under way meets the record as it is when it arrives",
			},
			session: versioned(func(_ *world, c driver.Contender, _ driver.Line) (driver.Contender, error) {
				c.Record = 0
				return c, nil
			}),
		},
		{
			name:  "versions are looked at before the join",
			finds: []string{"J7/a join under way meets the record as it is when it arrives"},
			session: versioned(func(w *world, c driver.Contender, line driver.Line) (driver.Contender, error) {
				if c.Record != 0 && c.Record != w.svc.Record(line).Version {
					return c, driver.ErrStale
				}
				c.Record = 0
				return c, nil
			}),
		},
		{
			name:  "no version is right",
			finds: []string{"J7/a join with the record's version joins"},
			session: versioned(func(_ *world, c driver.Contender, _ driver.Line) (driver.Contender, error) {
				if c.Record != 0 {
					return c, driver.ErrStale
				}
				return c, nil
			}),
		},
		{
			name:  "no version means no record",
			finds: []string{"J7/a join with the record's version joins"},
			session: versioned(func(w *world, c driver.Contender, line driver.Line) (driver.Contender, error) {
				if c.Record == 0 && w.svc.Record(line).Version != 0 {
					return c, driver.ErrStale
				}
				return c, nil
			}),
		},
		{
			name:  "versions come before the own entry",
			finds: []string{"J2/joining again finds the entry though the record has changed"},
			session: versioned(func(w *world, c driver.Contender, line driver.Line) (driver.Contender, error) {
				if c.Record != 0 && c.Record != w.svc.Record(line).Version {
					return c, driver.ErrStale
				}
				return c, nil
			}),
		},
		{
			name:    "join looks at the version and leaves, and watches hear of the whole line",
			finds:   []string{"J7/a refused join wakes nobody"},
			session: func(w *world, s *patched) { s.join, s.watch = joinAndCompare(w, s), watchLine(w, s) },
		},
	}
}

// versioned changes or refuses a contender before it joins.
func versioned(change func(w *world, c driver.Contender, line driver.Line) (driver.Contender, error)) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.join = func(ctx context.Context, line driver.Line, c driver.Contender) (driver.Joined, error) {
			c, err := change(w, c, line)
			if err != nil {
				return driver.Joined{}, err
			}
			return s.session.Join(ctx, line, c)
		}
	}
}

func joinAndCompare(w *world, s *patched) joinFunc {
	return func(ctx context.Context, line driver.Line, c driver.Contender) (driver.Joined, error) {
		version := c.Record
		c.Record = 0
		j, err := s.session.Join(ctx, line, c)
		if err != nil || version == 0 || version == w.svc.Record(line).Version {
			return j, err
		}
		time.Sleep(time.Millisecond) // the round trip of the look
		_ = s.session.Leave(ctx, line, j.Place)
		return driver.Joined{}, driver.ErrStale
	}
}
