package coordinatortest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// endless is a driver whose Close does not end with its context.
type endless struct {
	driver.Driver
	closed atomic.Bool
}

// Close ignores ctx, except in the second call, which is that of env.close.
func (d *endless) Close(ctx context.Context) error {
	if d.closed.Swap(true) {
		return d.Driver.Close(ctx)
	}
	time.Sleep(11 * time.Second) // between Patience and that of env.close
	return nil
}

func callFlaws() []flaw {
	const ends = "G2/calls end with their context while the link is held"
	never := context.Background()
	flaws := []flaw{
		{
			name: "errors wrap no sentinel", finds: []string{"G3/every error is classified"},
			session: leaves.broken(func(_ *world, s *patched, a act) error {
				if a.intact(s) != nil {
					return errors.New("failed")
				}
				return nil
			}),
		},
		{
			name: "Driver.Open ignores its context", finds: []string{ends},
			driver: opened(func(_ context.Context, d driver.Driver, ttl time.Duration) (driver.Session, error) {
				return d.Open(never, ttl)
			}),
		},
		{
			name: "Driver.Close ignores its context", finds: []string{ends},
			driver: func(_ *world, d *patchedDriver) { d.Driver = &endless{Driver: d.Driver} },
		},
	}
	for _, broken := range []string{
		"Renew", "Join", "Ahead", "Watch", "Follow", "WatchQueue", "Convert", "Write", "Head of any version",
		"Record of any version", "SetRecord", "Leave", "Pass", "Forget", "Check", "Remove", "Queues", "List", "Close",
	} {
		flaws = append(flaws, flaw{
			name: broken + " ignores its context", finds: []string{ends},
			session: func(_ *world, s *patched) {
				s.around = func(ctx context.Context, method string, intact func(ctx context.Context) error) error {
					if method == broken {
						ctx = never
					}
					return intact(ctx)
				}
			},
		})
	}
	return flaws
}
