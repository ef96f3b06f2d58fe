package coordinatortest

import (
	"context"
	"errors"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// viewed changes what Ahead returns.
func viewed(change func(own driver.Place, places []driver.Place) []driver.Place) func(*world, *patched) {
	return func(_ *world, s *patched) {
		s.ahead = func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
			view, err := s.session.Ahead(ctx, queue, own)
			if err == nil {
				view.Ahead = change(own, view.Ahead)
			}
			return view, err
		}
	}
}

func viewFlaws() []flaw {
	return []flaw{
		{
			name:  "order is forgotten",
			finds: []string{"J1,V1/order, tokens and views over sessions and clients"},
			session: viewed(func(_ driver.Place, places []driver.Place) []driver.Place {
				slices.Reverse(places)
				return places
			}),
		},
		{
			name: "view lacks the one next ahead",
			finds: []string{
				"J1,V1/order, tokens and views over sessions and clients",
				"V1/a view never lacks one ahead while others come and go",
				"G1/many goroutines share sessions and a queue",
			},
			session: viewed(func(_ driver.Place, places []driver.Place) []driver.Place {
				return places[:max(0, len(places)-1)]
			}),
		},
		{
			name:  "view shows those behind",
			finds: []string{"L1/Leave removes the entry"},
			session: func(_ *world, s *patched) {
				s.ahead = func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
					entries, err := s.session.List(ctx, queue, 0)
					places := []driver.Place{}
					for _, x := range entries {
						places = append(places, x.Place)
					}
					return driver.View{Ahead: places}, err
				}
			},
		},
		{
			name:    "view is cached",
			finds:   []string{"V1/a view is as new as what watch has told"},
			session: func(_ *world, s *patched) { s.ahead = aheadCached(s) },
		},
		{
			name:  "view of nothing is empty",
			finds: []string{"V2/a place that was left has no view", "V2/a place of an ended session has no view"},
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
			name:  "view drops the mode",
			finds: []string{"List,Mode,V4/a list and a view show entries in order, with mode and value"},
			session: viewed(func(_ driver.Place, places []driver.Place) []driver.Place {
				for i := range places {
					places[i].Mode = "x"
				}
				return places
			}),
		},
		{
			name:  "list starts with the newest",
			finds: []string{"J1/order of joins at the same time", "List,Mode,V4/a list and a view show entries in order, with mode and value"},
			session: listed(func(entries []driver.Entry, _ int) []driver.Entry {
				slices.Reverse(entries)
				return entries
			}),
		},
		{
			name:  "list has no values",
			finds: []string{"List,Mode,V4/a list and a view show entries in order, with mode and value"},
			session: listed(func(entries []driver.Entry, _ int) []driver.Entry {
				for i := range entries {
					entries[i].Value = nil
				}
				return entries
			}),
		},
		{
			name:  "list shows the last entries",
			finds: []string{"List,Mode,V4/a list and a view show entries in order, with mode and value"},
			session: func(_ *world, s *patched) {
				s.list = func(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
					entries, err := s.session.List(ctx, queue, 0)
					if limit > 0 && limit < len(entries) {
						entries = entries[len(entries)-limit:]
					}
					return entries, err
				}
			},
		},
		{
			name:  "an empty queue is an error",
			finds: []string{"List/a queue that nobody joined is empty"},
			session: func(_ *world, s *patched) {
				s.list = func(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
					entries, err := s.session.List(ctx, queue, limit)
					if err == nil && len(entries) == 0 {
						err = driver.ErrGone
					}
					return entries, err
				}
			},
		},
		{
			name:    "list is a step behind",
			finds:   []string{"S1,V4/a list, a view and the head show what the session has finished"},
			session: func(_ *world, s *patched) { s.list = listBehind(s) },
		},
	}
}

func listed(change func(entries []driver.Entry, limit int) []driver.Entry) func(*world, *patched) {
	return func(_ *world, s *patched) {
		s.list = func(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
			entries, err := s.session.List(ctx, queue, limit)
			return change(entries, limit), err
		}
	}
}

// aheadCached asks once for each place.
func aheadCached(s *patched) func(context.Context, driver.Queue, driver.Place) (driver.View, error) {
	cache := map[string]driver.View{}
	return func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
		if view, ok := cache[own.Key]; ok {
			return view, nil
		}
		view, err := s.session.Ahead(ctx, queue, own)
		if err == nil {
			cache[own.Key] = view
		}
		return view, err
	}
}

// listBehind returns the list before the present one.
func listBehind(s *patched) func(context.Context, driver.Queue, int) ([]driver.Entry, error) {
	var before []driver.Entry
	return func(ctx context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
		entries, err := s.session.List(ctx, queue, limit)
		stale := before
		before = entries
		return stale, err
	}
}
