package coordinatortest

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// followed replaces Follow of a session.
func followed(
	broken func(ctx context.Context, w *world, s session, queue driver.Queue, own, ahead driver.Place) (bool, error),
) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.follow = func(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (bool, error) {
			return broken(ctx, w, s.session, queue, own, ahead)
		}
	}
}

// nearer changes Nearest of a Join.
func nearer(which func(all []driver.Place) driver.Place) func(*world, *patched) {
	return joined(func(w *world, queue driver.Queue, c driver.Contender, j *driver.Joined) {
		if c.Follows {
			j.Nearest = which(w.places(queue))
		}
	})
}

func followFlaws() []flaw {
	nearest := []string{"J8/nearest is the contender that joined before", "J8/nearest with Alone and Record is the contender that joined before"}
	return []flaw{
		{
			name: "nearest is the first in the queue", finds: nearest,
			session: nearer(func(all []driver.Place) driver.Place { return all[0] }),
		},
		{
			name: "nearest is the last in the queue, even its own", finds: nearest,
			session: nearer(func(all []driver.Place) driver.Place { return all[len(all)-1] }),
		},
		{
			name: "follow watches later changes only", finds: []string{"N1/a queue is passed on after a waiter has left"},
			session: followed(func(ctx context.Context, w *world, s session, queue driver.Queue, own, ahead driver.Place) (bool, error) {
				if _, there := w.queued(queue, ahead.ID); !there {
					return false, until(ctx)
				}
				return s.Follow(ctx, queue, own, ahead)
			}),
		},
		{
			name: "a follower watches all entries ahead", finds: []string{"W2,N3/a pass wakes only the follower"},
			session: followed(watchAhead),
		},
		{
			name:  "a follower watches the whole queue",
			finds: []string{"W2/Follow: other contenders end no wait"},
			session: followed(func(ctx context.Context, w *world, s session, queue driver.Queue, _, ahead driver.Place) (bool, error) {
				return false, watchAll(ctx, w, queue, []driver.Place{ahead}, s.Watch)
			}),
		},
		{
			name: "every leaving is a pass",
			finds: []string{
				"N1/a queue is passed on after a waiter has left", "N1/a conversion is no pass", "N1/an earlier pass of the same session is no pass",
				"N1/a pass of nothing is no pass", "G1/many goroutines follow, pass and cancel", "W1/Follow: a leave ends the wait",
			},
			session: followed(func(ctx context.Context, _ *world, s session, queue driver.Queue, own, ahead driver.Place) (bool, error) {
				_, err := s.Follow(ctx, queue, own, ahead)
				return err == nil, err
			}),
		},
		{
			name: "follow does not watch its own entry",
			finds: []string{
				"N2/the removal of its own entry ends a wait",
				"N2/the removal of an entry ends the waits of its session alone",
				"N2/a converted entry follows none",
			},
			session: func(_ *world, s *patched) { s.ownWatched = true },
		},
		{
			name:  "a removal ends all waits of its session",
			finds: []string{"N2/the removal of an entry ends the waits of its session alone"},
			session: followed(func(ctx context.Context, w *world, s session, queue driver.Queue, own, ahead driver.Place) (bool, error) {
				most := 0
				return false, whole(ctx, w, s.Watch, queue, func() bool {
					n, there := 0, false
					for _, p := range w.places(queue) {
						there = there || p.ID == ahead.ID
						if p.Session == own.Session {
							n++
						}
					}
					most = max(most, n)
					return n < most || !there
				})
			}),
		},
		{
			name: "the marker of a pass is for the session", finds: []string{"N1/an earlier pass of the same session is no pass"},
			session: marks(func(own driver.Place) string { return own.Session }),
		},
		{
			name: "a pass of no entry leaves a marker", finds: []string{"N1/a pass of nothing is no pass"},
			session: marks(func(own driver.Place) string { return own.Key }),
		},
		{
			name: "the marker of a pass is an entry", finds: []string{"N3/the marker of a pass is no contender"},
			session: passes.broken(func(w *world, s *patched, a act) error {
				err := a.intact(s)
				w.svc.AddForeign(a.queue)
				return err
			}),
		},
		{
			name: "a pass writes the record", finds: []string{"W2,N3/a pass wakes only the follower"},
			session: passes.broken(func(_ *world, s *patched, a act) error {
				later(driver.ErrUnavailable, func(ctx context.Context) { _, _ = s.session.SetRecord(ctx, a.queue, []byte("passed"), 0) })
				return a.intact(s)
			}),
		},
	}
}

// marks keeps its own markers of passes.
func marks(of func(own driver.Place) string) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.pass = func(ctx context.Context, queue driver.Queue, own driver.Place) error {
			w.open.Store(of(own), true)
			return s.session.Pass(ctx, queue, own)
		}
		s.follow = func(ctx context.Context, queue driver.Queue, own, ahead driver.Place) (bool, error) {
			_, err := s.session.Follow(ctx, queue, own, ahead)
			_, passed := w.open.Load(of(ahead))
			return passed && err == nil, err
		}
	}
}

// watchAhead reads the queue whenever a contender ahead leaves.
func watchAhead(ctx context.Context, w *world, s session, queue driver.Queue, own, ahead driver.Place) (bool, error) {
	for {
		view, err := s.Ahead(ctx, queue, own)
		if _, there := w.queued(queue, ahead.ID); err != nil || !there {
			return false, err
		}
		if err := s.Watch(ctx, queue, view.Ahead...); err != nil {
			return false, err
		}
	}
}
