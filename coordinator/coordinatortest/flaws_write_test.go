package coordinatortest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// written replaces Write by a function that gets the intact one.
func written(broken func(w *world, s *patched, intact writeFunc) writeFunc) func(*world, *patched) {
	return func(w *world, s *patched) { s.write = broken(w, s, s.session.Write) }
}

func writeFlaws() []flaw {
	return []flaw{
		{
			name:  "write does nothing",
			finds: []string{"P1/a write is shown by list and head"},
			session: written(func(_ *world, _ *patched, _ writeFunc) writeFunc {
				return func(context.Context, driver.Queue, driver.Place, []byte) error { return nil }
			}),
		},
		{
			name:    "a repeated write finds nothing",
			finds:   []string{"P1/a write may be repeated after a lost reply"},
			session: written(func(_ *world, _ *patched, intact writeFunc) writeFunc { return writeOnce(intact) }),
		},
		{
			name:  "write goes by ID",
			finds: []string{"P2/Write spares the same id joined later"},
			session: written(func(w *world, _ *patched, intact writeFunc) writeFunc {
				return func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
					if x, there := w.standing(queue, own.ID); there {
						own = x.Place
					}
					return intact(ctx, queue, own, value)
				}
			}),
		},
		{
			name:  "write makes what is not there",
			finds: []string{"P2/Write of a place that is gone changes nothing"},
			session: written(func(_ *world, s *patched, intact writeFunc) writeFunc {
				return func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
					err := intact(ctx, queue, own, value)
					if errors.Is(err, driver.ErrGone) {
						_, err = s.session.Join(ctx, queue, driver.Contender{ID: own.ID, Mode: own.Mode, Value: value})
					}
					return err
				}
			}),
		},
	}
}

// lateWriteFlaws are wrong about writes that take long, and about what a write is to others.
func lateWriteFlaws() []flaw {
	return []flaw{
		{
			name:    "write goes by key alone",
			finds:   []string{"P2/Write of a foreign place changes nothing"},
			session: written(func(w *world, s *patched, intact writeFunc) writeFunc { return writeByKey(w, s, intact) }),
		},
		{
			name: "a write that failed is made later",
			finds: []string{
				"P1/a late Write makes nothing after a write",
				"P1/a late Write makes nothing after a deletion",
				"P1/a late Write makes nothing after a leave",
				"P1/a late Write makes nothing after a forget", "P1/a late Write makes nothing after a join of the same id",
				"P1/a late Write makes nothing after conversions",
			},
			session: written(func(w *world, s *patched, intact writeFunc) writeFunc { return writeLater(w, s, intact) }),
		},
		{
			name:    "a write goes on when its caller has gone",
			finds:   []string{"P1/a write that was given up does not overwrite a later one"},
			session: written(func(_ *world, _ *patched, intact writeFunc) writeFunc { return writeOn(intact) }),
		},
		{
			name:    "a written entry belongs to another session",
			finds:   []string{"W1/an ended session of a converted and written entry is told", "W1/a close of a converted and written entry is told"},
			session: written(func(w *world, s *patched, _ writeFunc) writeFunc { return writtenByAnother(w, s) }),
		},
		{
			name:  "write makes a new entry",
			finds: []string{"W2/changes of others wake nobody", "P1/a write is shown by list and head"},
			session: written(func(w *world, s *patched, _ writeFunc) writeFunc {
				return func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
					x, _ := w.standing(queue, own.ID)
					_, err := s.session.Convert(ctx, queue, driver.Joined{Place: x.Place, Token: x.Token}, x.Mode+"w", value)
					return err
				}
			}),
		},
	}
}

// writeOnce compares with what it has written before it knows whether it has.
func writeOnce(intact writeFunc) writeFunc {
	var mu sync.Mutex
	failed := map[string]bool{}
	return func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if failed[own.Key] {
			return driver.ErrGone
		}
		err := intact(ctx, queue, own, value)
		failed[own.Key] = errors.Is(err, driver.ErrUnavailable)
		return err
	}
}

// writeOn sends each write after a while. Every second one overtakes the one before it.
func writeOn(intact writeFunc) writeFunc {
	var calls atomic.Int32
	return func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
		delay := 5 * time.Millisecond
		if calls.Add(1)%2 == 0 {
			delay = time.Microsecond
		}
		sent := make(chan error, 1)
		go func() {
			time.Sleep(delay)
			sent <- intact(context.Background(), queue, own, value)
		}()
		select {
		case err := <-sent:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// writtenByAnother puts the value without the tie to the session that the entry had.
func writtenByAnother(w *world, s *patched) writeFunc {
	convert := ofAnother(w, s)
	return func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
		_, err := convert(ctx, queue, driver.Joined{Place: own}, own.Mode, value)
		return err
	}
}

// writeByKey writes for whomever the entry belongs to.
func writeByKey(w *world, s *patched, intact writeFunc) writeFunc {
	w.open.Store(s.ID(), s.session)
	return func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
		for _, x := range w.svc.Snapshot(queue) {
			if owner, ok := w.open.Load(x.Session); ok && x.Key == own.Key {
				return owner.(session).Write(ctx, queue, x.Place, value)
			}
		}
		return intact(ctx, queue, own, value)
	}
}

func writeLater(w *world, s *patched, intact writeFunc) writeFunc {
	return func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
		err := intact(ctx, queue, own, value)
		later(err, func(ctx context.Context) {
			if x, there := w.standing(queue, own.ID); there {
				_ = intact(ctx, queue, x.Place, value)
			} else {
				_, _ = s.session.Join(ctx, queue, driver.Contender{ID: own.ID, Mode: own.Mode, Value: value})
			}
		})
		return err
	}
}
