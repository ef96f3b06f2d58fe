package coordinatortest

import (
	"context"
	"maps"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// listing replaces Queues; queues are what the intact one said.
func listing(broken func(w *world, s *patched, queues []driver.Queue) []driver.Queue) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.queues = func(ctx context.Context) ([]driver.Queue, error) {
			queues, err := s.session.Queues(ctx)
			if err != nil {
				return nil, err
			}
			return broken(w, s, queues), nil
		}
	}
}

// linesWith are the queues that have an entry of which f is true.
func linesWith(w *world, queues []driver.Queue, f func(driver.Entry) bool) (some []driver.Queue) {
	for _, queue := range queues {
		for _, x := range w.svc.Snapshot(queue) {
			if f(x) {
				some = append(some, queue)
				break
			}
		}
	}
	return some
}

func queuesFlaws() []flaw {
	return []flaw{
		{
			name: "queues has its own session's only", finds: []string{"E1/queues has those of all sessions"},
			session: listing(func(w *world, s *patched, queues []driver.Queue) []driver.Queue {
				return linesWith(w, queues, func(x driver.Entry) bool { return x.Session == s.ID() })
			}),
		},
		{
			name: "queues knows the first mode only", finds: []string{"E2/queues has none that only has a record"},
			session: listing(func(w *world, _ *patched, queues []driver.Queue) []driver.Queue {
				return linesWith(w, queues, func(x driver.Entry) bool { return x.Mode == "x" })
			}),
		},
		{
			name: "queues stops at a long one", finds: []string{"E1/queues has those behind a long one"},
			session: listing(func(w *world, _ *patched, queues []driver.Queue) []driver.Queue {
				for i, queue := range queues {
					if len(w.svc.Snapshot(queue)) > 500 {
						return queues[:i+1]
					}
				}
				return queues
			}),
		},
		{
			name: "queues remembers", finds: []string{"E2/queues has none that everybody has left"},
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
			name: "queues has those with a record", finds: []string{"E2/queues has none that only has a record"},
			session: func(w *world, s *patched) {
				recorded := make(map[driver.Queue]bool)
				w.svc.OnStep(func(step memory.Step) {
					if step.Kind == memory.StepRecord {
						recorded[step.Queue] = true
					}
				})
				listing(func(w *world, _ *patched, queues []driver.Queue) []driver.Queue {
					for _, queue := range queues {
						delete(recorded, queue)
					}
					return slices.AppendSeq(queues, maps.Keys(recorded))
				})(w, s)
			},
		},
	}
}
