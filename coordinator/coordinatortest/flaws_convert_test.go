package coordinatortest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// converted replaces Convert by a function that gets the intact one.
func converted(broken func(w *world, s *patched, intact convertFunc) convertFunc) func(*world, *patched) {
	return func(w *world, s *patched) { s.convert = broken(w, s, s.session.Convert) }
}

// convertFlaws are wrong about what a conversion does.
func convertFlaws() []flaw {
	return []flaw{
		{
			name: "conversion leaves and joins again",
			finds: []string{
				"M1/a conversion keeps id, session, token and order", "J1/tokens rise over a restart",
				"M1/a view shows the old entry or the new one", "S1,V4/a list, a view and the head show what the session has finished",
			},
			session: converted(func(_ *world, s *patched, _ convertFunc) convertFunc { return leaveAndJoin(s) }),
		},
		{
			name: "conversion takes two steps",
			finds: []string{
				"M3,M4/a leave or forget at the time of a conversion", "G1/many goroutines convert, write and count",
				"G1/many goroutines convert, write and count", "M1/a view shows the old entry or the new one",
			},
			session: converted(func(w *world, s *patched, _ convertFunc) convertFunc { return inTwoSteps(w, s) }),
		},
		{
			name:    "views are put together of two",
			finds:   []string{"M1/a view shows the old entry or the new one"},
			session: func(_ *world, s *patched) { s.ahead = aheadTwice(s) },
		},
		{
			name:    "a converted place is not seen at once",
			finds:   []string{"M1/a converted place has a key of its own and a view at once"},
			session: func(_ *world, s *patched) { s.convert, s.ahead = unseen(s) },
		},
		{
			name:    "a converted entry belongs to another session",
			finds:   []string{"W1/an ended session of a converted and written entry is told", "W1/a close of a converted and written entry is told"},
			session: converted(func(w *world, s *patched, _ convertFunc) convertFunc { return ofAnother(w, s) }),
		},
		{
			name:    "watch does not tell of conversions",
			finds:   []string{"M2/the old place has left", "M2/the old place has left while disconnected"},
			session: watched(func(w *world, _ *patched, intact watchFunc) watchFunc { return byID(w, intact) }),
		},
		{
			name:    "keys are made of ID and mode",
			finds:   []string{"M1/a converted place has a key of its own and a view at once"},
			session: converted(func(_ *world, _ *patched, intact convertFunc) convertFunc { return modeKeys(intact) }),
		},
	}
}

func leaveAndJoin(s *patched) convertFunc {
	return func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		if err := s.session.Leave(ctx, queue, own.Place); err != nil {
			return driver.Place{}, err
		}
		j, err := s.session.Join(ctx, queue, driver.Contender{ID: own.Place.ID, Mode: mode, Value: value})
		return j.Place, err
	}
}

// inTwoSteps removes the old entry, and a little later makes the new one.
func inTwoSteps(w *world, s *patched) convertFunc {
	return func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		if err := remove(w, queue, own.Place.Key); err != nil {
			return driver.Place{}, err
		}
		time.Sleep(time.Millisecond)
		j, err := s.session.Join(ctx, queue, driver.Contender{ID: own.Place.ID, Mode: mode, Value: value})
		return j.Place, err
	}
}

// aheadTwice reads two views and shows what is in either.
func aheadTwice(s *patched) func(context.Context, driver.Queue, driver.Place) (driver.View, error) {
	return func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
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

// unseen looks at a replica that hears of conversions a little later.
func unseen(s *patched) (convertFunc, func(context.Context, driver.Queue, driver.Place) (driver.View, error)) {
	var mu sync.Mutex
	made := map[string]time.Time{}
	convert := func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		place, err := s.session.Convert(ctx, queue, own, mode, value)
		mu.Lock()
		defer mu.Unlock()
		made[place.Key] = time.Now()
		return place, err
	}
	ahead := func(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
		mu.Lock()
		seen := time.Since(made[own.Key]) > time.Millisecond
		mu.Unlock()
		if !seen {
			return driver.View{}, driver.ErrGone
		}
		return s.session.Ahead(ctx, queue, own)
	}
	return convert, ahead
}

// ofAnother makes the new entry without the tie to the session that the old one had.
func ofAnother(w *world, s *patched) convertFunc {
	return func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		if err := remove(w, queue, own.Place.Key); err != nil {
			return driver.Place{}, err
		}
		j, err := w.seer().Join(ctx, queue, driver.Contender{ID: own.Place.ID, Mode: mode, Value: value})
		j.Place.Session = s.ID()
		return j.Place, err
	}
}

// byID waits until contenders have left, in whatever mode.
func byID(w *world, intact watchFunc) watchFunc {
	return func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
		places = slices.Clone(places)
		for {
			if err := intact(ctx, queue, places...); err != nil {
				return err
			}
			for i, p := range places {
				x, there := w.standing(queue, p.ID)
				if !there {
					return nil
				}
				places[i] = x.Place
			}
		}
	}
}

// modeKeys gives an entry the key that it had when it was in that mode before.
func modeKeys(intact convertFunc) convertFunc {
	actual := map[string]driver.Place{}
	return func(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
		if p, known := actual[own.Place.Key]; known {
			own.Place = p
		}
		place, err := intact(ctx, queue, own, mode, value)
		made := place
		made.Key = place.ID + "-" + mode
		actual[made.Key] = place
		return made, err
	}
}
