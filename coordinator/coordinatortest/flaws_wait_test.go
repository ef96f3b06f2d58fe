package coordinatortest

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

type watchFunc = func(ctx context.Context, queue driver.Queue, places []driver.Place) error

// watched replaces Watch by a function that gets the intact one.
func watched(broken func(w *world, s *patched, intact watchFunc) watchFunc) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.watch = broken(w, s, func(ctx context.Context, queue driver.Queue, places []driver.Place) error {
			return s.session.Watch(ctx, queue, places...)
		})
	}
}

// mapped changes the outcome of Watch.
func mapped(change func(ctx context.Context, err error) error) func(*world, *patched) {
	return watched(func(_ *world, _ *patched, intact watchFunc) watchFunc {
		return func(ctx context.Context, queue driver.Queue, places []driver.Place) error {
			return change(ctx, intact(ctx, queue, places))
		}
	})
}

func watchFlaws() []flaw {
	return append(wakeFlaws(),
		flaw{
			name: "wake-ups are lost", finds: names(leavingCases),
			session: mapped(func(ctx context.Context, err error) error {
				if err == nil {
					return until(ctx)
				}
				return err
			}),
		},
		flaw{
			name: "watch does not come back after the connection broke",
			finds: []string{
				"W1/a leaving while disconnected is told", "W1/a leaving after a reconnect is told",
				"W1/a leaving after a restart is told", "W1/a leaving that was compacted away is told",
			},
			session: mapped(func(ctx context.Context, err error) error {
				if errors.Is(err, driver.ErrUnavailable) {
					return until(ctx)
				}
				return err
			}),
		},
		flaw{
			name:  "watch takes a broken connection for a leaving",
			finds: []string{"W2/a broken connection is no leaving", "W2/a restart is no leaving"},
			session: mapped(func(_ context.Context, err error) error {
				if errors.Is(err, driver.ErrUnavailable) {
					return nil
				}
				return err
			}),
		},
		flaw{
			name:  "watch takes the end of its context for a leaving",
			finds: []string{"W3/a watch ends with its context's error"},
			session: mapped(func(ctx context.Context, err error) error {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}),
		},
		flaw{
			name: "watch goes on when its session is over",
			finds: []string{
				"W4/a watch ends when its own session is lost", "W4/a watch ends when its own session is closed",
			},
			session: mapped(func(ctx context.Context, err error) error {
				if errors.Is(err, driver.ErrSessionLost) {
					return until(ctx)
				}
				return err
			}),
		},
	)
}
