package coordinatortest

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// forgotten replaces Forget.
func forgotten(broken func(ctx context.Context, w *world, s *patched, queue driver.Queue, id string) error) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.forget = func(ctx context.Context, queue driver.Queue, id string) error {
			return broken(ctx, w, s, queue, id)
		}
	}
}

func forgetFlaws() []flaw {
	const removes = "F1/forget removes the entry, if any"
	return []flaw{
		{
			name: "forget does nothing", finds: []string{removes, "F1/forget after a lost reply leaves nothing"},
			session: forgotten(func(context.Context, *world, *patched, driver.Queue, string) error { return nil }),
		},
		{
			name: "forget only deletes the entry", finds: []string{"F1/forget prevents a join under way"},
			session: forgotten(func(_ context.Context, w *world, _ *patched, queue driver.Queue, id string) error {
				_ = remove(w, queue, id)
				return nil
			}),
		},
		{
			name: "forget finds no converted entry",
			finds: []string{
				"W1/a forget of a converted and written entry ends the wait", "F1/forget removes the entry of a lost conversion",
			},
			session: forgotten(func(ctx context.Context, w *world, s *patched, queue driver.Queue, id string) error {
				if x, there := w.queued(queue, id); there && x.Mode != "x" {
					return nil
				}
				return s.session.Forget(ctx, queue, id)
			}),
		},
		{
			name: "forget without an entry is an error", finds: []string{removes},
			session: forgotten(func(_ context.Context, w *world, _ *patched, queue driver.Queue, id string) error {
				return remove(w, queue, id)
			}),
		},
		{
			name: "forget removes all of the session", finds: []string{"F2/others keep their places"},
			session: forgotten(func(_ context.Context, w *world, s *patched, queue driver.Queue, _ string) error {
				w.removeAll(queue, s.ID())
				return nil
			}),
		},
	}
}
