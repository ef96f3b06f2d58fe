package coordinatortest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// reader is Head or Record, and what it needs to be broken in one of the ways that are the same for both.
type reader[T any] struct {
	told, wait string // the clauses of subject.toldCases and waitCases
	read       func(s session) readFunc[T]
	patch      func(s *patched, broken readFunc[T])
	version    func(T) driver.Version

	changes, any, passed, fresh, quiet []string // cases of its own
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

func (r reader[T]) flaws(subject string) []flaw {
	var none T
	claim := func(clause string, claims ...string) (all []string) {
		for _, c := range claims {
			all = append(all, clause+"/"+c)
		}
		return all
	}
	return append(r.wakeFlaws(subject), []flaw{
		{
			name: subject + ": changes are lost",
			finds: slices.Concat(r.changes, claim(r.told,
				"a change is told", "a change at the time of the call is told", "a change while cut off is told after healing",
				"a change before the request arrives is told", "the last of many changes is never missed")),
			session: r.broken(func(w *world, _ *patched, intact readFunc[T]) readFunc[T] { return r.looksOnce(w, intact) }),
		},
		{
			name: subject + ": does not come back after the connection broke",
			finds: claim(r.told, "a change while disconnected is told", "a change after a reconnect is told",
				"a change after a restart is told", "a change that was compacted away is told",
				"the last of many changes is never missed over reconnects"),
			session: r.mapped(func(ctx context.Context, got T, err error) (T, error) {
				if errors.Is(err, driver.ErrUnavailable) {
					return none, until(ctx)
				}
				return got, err
			}),
		},
		{
			name:  subject + ": takes a broken connection for a change",
			finds: claim(r.wait, "a broken connection is no change"),
			session: r.mapped(func(_ context.Context, got T, err error) (T, error) {
				if errors.Is(err, driver.ErrUnavailable) {
					return got, nil
				}
				return got, err
			}),
		},
		{
			name:  subject + ": takes the end of its context for a change",
			finds: claim(r.wait, "a wait ends with its context's error"),
			session: r.mapped(func(ctx context.Context, got T, err error) (T, error) {
				if ctx.Err() != nil {
					return got, nil
				}
				return got, err
			}),
		},
		{
			name:  subject + ": goes on when its session is over",
			finds: claim(r.wait, "a wait ends when its own session is lost", "a wait ends when its own session is closed"),
			session: r.mapped(func(ctx context.Context, got T, err error) (T, error) {
				if errors.Is(err, driver.ErrSessionLost) {
					return none, until(ctx)
				}
				return got, err
			}),
		},
		{
			name: subject + ": waits that were given up stay",
			finds: claim(r.wait, "a wait that was given up leaves at most one watch",
				"a wait for what is not there leaves at most one watch"),
			session: r.broken(func(_ *world, _ *patched, intact readFunc[T]) readFunc[T] { return r.stays(intact) }),
		},
	}...)
}

// wakeFlaws are wrong about when to answer, and whom.
func (r reader[T]) wakeFlaws(subject string) []flaw {
	return []flaw{
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
						_ = watchQueue(w, s)(ctx, queue, nil)
					}
					return intact(ctx, queue, driver.Any)
				}
			}),
		},
		{
			name:    subject + ": waits share the context of the first",
			finds:   []string{r.told + "/one who gives up takes nobody along"},
			session: r.broken(func(_ *world, _ *patched, intact readFunc[T]) readFunc[T] { return r.shared(intact) }),
		},
		{
			name:    subject + ": replicas answer in turn",
			finds:   []string{r.told + "/what is shown never goes back"},
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

// stays goes on waiting at the service when its caller has gone.
func (r reader[T]) stays(intact readFunc[T]) readFunc[T] {
	return func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
		told := make(chan answer[T], 1)
		go func() { // ends with the driver
			got, err := intact(context.Background(), queue, known)
			told <- answer[T]{got, err}
		}()
		select {
		case o := <-told:
			return o.got, o.err
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

type answer[T any] struct {
	got T
	err error
}

// shared lets one wait at the service do for all that know the same.
func (r reader[T]) shared(intact readFunc[T]) readFunc[T] {
	type wait struct {
		answer[T]
		done chan struct{}
	}
	var mu sync.Mutex
	waits := map[driver.Version]*wait{}
	return func(ctx context.Context, queue driver.Queue, known driver.Version) (T, error) {
		mu.Lock()
		w := waits[known]
		if w == nil || known == driver.Any {
			w = &wait{done: make(chan struct{})}
			waits[known] = w
			mu.Unlock()
			w.got, w.err = intact(ctx, queue, known)
			close(w.done)
			return w.got, w.err
		}
		mu.Unlock()
		select {
		case <-w.done:
			return w.got, w.err
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
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
