package coordinatortest

import (
	"context"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// reader describes Head or Record, for the flaws that both can have.
type reader[T any] struct {
	read    func(s session) readFunc[T]
	patch   func(s *patched, broken readFunc[T])
	version func(T) driver.Version

	changes, any, passed, fresh, quiet, many, nothing []string // cases
}

type readFunc[T any] func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error)

// broken replaces the method.
func (r reader[T]) broken(
	wrong func(ctx context.Context, w *world, queue driver.Queue, known driver.Version, intact readFunc[T]) (T, error),
) func(*world, *patched) {
	return func(w *world, s *patched) {
		r.patch(s, func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
			return wrong(ctx, w, queue, known, r.read(s.session))
		})
	}
}

// now returns the state at the service, without the link.
func (r reader[T]) now(w *world, queue driver.Queue) (T, driver.Version) {
	got, _ := r.read(WithCapabilities(w.observer()))(context.Background(), queue, driver.Any)
	return got, r.version(got)
}

// flaws returns the flaws that Head and Record can have.
func (r reader[T]) flaws(subject string) []flaw {
	return []flaw{
		{
			name: subject + ": changes are lost", finds: slices.Concat(r.changes, r.many),
			session: r.broken(func(ctx context.Context, w *world, queue driver.Queue, known driver.Version, intact readFunc[T]) (T, error) {
				if got, now := r.now(w, queue); now == known {
					return got, until(ctx)
				}
				return intact(ctx, queue, known)
			}),
		},
		{
			name: subject + ": cancelled waits stay at the service", finds: r.nothing,
			session: r.broken(func(ctx context.Context, _ *world, queue driver.Queue, known driver.Version, intact readFunc[T]) (T, error) {
				var got T
				err := keepsWaiting(ctx, func(ctx context.Context) error { return errOf(intact(ctx, queue, known)) })
				if err == nil {
					return intact(ctx, queue, known)
				}
				return got, err
			}),
		},
		{
			name: subject + ": waits with version Any", finds: r.any,
			session: r.broken(func(ctx context.Context, w *world, queue driver.Queue, known driver.Version, intact readFunc[T]) (T, error) {
				if known == driver.Any {
					_, known = r.now(w, queue)
				}
				return intact(ctx, queue, known)
			}),
		},
		{
			name: subject + ": waits with an earlier version", finds: r.passed,
			session: r.broken(func(ctx context.Context, w *world, queue driver.Queue, known driver.Version, intact readFunc[T]) (T, error) {
				if known != driver.Any {
					_, known = r.now(w, queue)
				}
				return intact(ctx, queue, known)
			}),
		},
		{
			name: subject + ": is a step behind", finds: r.fresh,
			session: func(w *world, s *patched) {
				var before T
				r.broken(func(ctx context.Context, _ *world, queue driver.Queue, known driver.Version, intact readFunc[T]) (T, error) {
					now, err := intact(ctx, queue, known)
					stale := before
					before = now
					return stale, err
				})(w, s)
			},
		},
		{
			name: subject + ": wakes for anything in the queue", finds: r.quiet,
			session: r.broken(func(ctx context.Context, w *world, queue driver.Queue, known driver.Version, intact readFunc[T]) (T, error) {
				if _, now := r.now(w, queue); now == known {
					_ = watchQueue(w)(ctx, queue)
				}
				return intact(ctx, queue, driver.Any)
			}),
		},
		{
			name: subject + ": some answers are stale", finds: r.many, session: r.inTurn,
		},
	}
}

// inTurn returns the first answer again every third time.
func (r reader[T]) inTurn(w *world, s *patched) {
	var mu sync.Mutex
	var shown []T
	r.broken(func(ctx context.Context, _ *world, queue driver.Queue, known driver.Version, intact readFunc[T]) (T, error) {
		got, err := intact(ctx, queue, known)
		mu.Lock()
		defer mu.Unlock()
		if n := len(shown); known == driver.Any && err == nil && n%3 == 2 {
			got = shown[0]
		}
		shown = append(shown, got)
		return got, err
	})(w, s)
}
