package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

func sessionFlaws() []flaw {
	const ids = "O3,TTL/sessions have new ids and the requested ttl"
	return []flaw{
		{
			name: "slack is hidden", opts: []memory.Option{memory.WithSlack(testTTL / 4)},
			finds:   []string{"O1/a session lives for its ttl after open", "O1/a session lives for its ttl after a renewal"},
			session: func(_ *world, s *patched) { s.slack = 0 },
		},
		{
			name: "external sessions are not renewed", finds: []string{"O1/an external session lives for its ttl after open"},
			driver: func(w *world, _ *patchedDriver) { w.stale = true },
		},
		{
			name: "renewals send nothing", finds: []string{"R1/a renewal without the service fails", "O1/a renewed session stays alive"},
			session: func(_ *world, s *patched) { s.renew = func(context.Context) error { return nil } },
		},
		{
			name: "renewals ignore the end of the session", finds: []string{"R2/an ended session stays ended", "Done/is closed after the session ends"},
			session: func(_ *world, s *patched) {
				s.renew = func(ctx context.Context) error {
					if err := s.session.Renew(ctx); !errors.Is(err, driver.ErrSessionLost) {
						return err
					}
					return nil
				}
			},
		},
		{
			name: "a session that is over still lists", finds: []string{"R2/an ended session stays ended", "R2/a closed session stays closed"},
			session: func(w *world, s *patched) {
				s.list = func(_ context.Context, queue driver.Queue, _ int) ([]driver.Entry, error) {
					return w.svc.Snapshot(queue), nil
				}
			},
		},
		{
			name: "done stays open", finds: []string{"Done/is closed after the session ends"},
			session: func(_ *world, s *patched) { s.done = make(chan struct{}) },
		},
		{
			name: "close leaves entries", finds: []string{"C1/after close all entries are gone at once", "C2/close ends without the service"},
			session: func(_ *world, s *patched) { s.close = func(context.Context) error { return nil } },
		},
		{
			name: "close works once", finds: []string{"C2/close succeeds after it has failed"},
			session: func(_ *world, s *patched) {
				var once sync.Once
				s.close = func(ctx context.Context) (err error) {
					once.Do(func() { err = s.session.Close(ctx) })
					return err
				}
			},
		},
		{
			name: "close deletes entries and lets the session expire",
			finds: []string{
				"C1/a join under way is not applied after close", "C1/requests under way are not applied after close",
			},
			session: func(w *world, s *patched) {
				s.close = func(context.Context) error {
					for _, queue := range w.svc.Queues() {
						w.removeAll(queue, s.ID())
					}
					return nil
				}
			},
		},
		{
			name: "TTL is not the granted one", finds: []string{ids},
			session: func(_ *world, s *patched) { s.ttl = time.Hour },
		},
		{
			name: "session ids repeat", finds: []string{ids},
			session: func(_ *world, s *patched) { s.id = "1f" },
		},
	}
}

// opened replaces Open.
func opened(open func(ctx context.Context, d driver.Driver, ttl time.Duration) (driver.Session, error)) func(*world, *patchedDriver) {
	return func(_ *world, d *patchedDriver) {
		d.open = func(ctx context.Context, ttl time.Duration) (driver.Session, error) { return open(ctx, d.Driver, ttl) }
	}
}

func openFlaws() []flaw {
	const refused = "O2/a ttl that is not granted is refused"
	return []flaw{
		{
			name: "sessions outlive their ttl",
			finds: []string{
				"O1/a session lives for its ttl after open", "O4/an open whose reply was lost leaves nothing",
				"W1/a session that expires ends the wait",
			},
			driver: opened(func(ctx context.Context, d driver.Driver, ttl time.Duration) (driver.Session, error) {
				s, err := d.Open(ctx, 100*ttl)
				if err != nil {
					return nil, err
				}
				p := newPatched(s)
				p.ttl = ttl
				return p, nil
			}),
		},
		{
			name: "an odd ttl is rounded in silence", finds: []string{refused},
			driver: opened(func(ctx context.Context, d driver.Driver, ttl time.Duration) (driver.Session, error) {
				return d.Open(ctx, max(ttl, time.Second))
			}),
		},
		{
			name: "an odd ttl is refused without the granted one", finds: []string{refused},
			driver: opened(func(ctx context.Context, d driver.Driver, ttl time.Duration) (driver.Session, error) {
				s, err := d.Open(ctx, ttl)
				if errors.Is(err, driver.ErrInvalid) {
					err = driver.ErrInvalid
				}
				return s, err
			}),
		},
		{
			name: "an odd ttl is refused and leaves a session", finds: []string{refused},
			driver: opened(func(ctx context.Context, d driver.Driver, ttl time.Duration) (driver.Session, error) {
				s, err := d.Open(ctx, max(ttl, time.Second))
				if err == nil && s.TTL() != ttl {
					return nil, fmt.Errorf("%w: a ttl of %v, where %v is granted", driver.ErrInvalid, ttl, s.TTL())
				}
				return s, err
			}),
		},
	}
}
