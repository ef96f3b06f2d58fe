package coordinatortest

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// followed replaces Follow by a function that gets the intact one.
func followed(broken func(w *world, s *patched, intact followFunc) followFunc) func(*world, *patched) {
	return func(w *world, s *patched) { s.follow = broken(w, s, s.Session.Follow) }
}

// followMapped changes the outcome of Follow.
func followMapped(change func(ctx context.Context, passed bool, err error) (bool, error)) func(*world, *patched) {
	return followed(func(_ *world, _ *patched, intact followFunc) followFunc {
		return func(ctx context.Context, line driver.Line, own, ahead driver.Place) (bool, error) {
			passed, err := intact(ctx, line, own, ahead)
			return change(ctx, passed, err)
		}
	})
}

// nearer changes whom Join shows as the nearest.
func nearer(change func(w *world, line driver.Line, own driver.Place) driver.Place) func(*world, *patched) {
	return joined(func(w *world, _ *patched, line driver.Line, c driver.Contender, j driver.Joined) driver.Joined {
		if c.Follows {
			j.Nearest = change(w, line, j.Place)
		}
		return j
	})
}

func followFlaws() []flaw {
	const nearest = "J8/nearest is who joined before"
	return []flaw{
		{
			name: "nearest is the first in line", finds: []string{nearest},
			session: nearer(func(w *world, line driver.Line, _ driver.Place) driver.Place { return w.svc.Snapshot(line)[0].Place }),
		},
		{
			name: "nearest is the last in line, which is its own", finds: []string{nearest},
			session: nearer(func(_ *world, _ driver.Line, own driver.Place) driver.Place { return own }),
		},
		{
			name:  "every leaving is a pass",
			finds: []string{"N1/only a pass passes"},
			session: followMapped(func(_ context.Context, _ bool, err error) (bool, error) {
				return err == nil, err
			}),
		},
		{
			name:  "follow does not look first",
			finds: []string{"N1/a pass before the follow"},
			session: followed(func(w *world, _ *patched, intact followFunc) followFunc {
				return func(ctx context.Context, line driver.Line, own, ahead driver.Place) (bool, error) {
					if _, there := w.standing(line, ahead.ID); !there {
						return false, until(ctx)
					}
					return intact(ctx, line, own, ahead)
				}
			}),
		},
		{
			name:    "a follower does not look after its own place",
			finds:   []string{"N1/only a pass passes", "N2/a follower that is removed is told"},
			session: followed(watchOnly),
		},
	}
}

// watchOnly is Watch in the place of Follow.
func watchOnly(_ *world, s *patched, _ followFunc) followFunc {
	return func(ctx context.Context, line driver.Line, _, ahead driver.Place) (bool, error) {
		return false, s.Watch(ctx, line, ahead)
	}
}

// passed replaces Pass, after the intact one was called if first is set.
func passed(broken func(w *world, s *patched, line driver.Line, own driver.Place, err error) error, first bool) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.pass = func(ctx context.Context, line driver.Line, own driver.Place) (err error) {
			if first {
				err = s.Session.Pass(ctx, line, own)
			}
			return broken(w, s, line, own, err)
		}
	}
}

func passFlaws() []flaw {
	return []flaw{
		{
			name:  "a pass stays in the line as an entry",
			finds: []string{"N3/what a pass leaves is no contender"},
			session: passed(func(w *world, _ *patched, line driver.Line, _ driver.Place, err error) error {
				w.svc.AddForeign(line)
				return err
			}, true),
		},
		{
			name:  "a pass of nothing succeeds",
			finds: []string{"L2/a repeated pass deletes nothing"},
			session: passed(func(_ *world, _ *patched, _ driver.Line, _ driver.Place, err error) error {
				if errors.Is(err, driver.ErrGone) {
					return nil
				}
				return err
			}, true),
		},
		{
			name:  "a pass takes the first in line",
			finds: []string{"L2/a repeated pass deletes nothing"},
			session: passed(func(w *world, _ *patched, line driver.Line, own driver.Place, _ error) error {
				entries := w.svc.Snapshot(line)
				if len(entries) == 0 {
					return driver.ErrGone
				}
				return remove(w, line, entries[0].Key)
			}, false),
		},
	}
}
