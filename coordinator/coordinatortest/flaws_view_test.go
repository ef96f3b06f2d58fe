package coordinatortest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

const (
	listsEntries = "List,Mode,V4/a list and a view show entries in order, with mode and value"
	showsLatest  = "S1,V4/a list, a view and the head show the session's own changes"
)

// viewed changes the view of Ahead.
func viewed(change func(w *world, queue driver.Queue, own driver.Place, view *driver.View)) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.ahead = func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
			view, err := s.session.Ahead(ctx, queue, own)
			if err == nil {
				change(w, queue, own, &view)
			}
			return view, err
		}
	}
}

// listed changes the result of List before its limit.
func listed(change func(entries []driver.Entry, limit int) ([]driver.Entry, error)) func(*world, *patched) {
	return func(_ *world, s *patched) {
		s.list = func(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
			entries, err := s.session.List(ctx, queue, 0)
			if err == nil {
				entries, err = change(entries, limit)
			}
			if limit > 0 && limit < len(entries) {
				entries = entries[:limit]
			}
			return entries, err
		}
	}
}

func viewFlaws() []flaw {
	return []flaw{
		{
			name: "views are reversed", finds: []string{"J1,V1/order, tokens and views over sessions and clients"},
			session: viewed(func(_ *world, _ driver.Queue, _ driver.Place, view *driver.View) { slices.Reverse(view.Ahead) }),
		},
		{
			name: "view lacks the predecessor",
			finds: []string{
				"J1,V1/order, tokens and views over sessions and clients",
				"V1/a view never lacks a contender ahead while others join and leave", "G1/many goroutines share sessions and a queue",
			},
			session: viewed(func(_ *world, _ driver.Queue, _ driver.Place, view *driver.View) {
				view.Ahead = view.Ahead[:max(0, len(view.Ahead)-1)]
			}),
		},
		{
			name: "view shows contenders behind", finds: []string{"L1/Leave removes the entry"},
			session: viewed(func(w *world, queue driver.Queue, _ driver.Place, view *driver.View) { view.Ahead = w.places(queue) }),
		},
		{
			name: "view is cached", finds: []string{"V1/a view is as new as what Watch has returned"},
			session: func(w *world, s *patched) {
				cache := map[string]driver.View{}
				viewed(func(_ *world, _ driver.Queue, own driver.Place, view *driver.View) {
					if _, ok := cache[own.Key]; !ok {
						cache[own.Key] = *view
					}
					*view = cache[own.Key]
				})(w, s)
			},
		},
		{
			name: "view of a place that has left is empty", finds: []string{"V2/a place that was left has no view", "V2/a place of an ended session has no view"},
			session: func(_ *world, s *patched) {
				s.ahead = func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
					view, err := s.session.Ahead(ctx, queue, own)
					if errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrSessionLost) {
						return driver.View{}, nil
					}
					return view, err
				}
			},
		},
		{
			name: "view drops the mode", finds: []string{listsEntries},
			session: viewed(func(_ *world, _ driver.Queue, _ driver.Place, view *driver.View) {
				for i := range view.Ahead {
					view.Ahead[i].Mode = "x"
				}
			}),
		},
	}
}

func listFlaws() []flaw {
	return []flaw{
		{
			name: "list starts with the newest", finds: []string{"J1/order of concurrent joins", listsEntries},
			session: listed(func(entries []driver.Entry, _ int) ([]driver.Entry, error) {
				slices.Reverse(entries)
				return entries, nil
			}),
		},
		{
			name: "list has no values", finds: []string{listsEntries},
			session: listed(func(entries []driver.Entry, _ int) ([]driver.Entry, error) {
				for i := range entries {
					entries[i].Value = nil
				}
				return entries, nil
			}),
		},
		{
			name: "list shows the last entries", finds: []string{listsEntries},
			session: listed(func(entries []driver.Entry, limit int) ([]driver.Entry, error) {
				if limit > 0 && limit < len(entries) {
					entries = entries[len(entries)-limit:]
				}
				return entries, nil
			}),
		},
		{
			name: "an empty queue is an error", finds: []string{listsEntries},
			session: listed(func(entries []driver.Entry, _ int) ([]driver.Entry, error) {
				if len(entries) == 0 {
					return nil, driver.ErrGone
				}
				return entries, nil
			}),
		},
		{
			name: "list is a step behind", finds: []string{showsLatest},
			session: func(w *world, s *patched) {
				var before []driver.Entry
				listed(func(entries []driver.Entry, _ int) ([]driver.Entry, error) {
					stale := before
					before = entries
					return stale, nil
				})(w, s)
			},
		},
	}
}

func lastFlaws() []flaw {
	var joined sync.Map
	return []flaw{
		{
			name: "a view shows the record of the first view", finds: []string{"V6/a view shows the record of its moment, or none"},
			session: viewed(func(_ *world, _ driver.Queue, own driver.Place, view *driver.View) {
				if v, seen := joined.LoadOrStore(own, view.Record); seen {
					view.Record = v.(driver.Version)
				}
			}),
		},
		{
			name: "last is always false", finds: []string{"Last/is true at the end of a queue", "Last/is true after the contenders behind have left"},
			session: viewed(func(_ *world, _ driver.Queue, _ driver.Place, view *driver.View) { view.Last = false }),
		},
		{
			name: "last is always true", finds: []string{"V3/last is false ahead of others"},
			session: viewed(func(_ *world, _ driver.Queue, _ driver.Place, view *driver.View) { view.Last = true }),
		},
		{
			name: "last compares the age of entries", finds: []string{"V3/last is false ahead of others"},
			session: viewed(func(w *world, queue driver.Queue, own driver.Place, view *driver.View) {
				younger := func(p driver.Place) bool { return made(p.Key) > made(own.Key) }
				view.Last = own == noPlace || !slices.ContainsFunc(w.places(queue), younger)
			}),
		},
		{
			name: "last is made of two reads", finds: []string{"V3/last is false while a contender is always behind"},
			session: viewed(func(w *world, queue driver.Queue, own driver.Place, view *driver.View) {
				before := w.places(queue)
				time.Sleep(2 * time.Millisecond)
				i := slices.IndexFunc(before, func(p driver.Place) bool { return p.ID == own.ID })
				// No contender behind is in both.
				view.Last = i < 0 || !slices.ContainsFunc(before[i+1:], func(p driver.Place) bool {
					_, there := w.queued(queue, p.ID)
					return there
				})
			}),
		},
		{
			name: "the whole queue lacks its last", finds: []string{listsEntries},
			session: viewed(func(_ *world, _ driver.Queue, own driver.Place, view *driver.View) {
				if own == noPlace {
					view.Ahead = view.Ahead[:max(0, len(view.Ahead)-1)]
				}
			}),
		},
		{
			name: "last of the whole queue is false", finds: []string{listsEntries},
			session: viewed(func(_ *world, _ driver.Queue, own driver.Place, view *driver.View) {
				view.Last = view.Last && (own != noPlace || len(view.Ahead) == 0)
			}),
		},
		{
			name: "the whole queue is a step behind", finds: []string{showsLatest},
			session: func(w *world, s *patched) {
				before := driver.View{Last: true}
				viewed(func(_ *world, _ driver.Queue, own driver.Place, view *driver.View) {
					if own == noPlace {
						before, *view = *view, before
					}
				})(w, s)
			},
		},
	}
}

// made returns the revision in a key of the memory service.
func made(key string) int {
	n, _ := strconv.Atoi(key[1:])
	return n
}
