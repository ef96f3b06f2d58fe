package coordinatortest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// convertedFlaws are wrong about what can be converted, and about what was.
func convertedFlaws() []flaw {
	return []flaw{
		{
			name: "conversion makes what is not there",
			finds: []string{
				"M3/Convert of a place that is gone changes nothing", "M3,M4/a leave or forget at the time of a conversion",
			},
			session: converted(func(_ *world, s *patched, intact convertFunc) convertFunc { return convertOrJoin(s, intact) }),
		},
		{
			name:  "conversion goes by ID",
			finds: []string{"M3/Convert of a place that is gone changes nothing", "M3/Convert spares the same id joined later"},
			session: converted(func(w *world, _ *patched, intact convertFunc) convertFunc {
				return func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
					if x, there := w.standing(queue, own.Place.ID); there {
						own.Place, own.Token = x.Place, x.Token
					}
					return intact(ctx, queue, own, mode, value)
				}
			}),
		},
		{
			name:    "conversion goes by key alone",
			finds:   []string{"M3/Convert of a foreign place changes nothing"},
			session: converted(func(w *world, s *patched, intact convertFunc) convertFunc { return convertByKey(w, s, intact) }),
		},
		{
			name: "a repeated conversion finds nothing",
			finds: []string{
				"M3/a conversion may be repeated after a lost reply", "M3/a conversion that was given up may be repeated",
			},
			session: converted(func(w *world, _ *patched, intact convertFunc) convertFunc { return convertOnce(w, intact) }),
		},
		{
			name: "a conversion that failed is made later",
			finds: []string{
				"M4/a late Convert makes nothing after a forget", "M4/a late Convert makes nothing after a leave",
				"M4/a late Convert makes nothing after a deletion", "M4/a late Convert makes nothing after conversions",
				"M4/a late Convert makes nothing after a join of the same id",
			},
			session: converted(func(w *world, s *patched, intact convertFunc) convertFunc { return convertLater(w, s, intact) }),
		},
		{
			name:  "joining again looks for the mode, too",
			finds: []string{"J6/a converted entry is a contender to those who join"},
			session: func(w *world, s *patched) {
				s.join = func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
					if x, there := w.standing(queue, c.ID); there && x.Mode != c.Mode {
						c.ID = newID()
					}
					return s.session.Join(ctx, queue, c)
				}
			},
		},
		{
			name:    "converted entries do not count",
			finds:   []string{"J6/a converted entry is a contender to those who join"},
			session: func(w *world, s *patched) { s.join = countUnconverted(w, s) },
		},
	}
}

// convertOnce does not know its own work again. Its replies are slow.
func convertOnce(w *world, intact convertFunc) convertFunc {
	return func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		if x, there := w.standing(queue, own.Place.ID); there && x.Key != own.Place.Key {
			return driver.Place{}, driver.ErrGone
		}
		place, err := intact(ctx, queue, own, mode, value)
		if !sleep(ctx, 5*time.Millisecond) {
			return driver.Place{}, ctx.Err()
		}
		return place, err
	}
}

func convertOrJoin(s *patched, intact convertFunc) convertFunc {
	return func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		place, err := intact(ctx, queue, own, mode, value)
		if errors.Is(err, driver.ErrGone) {
			var j driver.Joined
			j, err = s.session.Join(ctx, queue, driver.Contender{ID: own.Place.ID, Mode: mode, Value: value})
			place = j.Place
		}
		return place, err
	}
}

// convertByKey converts for whomever the entry belongs to.
func convertByKey(w *world, s *patched, intact convertFunc) convertFunc {
	w.open.Store(s.ID(), s.session)
	return func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		for _, x := range w.svc.Snapshot(queue) {
			if owner, ok := w.open.Load(x.Session); ok && x.Key == own.Place.Key {
				return owner.(session).Convert(ctx, queue, driver.Joined{Place: x.Place, Token: x.Token}, mode, value)
			}
		}
		return intact(ctx, queue, own, mode, value)
	}
}

func convertLater(w *world, s *patched, intact convertFunc) convertFunc {
	return func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		place, err := intact(ctx, queue, own, mode, value)
		later(err, func(ctx context.Context) {
			if x, there := w.standing(queue, own.Place.ID); there {
				_, _ = intact(ctx, queue, driver.Joined{Place: x.Place, Token: x.Token}, mode, value)
			} else {
				_, _ = s.session.Join(ctx, queue, driver.Contender{ID: own.Place.ID, Mode: mode, Value: value})
			}
		})
		return place, err
	}
}

// countUnconverted takes a queue for empty that has converted entries only.
func countUnconverted(w *world, s *patched) joinFunc {
	return func(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
		empty := !slices.ContainsFunc(w.svc.Snapshot(queue), func(x driver.Entry) bool { return x.Mode == "x" })
		c.Alone = c.Alone && !empty
		j, err := s.session.Join(ctx, queue, c)
		j.First = j.First || empty && err == nil
		return j, err
	}
}
