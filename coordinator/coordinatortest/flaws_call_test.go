package coordinatortest

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// endless is a driver whose Close waits for ever when its session was cut off.
type endless struct {
	driver.Driver
	closed chan struct{}
}

// Close ignores ctx until it is called a second time, by the clean-up of the suite.
func (d *endless) Close(ctx context.Context) error {
	select {
	case <-d.closed:
		return d.Driver.Close(ctx)
	default:
		close(d.closed)
		time.Sleep(11 * time.Second) // longer than the patience of a case, shorter than that of its clean-up
		return nil
	}
}

func callFlaws() []flaw {
	const ends = "G2/calls end with their context while nothing passes"
	never := context.Background()
	flaws := []flaw{
		{
			name: "errors say nothing", finds: []string{"G3/every error is classified"},
			session: func(_ *world, s *patched) {
				s.leave = func(ctx context.Context, queue driver.Queue, own driver.Place) error {
					return opaque(s.session.Leave(ctx, queue, own))
				}
			},
		},
		{
			name: "Driver.Open ignores its context", finds: []string{ends},
			driver: func(_ *world, d *patchedDriver) {
				d.open = func(_ context.Context, ttl time.Duration) (driver.Session, error) { return d.Driver.Open(never, ttl) }
			},
		},
		{
			name: "Driver.Close ignores its context", finds: []string{ends},
			driver: func(_ *world, d *patchedDriver) {
				d.Driver = &endless{Driver: d.Driver, closed: make(chan struct{})}
			},
		},
	}
	for name, deaf := range deafMethods(never) {
		flaws = append(flaws, flaw{
			name: name + " ignores its context", finds: []string{ends},
			session: func(_ *world, s *patched) { deaf(s) },
		})
	}
	return flaws
}

// deafMethods make one method of a session ignore its context.
func deafMethods(never context.Context) map[string]func(s *patched) {
	return map[string]func(s *patched){
		"Renew": func(s *patched) {
			s.renew = func(context.Context) error { return s.session.Renew(never) }
		},
		"Join": func(s *patched) {
			s.join = func(_ context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
				return s.session.Join(never, queue, c)
			}
		},
		"Ahead": func(s *patched) {
			s.ahead = func(_ context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
				return s.session.Ahead(never, queue, own)
			}
		},
		"Watch": func(s *patched) {
			s.watch = func(_ context.Context, queue driver.Queue, places []driver.Place) error {
				return s.session.Watch(never, queue, places...)
			}
		},
		"Follow": func(s *patched) {
			s.follow = func(_ context.Context, queue driver.Queue, own, ahead driver.Place) (bool, error) {
				return s.session.Follow(never, queue, own, ahead)
			}
		},
		"Convert": func(s *patched) {
			s.convert = func(_ context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
				return s.session.Convert(never, queue, own, mode, value)
			}
		},
		"Write": func(s *patched) {
			s.write = func(_ context.Context, queue driver.Queue, own driver.Place, value []byte) error {
				return s.session.Write(never, queue, own, value)
			}
		},
		"Head": func(s *patched) {
			s.head = func(_ context.Context, queue driver.Queue, known driver.Version) (driver.Head, error) {
				return s.session.Head(never, queue, known)
			}
		},
		"Record": func(s *patched) {
			s.record = func(_ context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
				return s.session.Record(never, queue, known)
			}
		},
		"SetRecord": func(s *patched) {
			s.setRecord = func(_ context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
				return s.session.SetRecord(never, queue, value, known)
			}
		},
		"Leave": func(s *patched) {
			s.leave = func(_ context.Context, queue driver.Queue, own driver.Place) error {
				return s.session.Leave(never, queue, own)
			}
		},
		"Pass": func(s *patched) {
			s.pass = func(_ context.Context, queue driver.Queue, own driver.Place) error {
				return s.session.Pass(never, queue, own)
			}
		},
		"Forget": func(s *patched) {
			s.forget = func(_ context.Context, queue driver.Queue, id string) error {
				return s.session.Forget(never, queue, id)
			}
		},
		"Check": func(s *patched) {
			s.check = func(_ context.Context, queue driver.Queue, key string, token driver.Token) error {
				return s.session.Check(never, queue, key, token)
			}
		},
		"List": func(s *patched) {
			s.list = func(_ context.Context, queue driver.Queue, limit int) ([]driver.Entry, error) {
				return s.session.List(never, queue, limit)
			}
		},
		"Session.Close": func(s *patched) {
			s.close = func(context.Context) error { return s.session.Close(never) }
		},
	}
}
