package coordinatortest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
)

// waitFlaws are the flaws that all waits can have.
func waitFlaws() (all []flaw) {
	type waitFunc = func(ctx context.Context, intact func(context.Context) error) error
	for _, x := range []wait{watches, follows, queueWaits, headWaits, recordWaits} {
		add := func(name string, wait waitFunc, finds ...string) {
			all = append(all, flaw{name: x.name + " " + name, finds: finds, session: func(_ *world, s *patched) {
				s.around = func(ctx context.Context, method string, intact func(context.Context) error) error {
					if method != x.name {
						return intact(ctx)
					}
					return wait(ctx, intact)
				}
			}})
		}
		claims := func(clause string, claims ...string) []string {
			return each(claims, func(claim string) string { return clause + "/" + x.name + ": " + claim })
		}
		// instead calls do if the call returns one of some errors.
		instead := func(do func(ctx context.Context) error, of ...error) waitFunc {
			return func(ctx context.Context, intact func(context.Context) error) error {
				err := intact(ctx)
				if slices.ContainsFunc(of, func(wrong error) bool { return errors.Is(err, wrong) }) {
					return do(ctx)
				}
				return err
			}
		}
		change := func(context.Context) error { return nil }

		ended := []string{"a change during the call ends the wait"}
		for _, w := range changes {
			ended = append(ended, w.what+" ends the wait")
		}
		if x.change == nil {
			for _, w := range waysOut {
				ended = append(ended, w.what+" ends the wait")
			}
		}
		add("is not woken", instead(until, nil), claims(x.ends, ended...)...)
		add("does not end after the connection broke", instead(until, driver.ErrUnavailable),
			claims(x.ends, "a change while disconnected ends the wait", "a change after a reconnect ends the wait",
				"a change after a restart ends the wait", "a change that was compacted away ends the wait")...)
		add("returns nil for a broken connection", instead(change, driver.ErrUnavailable),
			claims(x.lost, "a broken connection or a restart is no change")...)
		add("returns nil at the end of its context", instead(change, context.Canceled, context.DeadlineExceeded),
			claims(x.over, "it ends with its context's error")...)
		add("continues when its session is over", instead(until, driver.ErrSessionLost, driver.ErrGone),
			claims(x.lost, "it ends when its own session is lost", "it ends when its own session is closed")...)
		add("stays at the service when it is cancelled", keepsWaiting,
			claims(x.over, "a cancelled wait leaves at most one watch")...)
		all = append(all, flaw{name: x.name + " rests on one server", session: func(w *world, s *patched) {
			s.around = func(ctx context.Context, method string, intact func(context.Context) error) error {
				err := intact(ctx)
				if method == x.name && err == nil && w.stalled.Load() {
					return until(ctx)
				}
				return err
			}
		}, finds: claims("W5", "a server that stops to follow the others does not hold up the wait")})
		add("shares the context of the first", sharing(), claims(x.ends, "all waits end, though one was cancelled")...)
	}
	return all
}

// keepsWaiting waits at the service after its caller has given up.
func keepsWaiting(ctx context.Context, intact func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- intact(context.WithoutCancel(ctx)) }() // ends with the driver
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sharing shares one wait at the service, with the context of the first.
func sharing() func(context.Context, func(context.Context) error) error {
	var shared atomic.Pointer[outcome]
	return func(ctx context.Context, intact func(context.Context) error) error {
		own := &outcome{done: make(chan struct{})}
		if shared.CompareAndSwap(nil, own) {
			own.err = intact(ctx)
			shared.Store(nil)
			close(own.done)
			return own.err
		}
		first := shared.Load()
		if first == nil {
			return intact(ctx)
		}
		select {
		case <-first.done:
			return first.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
