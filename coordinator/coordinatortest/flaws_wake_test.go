package coordinatortest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// watched replaces Watch by a function that gets the intact one.
func watched(broken func(w *world, intact watchFunc) watchFunc) func(*world, *patched) {
	return func(w *world, s *patched) { s.watch = broken(w, s.session.Watch) }
}

func wakeFlaws() []flaw {
	const othersWakeNobody = "W2/Watch: others who come and go wake nobody"
	return []flaw{
		{
			name: "watch does not know a converted entry again", finds: names(changedCases()),
			session: watched(func(_ *world, intact watchFunc) watchFunc {
				return func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
					if err := intact(ctx, queue, places...); err != nil || places[0].Mode == "x" {
						return err
					}
					return until(ctx)
				}
			}),
		},
		{
			name:  "only leaves are told",
			finds: []string{"W1/Watch: a close is told", "W1/Watch: an ended session is told", "W1/a session that runs out is told"},
			session: watched(func(w *world, intact watchFunc) watchFunc {
				return func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
					err := intact(ctx, queue, places...)
					if err == nil && !slices.Contains(w.svc.Sessions(), places[0].Session) {
						return until(ctx)
					}
					return err
				}
			}),
		},
		{
			name: "watch does not look first", finds: []string{"W1/a place that is gone already is told", "L1/Leave removes the entry"},
			session: watched(func(w *world, intact watchFunc) watchFunc { return fromNow(w, intact, 0) }),
		},
		{
			name: "watch looks and then registers", finds: []string{"W1/Watch: a change at the time of the call is told"},
			session: watched(func(w *world, intact watchFunc) watchFunc { return fromNow(w, intact, 2*time.Millisecond) }),
		},
		{
			name: "only the last place is watched", finds: []string{"W1/one of several places is told and no other"},
			session: watched(func(_ *world, intact watchFunc) watchFunc {
				return func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
					return intact(ctx, queue, places[len(places)-1])
				}
			}),
		},
		{
			name: "a place has one watcher only", finds: []string{"W1/Watch: all are told, though one gives up"},
			session: watched(func(_ *world, intact watchFunc) watchFunc {
				var taken sync.Map
				return func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
					if _, before := taken.LoadOrStore(places[0].Key, true); before {
						return until(ctx)
					}
					return intact(ctx, queue, places...)
				}
			}),
		},
		{
			name: "watch wakes for nothing", finds: []string{othersWakeNobody},
			session: watched(func(_ *world, intact watchFunc) watchFunc {
				return func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
					short, cancel := context.WithTimeout(ctx, time.Minute/200)
					defer cancel()
					if err := intact(short, queue, places...); ctx.Err() != nil || short.Err() == nil {
						return err
					}
					return nil
				}
			}),
		},
		{
			name: "watch wakes for anything in the queue", finds: []string{othersWakeNobody, "W2/changes of others wake nobody"},
			session: watched(func(w *world, _ watchFunc) watchFunc { return watchQueue(w) }),
		},
		{
			name: "watch is notified of the whole queue and keeps quiet", finds: []string{othersWakeNobody},
			session: watched(watchAll),
		},
	}
}

// fromNow hears of what happens after it was registered, which takes a while.
func fromNow(w *world, intact watchFunc, while time.Duration) watchFunc {
	return func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
		if _, there := w.standing(queue, places[0].ID); while > 0 && !there {
			return nil
		}
		sleep(ctx, while)
		for _, p := range places {
			if _, there := w.entry(queue, p.Key); !there {
				return until(ctx)
			}
		}
		return intact(ctx, queue, places...)
	}
}

// watchAll watches the whole queue, and filters on the client's side.
func watchAll(w *world, intact watchFunc) watchFunc {
	return func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
		left := func(p driver.Place) bool { _, there := w.standing(queue, p.ID); return !there }
		return whole(ctx, w, intact, queue, func() bool { return slices.ContainsFunc(places, left) })
	}
}

// whole watches all of a queue until something is so.
func whole(ctx context.Context, w *world, watch watchFunc, queue driver.Queue, is func() bool) error {
	for !is() {
		short, cancel := context.WithTimeout(ctx, time.Millisecond) // to take in newcomers
		err := watch(short, queue, w.places(queue)...)
		cancel()
		if err != nil && short.Err() == nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}
