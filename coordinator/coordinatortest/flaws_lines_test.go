package coordinatortest

import (
	"context"
	"maps"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// listing replaces Lines; lines are what the intact one said.
func listing(broken func(w *world, s *patched, lines []driver.Line) []driver.Line) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.lines = func(ctx context.Context) ([]driver.Line, error) {
			lines, err := s.session.Lines(ctx)
			if err != nil {
				return nil, err
			}
			return broken(w, s, lines), nil
		}
	}
}

// linesWith are the lines that have an entry of which f is true.
func linesWith(w *world, lines []driver.Line, f func(driver.Entry) bool) (some []driver.Line) {
	for _, line := range lines {
		for _, x := range w.svc.Snapshot(line) {
			if f(x) {
				some = append(some, line)
				break
			}
		}
	}
	return some
}

func linesFlaws() []flaw {
	return []flaw{
		{
			name: "lines has its own session's only", finds: []string{"E1/lines has those of all sessions"},
			session: listing(func(w *world, s *patched, lines []driver.Line) []driver.Line {
				return linesWith(w, lines, func(x driver.Entry) bool { return x.Session == s.ID() })
			}),
		},
		{
			name: "lines knows the first mode only", finds: []string{"E1/lines has a line whose entry was converted"},
			session: listing(func(w *world, _ *patched, lines []driver.Line) []driver.Line {
				return linesWith(w, lines, func(x driver.Entry) bool { return x.Mode == "x" })
			}),
		},
		{
			name: "lines stops at a long one", finds: []string{"E1/lines has those behind a long one"},
			session: listing(func(w *world, _ *patched, lines []driver.Line) []driver.Line {
				for i, line := range lines {
					if len(w.svc.Snapshot(line)) > 500 {
						return lines[:i+1]
					}
				}
				return lines
			}),
		},
		{
			name: "lines remembers", finds: []string{"E2/lines has none that everybody has left"},
			session: func(w *world, s *patched) {
				seen := make(map[driver.Line]bool)
				listing(func(_ *world, _ *patched, lines []driver.Line) []driver.Line {
					for _, line := range lines {
						seen[line] = true
					}
					return slices.Collect(maps.Keys(seen))
				})(w, s)
			},
		},
		{
			name: "lines has those with a record", finds: []string{"E2/lines has none that only has a record"},
			session: func(w *world, s *patched) {
				recorded := make(map[driver.Line]bool)
				w.svc.OnStep(func(step memory.Step) {
					if step.Kind == memory.StepRecord {
						recorded[step.Line] = true
					}
				})
				listing(func(w *world, _ *patched, lines []driver.Line) []driver.Line {
					for _, line := range lines {
						delete(recorded, line)
					}
					return slices.AppendSeq(lines, maps.Keys(recorded))
				})(w, s)
			},
		},
	}
}
