package coordinatortest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// showing changes the views of WatchQueue. broken returns one function for each
// session, which returns nil to skip a view.
func showing(broken func() func(first bool, places []driver.Place) []driver.Place) func(*world, *patched) {
	return func(_ *world, s *patched) {
		change := broken()
		s.watchQueue = func(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error {
			first := true
			return s.session.WatchQueue(ctx, queue, func(places []driver.Place) bool {
				shown := change(first, slices.Clone(places))
				first = false
				return shown == nil || show(shown)
			})
		}
	}
}

func queueFlaws() []flaw {
	const changes = "Q1/each change is shown"
	return []flaw{
		{
			name: "queue: begins with an old view", finds: []string{showsLatest},
			session: showing(func() func(bool, []driver.Place) []driver.Place {
				stale := []driver.Place{}
				return func(first bool, places []driver.Place) []driver.Place {
					before := stale
					stale = places
					if first {
						return before
					}
					return places
				}
			}),
		},
		{
			name: "queue: shows joins only", finds: []string{changes},
			session: showing(func() func(bool, []driver.Place) []driver.Place {
				most := 0
				return func(_ bool, places []driver.Place) []driver.Place {
					if len(places) < most {
						return nil
					}
					most = len(places)
					return places
				}
			}),
		},
		{
			name: "queue: puts a converted entry last", finds: []string{changes},
			session: showing(func() func(bool, []driver.Place) []driver.Place {
				return func(_ bool, places []driver.Place) []driver.Place {
					slices.SortStableFunc(places, func(a, b driver.Place) int { return strings.Compare(b.Mode, a.Mode) })
					return places
				}
			}),
		},
		{
			name: "queue: continues after show has returned false", finds: []string{changes},
			session: func(_ *world, s *patched) {
				s.watchQueue = func(ctx context.Context, queue driver.Queue, show func([]driver.Place) bool) error {
					over, end := context.WithCancel(ctx)
					go func() {
						_ = s.session.WatchQueue(ctx, queue, func(places []driver.Place) bool {
							if !show(places) {
								end()
							}
							return true
						})
					}()
					<-over.Done()
					return ctx.Err()
				}
			},
		},
	}
}

// listing changes the result of Queues.
func listing(broken func(w *world, s *patched, queues []driver.Queue) []driver.Queue) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.queues = func(ctx context.Context) ([]driver.Queue, error) {
			queues, err := s.session.Queues(ctx)
			return broken(w, s, queues), err
		}
	}
}

// without drops the queues that have no entry which f accepts.
func without(w *world, queues []driver.Queue, f func(driver.Entry) bool) []driver.Queue {
	return slices.DeleteFunc(queues, func(queue driver.Queue) bool { return !slices.ContainsFunc(w.svc.Snapshot(queue), f) })
}

func queuesFlaws() []flaw {
	return []flaw{
		{
			name: "queues shows only its session's queues", finds: []string{"E1/queues shows queues of all sessions"},
			session: listing(func(w *world, s *patched, queues []driver.Queue) []driver.Queue {
				return without(w, queues, func(x driver.Entry) bool { return x.Session == s.ID() })
			}),
		},
		{
			name: "queues finds no converted entry", finds: []string{"E2/queues shows no queue with only a record"},
			session: listing(func(w *world, _ *patched, queues []driver.Queue) []driver.Queue {
				return without(w, queues, func(x driver.Entry) bool { return x.Mode == "x" })
			}),
		},
		{
			name: "queues stops at a long one", finds: []string{"E1/queues shows queues after a long one"},
			session: listing(func(w *world, _ *patched, queues []driver.Queue) []driver.Queue {
				long := func(queue driver.Queue) bool { return len(w.svc.Snapshot(queue)) > 500 }
				if i := slices.IndexFunc(queues, long); i >= 0 {
					return queues[:i+1]
				}
				return queues
			}),
		},
		{
			name: "queues caches", finds: []string{"E2/queues shows no queue that all have left"},
			session: func(w *world, s *patched) {
				seen := make(map[driver.Queue]bool)
				listing(func(_ *world, _ *patched, queues []driver.Queue) []driver.Queue {
					for _, queue := range queues {
						seen[queue] = true
					}
					return slices.Collect(maps.Keys(seen))
				})(w, s)
			},
		},
		{
			name: "queues shows queues with only a record", finds: []string{"E2/queues shows no queue with only a record"},
			session: func(w *world, s *patched) {
				recorded := make(map[driver.Queue]bool)
				w.svc.OnStep(func(step memory.Step) {
					if step.Kind == memory.StepRecord {
						recorded[step.Queue] = true
					}
				})
				listing(func(w *world, _ *patched, queues []driver.Queue) []driver.Queue {
					for queue := range recorded {
						if !slices.Contains(queues, queue) {
							queues = append(queues, queue)
						}
					}
					return queues
				})(w, s)
			},
		},
	}
}
