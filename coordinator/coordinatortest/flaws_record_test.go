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

const recordStates = "Version,Record/each state has its own"

func recordFlaws() []flaw {
	r := reader[driver.Record]{
		read:    func(s session) readFunc[driver.Record] { return s.Record },
		patch:   func(s *patched, broken readFunc[driver.Record]) { s.record = broken },
		version: func(x driver.Record) driver.Version { return x.Version },
		changes: []string{"Record,D2/Record: a wait for the first state leaves at most one watch"},
		any:     []string{"Record,D2/Record: a wait for the first state leaves at most one watch"},
		passed:  []string{recordStates},
		fresh:   []string{recordStates},
		quiet:   []string{"Record/Record: others who come and go wake nobody"},
		many:    []string{"D1/Record: the last of many changes is never missed, and none goes back"},
		nothing: []string{"Record,D2/Record: a wait for the first state leaves at most one watch"},
	}
	return append(r.flaws("record"),
		flaw{
			name: "a record goes with the session that wrote it", finds: []string{"D4/a record stays when all are gone"},
			session: func(w *world, s *patched) { s.record, s.setRecord = tied(w, s) },
		},
		flaw{
			name: "a record stands in the queue", finds: []string{"D4/a queue with a record and nobody in it is empty"},
			session: set(func(w *world, _ *patched, intact setRecordFunc) setRecordFunc {
				return func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
					version, err := intact(ctx, queue, value, known)
					if err == nil && known == 0 {
						w.svc.AddForeign(queue)
					}
					return version, err
				}
			}),
		})
}

// tied shows a record for as long as its writer's session lives.
func tied(w *world, s *patched) (recordFunc, setRecordFunc) {
	record := func(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
		r, err := s.session.Record(ctx, queue, known)
		if writer, ok := w.open.Load(queue); ok && !slices.Contains(w.svc.Sessions(), writer.(string)) {
			r = driver.Record{}
		}
		return r, err
	}
	setRecord := func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
		version, err := s.session.SetRecord(ctx, queue, value, known)
		if err == nil {
			w.open.Store(queue, s.ID())
		}
		return version, err
	}
	return record, setRecord
}

// set replaces SetRecord by a function that gets the intact one.
func set(broken func(w *world, s *patched, intact setRecordFunc) setRecordFunc) func(*world, *patched) {
	return func(w *world, s *patched) { s.setRecord = broken(w, s, s.session.SetRecord) }
}

func setRecordFlaws() []flaw {
	return []flaw{
		{
			name: "records are text", finds: []string{"SetRecord/writes any bytes of the right size"},
			session: set(func(_ *world, _ *patched, intact setRecordFunc) setRecordFunc {
				return func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
					return intact(ctx, queue, bytes.ToValidUTF8(value, []byte("?")), known)
				}
			}),
		},
		{
			name: "records are cut to size", finds: []string{"SetRecord/writes any bytes of the right size"},
			session: set(func(_ *world, _ *patched, intact setRecordFunc) setRecordFunc {
				return func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
					return intact(ctx, queue, append(bytes.Clone(value[:min(len(value), 1<<10)]), '.'), known)
				}
			}),
		},
		{
			name: "versions are made of values", finds: []string{recordStates},
			session: set(func(_ *world, _ *patched, intact setRecordFunc) setRecordFunc { return sums(intact) }),
		},
		{
			name: "versions are not compared", finds: []string{"D3/another version writes nothing", "D3/of several at once exactly one writes"},
			session: set(func(w *world, _ *patched, intact setRecordFunc) setRecordFunc {
				return func(ctx context.Context, queue driver.Queue, value []byte, _ driver.Version) (driver.Version, error) {
					return intact(ctx, queue, value, w.svc.Record(queue).Version)
				}
			}),
		},
		{
			name: "versions are compared before writing",
			finds: []string{
				"D3/of several at once exactly one writes", "G1/many goroutines convert, write and count",
			},
			session: set(func(w *world, _ *patched, intact setRecordFunc) setRecordFunc { return lookAndSet(w, intact) }),
		},
		{
			name: "a record that was not answered is taken back", finds: []string{"D3/a write may be repeated after a lost reply"},
			session: set(func(w *world, _ *patched, intact setRecordFunc) setRecordFunc {
				return func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
					before := w.svc.Record(queue)
					version, err := intact(ctx, queue, value, known)
					if errors.Is(err, driver.ErrUnavailable) {
						_, _ = w.seer().SetRecord(ctx, queue, before.Value, w.svc.Record(queue).Version)
					}
					return version, err
				}
			}),
		},
		{
			name: "a record that was not answered is written later", finds: []string{"D3/a late write does not overwrite a later one"},
			session: set(func(w *world, _ *patched, intact setRecordFunc) setRecordFunc {
				return func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
					version, err := intact(ctx, queue, value, known)
					later(err, func(ctx context.Context) { _, _ = intact(ctx, queue, value, w.svc.Record(queue).Version) })
					return version, err
				}
			}),
		},
	}
}

// sums gives a record the version that it had when it had that value before.
func sums(intact setRecordFunc) setRecordFunc {
	var mu sync.Mutex
	actual := map[driver.Version]driver.Version{}
	return func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
		mu.Lock()
		defer mu.Unlock()
		version, err := intact(ctx, queue, value, actual[known])
		sum := driver.Version(crc32.ChecksumIEEE(value))
		actual[sum] = version
		return sum, err
	}
}

func lookAndSet(w *world, intact setRecordFunc) setRecordFunc {
	return func(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
		if w.svc.Record(queue).Version != known {
			return 0, driver.ErrStale
		}
		time.Sleep(time.Millisecond) // the round trip of the look
		return intact(ctx, queue, value, w.svc.Record(queue).Version)
	}
}
