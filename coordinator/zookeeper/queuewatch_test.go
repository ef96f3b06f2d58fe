package zookeeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// watchQueue watches the queue "m/a", and returns its size after each change.
func watchQueue(ctx context.Context, s *session) (sizes <-chan int, ended <-chan error) {
	views, over := make(chan int, 100), make(chan error, 1)
	go func() {
		over <- s.WatchQueue(ctx, "m/a", func(places []driver.Place) bool {
			views <- len(places)
			return true
		})
	}()
	return views, over
}

func shows(t *testing.T, sizes <-chan int, want int) {
	t.Helper()
	for {
		select {
		case got := <-sizes:
			if got == want {
				return
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("a queue of %d is not shown", want)
		}
	}
}

// TestQueueWatchListsOnceForEachChange: the request that lists sets the watch,
// and the next WatchQueue reuses the active watch.
func TestQueueWatchListsOnceForEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, s := openTree(t)
		other := openFake(t, f, testTTL)
		first := joinFollowing(t, other, 1)
		lists := f.count(opChildren)
		ctx, cancel := context.WithCancel(t.Context())
		sizes, ended := watchQueue(ctx, s)
		shows(t, sizes, 1)
		second := joinFollowing(t, other, 2)
		shows(t, sizes, 2)
		ok(t, other.Leave(soon(t, 10*time.Second), "m/a", first.Place))
		shows(t, sizes, 1)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		sizes, _ = watchQueue(ctx, s)
		shows(t, sizes, 1)
		ok(t, other.Leave(soon(t, 10*time.Second), "m/a", second.Place))
		shows(t, sizes, 0)
		if n := f.count(opChildren) - lists; n > 5 { // second had a successor node, which may be created and deleted visibly
			t.Errorf("%d listings for four views", n)
		}
	})
}

// TestQueueWatchWaitsForTheQueue, whose node may be missing; a stray is
// refused.
func TestQueueWatchWaitsForTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		sizes, ended := watchQueue(t.Context(), s)
		shows(t, sizes, 0)
		joinFollowing(t, openFake(t, f, testTTL), 1)
		shows(t, sizes, 1)
		f.cut()
		tr.put("/app/~/m/a/"+testKey(99), "")
		shows(t, sizes, 2)
		tr.put("/app/~/m/a/stray", "")
		select {
		case err := <-ended:
			if !errors.Is(err, driver.ErrRefused) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("a stray is not refused")
		}
	})
}
