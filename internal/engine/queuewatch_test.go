package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// watched is a session with contenders in a queue.
type watched struct {
	t   *testing.T
	svc *memory.Service
	*engine.Session
}

func watchedOn(t *testing.T) watched {
	svc := memory.NewService()
	return watched{t, svc, sessionOn(t, svc.Driver())}
}

func (w watched) join() driver.Joined {
	j, err := w.Join(w.t.Context(), queue, driver.Contender{ID: w.NewID(false), Mode: "x"})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// TestQueueWatchShowsADepartureAmongArrivals: contenders in the queue are woken
// by departures, and not by arrivals.
func TestQueueWatchShowsADepartureAmongArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		link := svc.Driver()
		w, other := watched{t, svc, sessionOn(t, link)}, watched{t, svc, sessionOn(t, svc.Driver())}
		first, own := other.join(), w.join()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var shown []int // how many were in the queue
		go func() {
			_ = w.WatchQueue(ctx, queue, own.Place, 0, func(v engine.QueueView) bool {
				shown = append(shown, len(v.Places))
				return false
			})
		}()
		expect := func(want ...int) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(shown, want) {
				t.Errorf("shown queues of %v; want %v", shown, want)
			}
		}
		expect(2)
		other.join()
		expect(2)
		link.HoldRequests()
		other.join() // still shown
		synctest.Wait()
		check(t, other.Leave(t.Context(), queue, first.Place))
		other.join()
		link.Heal() // shows both as one change
		expect(2, 4)
	})
}

// TestQueueWatchEndsForARemovedContender, before and after it was shown.
func TestQueueWatchEndsForARemovedContender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchedOn(t)
		w.join()
		watch := func(own driver.Joined) <-chan error {
			ended := make(chan error, 1)
			go func() {
				ended <- w.WatchQueue(t.Context(), queue, own.Place, 0, func(engine.QueueView) bool { return false })
			}()
			synctest.Wait()
			return ended
		}
		removed := func(ended <-chan error) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Error("still waits without an entry")
			}
		}
		own := w.join()
		ended := watch(own)
		w.svc.Remove(queue, own.Place.Key)
		removed(ended)
		gone := w.join()
		w.svc.Remove(queue, gone.Place.Key)
		removed(watch(gone))
	})
}

// TestQueueWatchOutlivesAnOutage, like a wait, and continues afterwards.
func TestQueueWatchOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchedOn(t)
		first, own := w.join(), w.join()
		judged := make(chan error, 1)
		go func() {
			judged <- w.WatchQueue(t.Context(), queue, own.Place, 0, func(v engine.QueueView) bool { return len(v.Places) == 1 })
		}()
		synctest.Wait()
		w.svc.Stop()
		time.Sleep(5 * time.Second)
		w.svc.Start()
		time.Sleep(time.Second)
		select {
		case err := <-judged:
			t.Fatalf("ended before a change: %v", err)
		default:
		}
		check(t, w.Leave(t.Context(), queue, first.Place))
		check(t, <-judged)
	})
}
