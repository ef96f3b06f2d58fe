package coordinatortest

import (
	"context"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// reader is Head or Record, and what it needs to be broken in one of the ways that are the same for both.
type reader[T any] struct {
	read    func(s session) readFunc[T]
	patch   func(s *patched, broken readFunc[T])
	version func(T) driver.Version

	changes, any, passed, fresh, quiet, many, nothing []string // cases
}

type readFunc[T any] func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error)

// broken replaces the method by a function that gets the intact one.
func (r reader[T]) broken(broken func(w *world, s *patched, intact readFunc[T]) readFunc[T]) func(*world, *patched) {
	return func(w *world, s *patched) { r.patch(s, broken(w, s, r.read(s.session))) }
}

// mapped changes the outcome.
func (r reader[T]) mapped(change func(ctx context.Context, got T, err error) (T, error)) func(*world, *patched) {
	return r.broken(func(_ *world, _ *patched, intact readFunc[T]) readFunc[T] {
		return func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
			got, err := intact(ctx, queue, known)
			return change(ctx, got, err)
		}
	})
}

// now is the state at the service, whatever the link is like.
func (r reader[T]) now(w *world, queue driver.Queue) (T, driver.Version) {
	got, _ := r.read(WithCapabilities(w.seer()))(context.Background(), queue, driver.Any)
	return got, r.version(got)
}

// flaws are wrong about when to answer, and whom.
func (r reader[T]) flaws(subject string) []flaw {
	return []flaw{
		{
			name: subject + ": changes are lost", finds: slices.Concat(r.changes, r.many),
			session: r.broken(func(w *world, _ *patched, intact readFunc[T]) readFunc[T] { return r.looksOnce(w, intact) }),
		},
		{
			name: subject + ": waits that were given up stay", finds: r.nothing,
			session: r.broken(func(_ *world, _ *patched, intact readFunc[T]) readFunc[T] {
				return func(ctx context.Context, queue driver.Queue, known driver.Version) (got T, err error) {
					err = stays(ctx, func(ctx context.Context) error {
						return errOf(intact(ctx, queue, known))
					})
					if err == nil {
						return intact(ctx, queue, known)
					}
					return got, err
				}
			}),
		},
		{
			name: subject + ": any is no version", finds: r.any,
			session: r.broken(func(w *world, _ *patched, intact readFunc[T]) readFunc[T] {
				return func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
					if known == driver.Any {
						_, known = r.now(w, queue)
					}
					return intact(ctx, queue, known)
				}
			}),
		},
		{
			name: subject + ": waits for what is to come", finds: r.passed,
			session: r.broken(func(w *world, _ *patched, intact readFunc[T]) readFunc[T] {
				return func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
					if known != driver.Any {
						_, known = r.now(w, queue)
					}
					return intact(ctx, queue, known)
				}
			}),
		},
		{
			name: subject + ": is a step behind", finds: r.fresh,
			session: r.broken(func(_ *world, _ *patched, intact readFunc[T]) readFunc[T] {
				var before T
				return func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
					now, err := intact(ctx, queue, known)
					stale := before
					before = now
					return stale, err
				}
			}),
		},
		{
			name: subject + ": wakes for anything in the queue", finds: r.quiet,
			session: r.broken(func(w *world, s *patched, intact readFunc[T]) readFunc[T] {
				return func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
					if _, now := r.now(w, queue); now == known {
						_ = watchQueue(w)(ctx, queue)
					}
					return intact(ctx, queue, driver.Any)
				}
			}),
		},
		{
			name:    subject + ": replicas answer in turn",
			finds:   r.many,
			session: r.broken(func(_ *world, _ *patched, intact readFunc[T]) readFunc[T] { return r.inTurn(intact) }),
		},
	}
}

// looksOnce answers at once or never.
func (r reader[T]) looksOnce(w *world, intact readFunc[T]) readFunc[T] {
	return func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
		if got, now := r.now(w, queue); now == known {
			return got, until(ctx)
		}
		return intact(ctx, queue, known)
	}
}

// inTurn asks every third time a replica that hears of nothing any more.
func (r reader[T]) inTurn(intact readFunc[T]) readFunc[T] {
	var mu sync.Mutex
	var shown []T
	return func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
		got, err := intact(ctx, queue, known)
		mu.Lock()
		defer mu.Unlock()
		if n := len(shown); known == driver.Any && err == nil && n%3 == 2 {
			got = shown[0]
		}
		shown = append(shown, got)
		return got, err
	}
}
