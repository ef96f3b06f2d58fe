package coordinatortest

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

func recordFlaws() []flaw {
	const states, first = "Version,Record/each state has its own", "Record,D2/Record: a wait for the first state leaves at most one watch"
	r := reader[driver.Record]{
		read:    func(s session) readFunc[driver.Record] { return s.Record },
		patch:   func(s *patched, broken readFunc[driver.Record]) { s.record = broken },
		version: func(x driver.Record) driver.Version { return x.Version },
		changes: []string{first},
		any:     []string{first},
		passed:  []string{states},
		fresh:   []string{states},
		quiet:   []string{"Record/Record: other contenders end no wait"},
		many:    []string{"D1/Record: it shows the last of many changes, in order"},
		nothing: []string{first},
	}
	return append(r.flaws("record"),
		flaw{
			name: "a record ends with its writer's session", finds: []string{"D4/a record outlives contenders and sessions"},
			session: tied,
		},
		flaw{
			name: "a record is an entry", finds: []string{"D4/a queue with only a record is empty"},
			session: set(func(w *world, c setting) (driver.Version, error) {
				version, err := c.intact(c.value, c.known)
				if err == nil && c.known == 0 {
					w.svc.AddForeign(c.queue)
				}
				return version, err
			}),
		},
		flaw{name: "versions are made of values", finds: []string{states}, session: sums})
}

// tied shows a record while its writer's session lives.
func tied(w *world, s *patched) {
	s.record = func(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
		r, err := s.session.Record(ctx, queue, known)
		if writer, ok := w.open.Load(queue); ok && !slices.Contains(w.svc.Sessions(), writer.(string)) {
			r = driver.Record{}
		}
		return r, err
	}
	s.setRecord = func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
		version, err := s.session.SetRecord(ctx, queue, value, known)
		if err == nil {
			w.open.Store(queue, s.ID())
		}
		return version, err
	}
}

// sums makes versions of values.
func sums(_ *world, s *patched) {
	var mu sync.Mutex
	actual := map[driver.Version]driver.Version{}
	s.setRecord = func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
		mu.Lock()
		defer mu.Unlock()
		version, err := s.session.SetRecord(ctx, queue, value, actual[known])
		sum := driver.Version(crc32.ChecksumIEEE(value))
		actual[sum] = version
		return sum, err
	}
}

// setting is one SetRecord. now is the current version at the service.
type setting struct {
	ctx        context.Context
	queue      driver.Queue
	value      []byte
	known, now driver.Version
	intact     func(value []byte, known driver.Version) (driver.Version, error)
}

// set replaces SetRecord.
func set(broken func(w *world, c setting) (driver.Version, error)) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.setRecord = func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
			intact := func(value []byte, known driver.Version) (driver.Version, error) {
				return s.session.SetRecord(ctx, queue, value, known)
			}
			return broken(w, setting{ctx, queue, value, known, w.svc.Record(queue).Version, intact})
		}
	}
}

func setRecordFlaws() []flaw {
	const values, atOnce = "SetRecord/writes any bytes of the right size", "D3/exactly one of several concurrent writes succeeds"
	return []flaw{
		{
			name: "records are text", finds: []string{values},
			session: set(func(_ *world, c setting) (driver.Version, error) {
				return c.intact(bytes.ToValidUTF8(c.value, []byte("?")), c.known)
			}),
		},
		{
			name: "records are cut to size", finds: []string{values},
			session: set(func(_ *world, c setting) (driver.Version, error) {
				return c.intact(append(bytes.Clone(c.value[:min(len(c.value), 1<<10)]), '.'), c.known)
			}),
		},
		{
			name: "versions are not compared", finds: []string{"D3/another version writes nothing", atOnce},
			session: set(func(_ *world, c setting) (driver.Version, error) { return c.intact(c.value, c.now) }),
		},
		{
			name: "versions are compared before writing", finds: []string{atOnce, "G1/many goroutines convert, write and count"},
			session: set(func(w *world, c setting) (driver.Version, error) {
				if c.now != c.known {
					return 0, driver.ErrStale
				}
				time.Sleep(time.Millisecond) // the round trip of the read
				return c.intact(c.value, w.svc.Record(c.queue).Version)
			}),
		},
		{
			name: "a write without an answer is undone", finds: []string{"D3/a write may be repeated after a lost reply"},
			session: set(func(w *world, c setting) (driver.Version, error) {
				before := w.svc.Record(c.queue)
				version, err := c.intact(c.value, c.known)
				if errors.Is(err, driver.ErrUnavailable) {
					_, _ = w.observer().SetRecord(c.ctx, c.queue, before.Value, w.svc.Record(c.queue).Version)
				}
				return version, err
			}),
		},
		{
			name: "a write without an answer is repeated later", finds: []string{"D3/a late write does not overwrite a later one"},
			session: set(func(w *world, c setting) (driver.Version, error) {
				version, err := c.intact(c.value, c.known)
				later(err, func(ctx context.Context) {
					_, _ = w.observer().SetRecord(ctx, c.queue, c.value, w.svc.Record(c.queue).Version)
				})
				return version, err
			}),
		},
	}
}
