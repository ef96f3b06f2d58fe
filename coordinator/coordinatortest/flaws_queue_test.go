package coordinatortest

import (
	"context"
	"slices"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// showing replaces what WatchQueue shows; broken returns nil for a view that is left out.
func showing(broken func(w *world, s *patched, queue driver.Queue, first bool, places []driver.Place) []driver.Place) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.watchQueue = func(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error {
			first := true
			return s.session.WatchQueue(ctx, queue, func(places []driver.Place) bool {
				shown := broken(w, s, queue, first, places)
				first = false
				return shown == nil || show(shown)
			})
		}
	}
}

func queueFlaws() []flaw {
	var stale []driver.Place
	return []flaw{
		{
			name: "queue: begins with what was shown before", finds: []string{"S1,V4/a list, a view and the head show what the session has finished"},
			session: showing(func(_ *world, _ *patched, _ driver.Queue, first bool, places []driver.Place) []driver.Place {
				now := slices.Clone(places)
				if first && len(stale) > 0 {
					now = stale
				}
				stale = places
				return now
			}),
		},
		{
			name: "queue: shows joins only", finds: []string{"Q1/each change is shown"},
			session: func(w *world, s *patched) {
				most := 0
				showing(func(_ *world, _ *patched, _ driver.Queue, _ bool, places []driver.Place) []driver.Place {
					if len(places) < most {
						return nil
					}
					most = len(places)
					return places
				})(w, s)
			},
		},
		{
			name: "queue: goes on after show has returned false", finds: []string{"Q1/each change is shown"},
			session: func(_ *world, s *patched) {
				s.watchQueue = func(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error {
					ended := make(chan error, 1)
					go func() {
						over := false
						ended <- s.session.WatchQueue(ctx, queue, func(places []driver.Place) bool {
							more := show(places)
							if !more && !over {
								over = true
								ended <- nil
							}
							return true
						})
					}()
					return <-ended
				}
			},
		},
		{
			name: "queue: puts a converted entry last", finds: []string{"Q1/each change is shown"},
			session: showing(func(_ *world, _ *patched, _ driver.Queue, _ bool, places []driver.Place) []driver.Place {
				now := slices.Clone(places)
				slices.SortStableFunc(now, func(a, b driver.Place) int { return strings.Compare(b.Mode, a.Mode) })
				return now
			}),
		},
	}
}
