package coordinatortest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

func convertFlaws() []flaw {
	const key = "M1/a converted entry has a new key and a view at once"
	return []flaw{
		{
			name: "conversion takes two steps, and joins again",
			finds: []string{
				"M1/a conversion keeps id, session, token and order", "J1/tokens rise over a restart",
				"M1/a view shows the old entry or the new one", showsLatest,
				"M3,M4/a leave or forget at the time of a conversion", "G1/many goroutines convert, write and count",
			},
			session: func(w *world, s *patched) { madeAnew(w, s, s.session) },
		},
		{
			name:    "a converted entry belongs to another session",
			finds:   []string{"W1/an ended session of a converted and written entry ends the wait", "W1/a close of a converted and written entry ends the wait"},
			session: func(w *world, s *patched) { madeAnew(w, s, w.observer()) },
		},
		{name: "views are a union of two views", finds: []string{"M1/a view shows the old entry or the new one"}, session: aheadTwice},
		{name: "a converted place is seen late", finds: []string{key}, session: unseen},
		{name: "keys are made of ID and mode", finds: []string{key}, session: modeKeys},
		{
			name: "conversions do not end a watch", finds: []string{"M2/the old place has left", "M2/the old place has left while disconnected"},
			session: watchByID,
		},
		{
			name:    "a repeated conversion finds nothing",
			finds:   []string{"M3/a conversion may be repeated after a lost reply", "M3/a cancelled conversion may be repeated"},
			session: convertOnce,
		},
		{
			name: "joining again compares the mode", finds: []string{"J6/a converted entry counts for joins"},
			session: asked(func(w *world, queue driver.Queue, c *driver.Contender) error {
				if x, there := w.queued(queue, c.ID); there && x.Mode != c.Mode {
					c.ID = newID()
				}
				return nil
			}),
		},
		{
			name: "joins ignore converted entries", finds: []string{"J6/a converted entry counts for joins"},
			session: func(w *world, s *patched) {
				s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
					empty := !slices.ContainsFunc(w.svc.Snapshot(queue), func(x driver.Entry) bool { return x.Mode == "x" })
					c.Alone = c.Alone && !empty
					j, err := s.session.Join(ctx, queue, c)
					j.First = j.First || empty && err == nil
					return j, err
				}
			},
		},
	}
}

// madeAnew removes the old entry, and a little later makes the new one on a
// session.
func madeAnew(w *world, s *patched, by driver.Session) {
	s.convert = func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		if err := remove(w, queue, own.Place.Key); err != nil {
			return driver.Place{}, err
		}
		time.Sleep(time.Millisecond)
		j, err := by.Join(ctx, queue, driver.Contender{ID: own.Place.ID, Mode: mode, Value: value})
		j.Place.Session = s.ID()
		return j.Place, err
	}
}

// aheadTwice returns the union of two views.
func aheadTwice(_ *world, s *patched) {
	s.ahead = func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
		one, err := s.session.Ahead(ctx, queue, own)
		if err != nil {
			return one, err
		}
		sleep(ctx, time.Millisecond)
		two, err := s.session.Ahead(ctx, queue, own)
		for _, p := range two.Ahead {
			if !slices.Contains(one.Ahead, p) {
				one.Ahead = append(one.Ahead, p)
			}
		}
		return one, err
	}
}

// unseen reads a replica that applies conversions late.
func unseen(_ *world, s *patched) {
	var made sync.Map // when, by key
	s.convert = func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		place, err := s.session.Convert(ctx, queue, own, mode, value)
		made.Store(place.Key, time.Now())
		return place, err
	}
	s.ahead = func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
		if at, known := made.Load(own.Key); known && time.Since(at.(time.Time)) <= time.Millisecond {
			return driver.View{}, driver.ErrGone
		}
		return s.session.Ahead(ctx, queue, own)
	}
}

// watchByID waits until contenders have left, and ignores conversions.
func watchByID(w *world, s *patched) {
	s.watch = func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
		places = slices.Clone(places)
		for {
			if err := s.session.Watch(ctx, queue, places...); err != nil {
				return err
			}
			for i, p := range places {
				x, there := w.queued(queue, p.ID)
				if !there {
					return nil
				}
				places[i] = x.Place
			}
		}
	}
}

// modeKeys makes keys of ID and mode.
func modeKeys(_ *world, s *patched) {
	actual := map[string]driver.Place{}
	s.convert = func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		if p, known := actual[own.Place.Key]; known {
			own.Place = p
		}
		place, err := s.session.Convert(ctx, queue, own, mode, value)
		made := place
		made.Key = place.ID + "-" + mode
		actual[made.Key] = place
		return made, err
	}
}

// convertOnce does not find the result of an earlier call. Its replies are
// slow.
func convertOnce(w *world, s *patched) {
	s.convert = func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		if x, there := w.queued(queue, own.Place.ID); there && x.Key != own.Place.Key {
			return driver.Place{}, driver.ErrGone
		}
		place, err := s.session.Convert(ctx, queue, own, mode, value)
		if !sleep(ctx, 5*time.Millisecond) {
			return driver.Place{}, ctx.Err()
		}
		return place, err
	}
}

func writeFlaws() []flaw {
	return []flaw{
		{
			name: "a repeated write finds nothing", finds: []string{"P1/a write may be repeated after a lost reply"},
			session: func(w *world, s *patched) {
				var failed sync.Map // keys with an unknown outcome
				writes.broken(func(_ *world, s *patched, a act) error {
					if _, again := failed.Load(a.own.Place.Key); again {
						return driver.ErrGone
					}
					err := a.intact(s)
					if errors.Is(err, driver.ErrUnavailable) {
						failed.Store(a.own.Place.Key, true)
					}
					return err
				})(w, s)
			},
		},
		{
			name: "a cancelled write is applied late", finds: []string{"P1/a cancelled write does not overwrite a later one"},
			session: func(w *world, s *patched) {
				var calls atomic.Int32 // every second one overtakes the last
				writes.broken(func(_ *world, s *patched, a act) error {
					delay := 5 * time.Millisecond
					if calls.Add(1)%2 == 0 {
						delay = time.Microsecond
					}
					return keepsWaiting(a.ctx, func(ctx context.Context) error {
						time.Sleep(delay)
						a.ctx = ctx
						return a.intact(s)
					})
				})(w, s)
			},
		},
		{
			name: "a written entry belongs to another session",
			finds: []string{
				"W1/an ended session of a converted and written entry ends the wait", "W1/a close of a converted and written entry ends the wait",
			},
			session: func(w *world, s *patched) {
				madeAnew(w, s, w.observer())
				anew := s.convert
				s.convert = s.session.Convert
				s.write = func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
					return errOf(anew(ctx, queue, driver.Joined{Place: own}, own.Mode, value))
				}
			},
		},
		{
			name: "write makes a new entry", finds: []string{"W2/changes of others end no wait", "P1/a write is shown by list and head"},
			session: func(w *world, s *patched) {
				s.write = func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
					x, _ := w.queued(queue, own.ID)
					return errOf(s.session.Convert(ctx, queue, driver.Joined{Place: x.Place, Token: x.Token}, x.Mode+"w", value))
				}
			},
		},
	}
}
