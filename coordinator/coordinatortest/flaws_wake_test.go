package coordinatortest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// watched replaces Watch.
func watched(
	broken func(ctx context.Context, w *world, queue driver.Queue, places []driver.Place, intact watchFunc) error,
) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.watch = func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
			return broken(ctx, w, queue, places, s.session.Watch)
		}
	}
}

func wakeFlaws() []flaw {
	const othersEndNoWait = "W2/Watch: other contenders end no wait"
	return []flaw{
		{
			name: "watch misses the leaving of a converted entry", finds: each(changedCases(), func(c testCase) string { return c.name }),
			session: watched(func(ctx context.Context, _ *world, queue driver.Queue, places []driver.Place, intact watchFunc) error {
				if err := intact(ctx, queue, places...); err != nil || places[0].Mode == "x" {
					return err
				}
				return until(ctx)
			}),
		},
		{
			name:  "the end of a session ends no watch",
			finds: []string{"W1/Watch: a close ends the wait", "W1/Watch: an ended session ends the wait", "W1/a session that expires ends the wait"},
			session: watched(func(ctx context.Context, w *world, queue driver.Queue, places []driver.Place, intact watchFunc) error {
				err := intact(ctx, queue, places...)
				if err == nil && !slices.Contains(w.svc.Sessions(), places[0].Session) {
					return until(ctx)
				}
				return err
			}),
		},
		{
			name: "watch sees later changes only", finds: []string{"W1/a place that has left before ends the wait", "L1/Leave removes the entry"},
			session: watched(fromNow),
		},
		{
			name: "watch reads and then registers", finds: []string{"W1/Watch: a change during the call ends the wait"},
			session: watched(func(ctx context.Context, w *world, queue driver.Queue, places []driver.Place, intact watchFunc) error {
				if _, there := w.queued(queue, places[0].ID); !there {
					return nil
				}
				sleep(ctx, 2*time.Millisecond) // a round trip
				return fromNow(ctx, w, queue, places, intact)
			}),
		},
		{
			name: "only the last place is watched", finds: []string{"W1/only a leaving of one of several places ends the wait"},
			session: watched(func(ctx context.Context, _ *world, queue driver.Queue, places []driver.Place, intact watchFunc) error {
				return intact(ctx, queue, places[len(places)-1])
			}),
		},
		{
			name: "a place has only one watcher", finds: []string{"W1/Watch: all waits end, though one was cancelled"},
			session: func(_ *world, s *patched) {
				var taken sync.Map
				s.watch = func(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
					if _, before := taken.LoadOrStore(places[0].Key, true); before {
						return until(ctx)
					}
					return s.session.Watch(ctx, queue, places...)
				}
			},
		},
		{
			name: "watch wakes without a reason", finds: []string{othersEndNoWait},
			session: watched(func(ctx context.Context, _ *world, queue driver.Queue, places []driver.Place, intact watchFunc) error {
				short, cancel := context.WithTimeout(ctx, time.Minute/200)
				defer cancel()
				if err := intact(short, queue, places...); ctx.Err() != nil || short.Err() == nil {
					return err
				}
				return nil
			}),
		},
		{
			name: "watch wakes for anything in the queue", finds: []string{othersEndNoWait, "W2/changes of others end no wait"},
			session: func(w *world, s *patched) { s.watch = watchQueue(w) },
		},
		{
			name: "watch watches the whole queue and filters", finds: []string{othersEndNoWait},
			session: watched(watchAll),
		},
	}
}

// fromNow sees only changes after its registration.
func fromNow(ctx context.Context, w *world, queue driver.Queue, places []driver.Place, intact watchFunc) error {
	for _, p := range places {
		if _, there := w.entry(queue, p.Key); !there {
			return until(ctx)
		}
	}
	return intact(ctx, queue, places...)
}

// watchAll watches the whole queue, and filters at the client.
func watchAll(ctx context.Context, w *world, queue driver.Queue, places []driver.Place, intact watchFunc) error {
	left := func(p driver.Place) bool { _, there := w.queued(queue, p.ID); return !there }
	return whole(ctx, w, intact, queue, func() bool { return slices.ContainsFunc(places, left) })
}

// whole watches a whole queue until is returns true.
func whole(ctx context.Context, w *world, watch watchFunc, queue driver.Queue, is func() bool) error {
	for !is() {
		// Short watches, to include new contenders. The cases sleep whole
		// milliseconds, so no contender leaves between two watches.
		short, cancel := context.WithTimeout(ctx, 1009*time.Microsecond)
		err := watch(short, queue, w.places(queue)...)
		cancel()
		if err != nil && short.Err() == nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}
