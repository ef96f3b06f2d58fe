package coordinatortest

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

func leaveFlaws() []flaw {
	all := append(exitFlaws("Leave", left), exitFlaws("Pass", passed)...)
	return append(append(all, forgetFlaws()...), flaw{
		name: "leave goes by the ID", finds: []string{"L2/Leave of a place that is gone changes nothing"},
		session: left(func(w *world, _ *patched, queue driver.Queue, own driver.Place, _ error) error {
			return remove(w, queue, own.ID)
		}, false),
	}, flaw{
		name: "leave leaves what was converted", finds: []string{"W1/a leave of a converted and written entry is told"},
		session: left(func(_ *world, _ *patched, _ driver.Queue, _ driver.Place, _ error) error { return nil }, false),
	})
}

// breaker replaces Leave or Pass, after the intact one was called if first is set.
type breaker = func(
	broken func(w *world, s *patched, queue driver.Queue, own driver.Place, err error) error, first bool,
) func(*world, *patched)

// exitFlaws are the ways in which a Leave or Pass can be wrong.
func exitFlaws(verb string, exit breaker) []flaw {
	return []flaw{
		{
			name: verb + " does nothing", finds: []string{"L1/" + verb + " removes the entry"},
			session: exit(func(_ *world, _ *patched, _ driver.Queue, _ driver.Place, _ error) error { return nil }, false),
		},
		{
			name:  verb + " of nothing succeeds",
			finds: []string{"L2/" + verb + " of a place that is gone changes nothing"},
			session: exit(func(_ *world, _ *patched, _ driver.Queue, _ driver.Place, err error) error {
				if errors.Is(err, driver.ErrGone) {
					return nil
				}
				return err
			}, true),
		},
		{
			name: verb + " goes by name", finds: []string{"L2/" + verb + " spares the same id joined later"},
			session: exit(func(w *world, _ *patched, queue driver.Queue, own driver.Place, _ error) error {
				return remove(w, queue, own.ID)
			}, false),
		},
		{
			name: verb + " goes by key alone", finds: []string{"L2/" + verb + " of a foreign place changes nothing"},
			session: exit(func(w *world, _ *patched, queue driver.Queue, own driver.Place, _ error) error {
				return remove(w, queue, own.Key)
			}, false),
		},
		{
			name:  "a repeated " + verb + " takes the first in the queue",
			finds: []string{"L3/" + verb + " may be repeated after a lost reply", "L2/" + verb + " of a place that is gone changes nothing"},
			session: exit(func(w *world, _ *patched, queue driver.Queue, _ driver.Place, err error) error {
				if entries := w.svc.Snapshot(queue); errors.Is(err, driver.ErrGone) && len(entries) > 0 {
					return remove(w, queue, entries[0].Key)
				}
				return err
			}, true),
		},
	}
}

// left replaces Leave, after the intact one was called if first is set.
func left(broken func(w *world, s *patched, queue driver.Queue, own driver.Place, err error) error, first bool) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.leave = func(ctx context.Context, queue driver.Queue, own driver.Place) (err error) {
			if first {
				err = s.session.Leave(ctx, queue, own)
			}
			return broken(w, s, queue, own, err)
		}
	}
}

func remove(w *world, queue driver.Queue, keyOrID string) error {
	if !w.svc.Remove(queue, keyOrID) {
		return driver.ErrGone
	}
	return nil
}

// forgotten replaces Forget.
func forgotten(broken func(ctx context.Context, w *world, s *patched, queue driver.Queue, id string) error) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.forget = func(ctx context.Context, queue driver.Queue, id string) error {
			return broken(ctx, w, s, queue, id)
		}
	}
}

func forgetFlaws() []flaw {
	return []flaw{
		{
			name: "forget does nothing", finds: []string{"F1/forget removes the entry, and it is no error if there is none", "F1/forget after a lost reply leaves nothing"},
			session: forgotten(func(context.Context, *world, *patched, driver.Queue, string) error { return nil }),
		},
		{
			name: "forget only deletes", finds: []string{"F1/forget beats a join under way"},
			session: forgotten(func(_ context.Context, w *world, _ *patched, queue driver.Queue, id string) error {
				_ = remove(w, queue, id)
				return nil
			}),
		},
		{
			name:  "forget knows the first mode only",
			finds: []string{"W1/a forget of a converted and written entry is told", "F1/forget removes what a lost conversion has made"},
			session: forgotten(func(ctx context.Context, w *world, s *patched, queue driver.Queue, id string) error {
				if x, there := w.standing(queue, id); there && x.Mode != "x" {
					return nil
				}
				return s.session.Forget(ctx, queue, id)
			}),
		},
		{
			name: "forgetting nothing is an error", finds: []string{"F1/forget removes the entry, and it is no error if there is none"},
			session: forgotten(func(_ context.Context, w *world, _ *patched, queue driver.Queue, id string) error {
				return remove(w, queue, id)
			}),
		},
		{
			name: "forget takes all of the session", finds: []string{"F2/others keep their places"},
			session: forgotten(func(_ context.Context, w *world, s *patched, queue driver.Queue, _ string) error {
				for _, x := range w.svc.Snapshot(queue) {
					if x.Session == s.ID() {
						_ = remove(w, queue, x.Key)
					}
				}
				return nil
			}),
		},
	}
}
