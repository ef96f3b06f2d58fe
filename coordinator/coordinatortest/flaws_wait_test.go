package coordinatortest

import (
	"context"
	"errors"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// waitFlaws are wrong about a wait in the ways that are the same for all of them.
func waitFlaws() (all []flaw) {
	for _, x := range []wait{watches, follows, queueWaits, headWaits, recordWaits} {
		add := func(name string, wait func(ctx context.Context, intact func(context.Context) error) error, finds ...string) {
			all = append(all, flaw{name: x.name + " " + name, finds: finds, session: func(_ *world, s *patched) {
				s.around = func(ctx context.Context, method string, intact func(context.Context) error) error {
					if method != x.name {
						return intact(ctx)
					}
					return wait(ctx, intact)
				}
			}})
		}
		claims := func(clause string, claims ...string) (names []string) {
			for _, claim := range claims {
				names = append(names, clause+"/"+x.name+": "+claim)
			}
			return names
		}
		// returns has the call say or do something else where it returns an error.
		returns := func(wrong func(err error, ctx context.Context) bool, instead func(ctx context.Context) error) func(
			context.Context, func(context.Context) error) error {
			return func(ctx context.Context, intact func(context.Context) error) error {
				if err := intact(ctx); !wrong(err, ctx) {
					return err
				}
				return instead(ctx)
			}
		}
		is := func(wanted ...error) func(error, context.Context) bool {
			return func(err error, _ context.Context) bool {
				for _, w := range wanted {
					if errors.Is(err, w) {
						return true
					}
				}
				return false
			}
		}
		change := func(context.Context) error { return nil }

		add("is not woken", returns(is(nil), until), x.ends(claims)...)
		add("does not come back after the connection broke", returns(is(driver.ErrUnavailable), until),
			claims(x.told, "a change while disconnected is told", "a change after a reconnect is told",
				"a change after a restart is told", "a change that was compacted away is told")...)
		add("takes a broken connection for a change", returns(is(driver.ErrUnavailable), change),
			claims(x.lost, "a broken connection or a restart is no change")...)
		add("takes the end of its context for a change",
			returns(func(_ error, ctx context.Context) bool { return ctx.Err() != nil }, change),
			claims(x.over, "it ends with its context's error")...)
		add("goes on when its session is over", returns(is(driver.ErrSessionLost, driver.ErrGone), until),
			claims(x.lost, "it ends when its own session is lost", "it ends when its own session is closed")...)
		add("stays at the service when it is given up", stays,
			claims(x.over, "one that was given up leaves at most one watch")...)
		add("shares the context of the first", sharing(),
			claims(x.told, "all are told, though one gives up")...)
	}
	return all
}

// ends are the cases in which the wait has to end.
func (x wait) ends(claims func(clause string, claims ...string) []string) (all []string) {
	for _, w := range changes {
		all = append(all, claims(x.told, w.what+" is told")...)
	}
	if x.change == nil {
		for _, w := range waysOut {
			all = append(all, claims(x.told, w.what+" is told")...)
		}
	}
	return append(all, claims(x.told, "a change at the time of the call is told")...)
}

// stays goes on waiting at the service when its caller has gone.
func stays(ctx context.Context, intact func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- intact(context.WithoutCancel(ctx)) }() // ends with the driver
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sharing lets one wait at the service do for all of a session.
func sharing() func(context.Context, func(context.Context) error) error {
	type shared struct {
		done chan struct{}
		err  error
	}
	var mu sync.Mutex
	var first *shared
	return func(ctx context.Context, intact func(context.Context) error) error {
		mu.Lock()
		w := first
		if w != nil {
			mu.Unlock()
			select {
			case <-w.done:
				return w.err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		w = &shared{done: make(chan struct{})}
		first = w
		mu.Unlock()
		w.err = intact(ctx)
		mu.Lock()
		first = nil
		mu.Unlock()
		close(w.done)
		return w.err
	}
}
