package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

const (
	maxAge  = 10 * time.Second
	rebuild = time.Second
)

// play lets four replicas read an entry at a given age, and returns how often
// it was rebuilt, and how many reads waited for that.
func play(
	t *testing.T, age, stale time.Duration, failure error,
) (rebuilds, waits int, errs []error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc, shared := memory.NewService(), new(store)
		shared.put(entry{token: 1, made: time.Now()})
		svc.AddForeign("other/name") // so that tokens of the lock are greater
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			client, err := coordinator.New(svc.Driver())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close(t.Context())
			m, err := mutex.New(client, "cache")
			if err != nil {
				t.Fatal(err)
			}
			c := &cache{store: shared, lock: m, maxAge: maxAge, stale: stale}
			c.rebuild = func(context.Context) error {
				mu.Lock()
				rebuilds++
				mu.Unlock()
				time.Sleep(rebuild)
				return failure
			}
			wg.Go(func() {
				time.Sleep(age)
				began := time.Now()
				_, err := c.read(t.Context())
				mu.Lock()
				defer mu.Unlock()
				if time.Since(began) >= rebuild {
					waits++
				}
				if err != nil {
					errs = append(errs, err)
				}
			})
		}
		wg.Wait()
		if e := shared.get(); rebuilds > 0 && failure == nil && time.Since(e.made) > rebuild {
			t.Errorf("the entry is %v old in the end", time.Since(e.made))
		}
	})
	return rebuilds, waits, errs
}

// TestOneReplicaRebuildsForAll, and the others do not wait if the entry is only
// a little too old.
func TestOneReplicaRebuildsForAll(t *testing.T) {
	for _, c := range []struct {
		name            string
		age, stale      time.Duration
		rebuilds, waits int
	}{
		{"fresh", maxAge - 1, 0, 0, 0},
		{"too old", maxAge, 0, 1, 4},
		{"a little too old", maxAge, rebuild, 1, 1}, // the replica that rebuilds
		{"much too old", maxAge + rebuild, rebuild, 1, 4},
	} {
		rebuilds, waits, errs := play(t, c.age, c.stale, nil)
		if rebuilds != c.rebuilds || waits != c.waits || len(errs) > 0 {
			t.Errorf("%s: %d rebuilds, %d reads waited, %v", c.name, rebuilds, waits, errs)
		}
	}
}

func TestFailedRebuildIsReportedAndTriedAgain(t *testing.T) {
	because := errors.New("because")
	rebuilds, _, errs := play(t, maxAge, 0, because)
	if rebuilds != 4 || len(errs) != 4 || !errors.Is(errs[0], because) {
		t.Errorf("%d rebuilds, %v", rebuilds, errs)
	}
}

// TestLateWriterChangesNothingThatIsRead after a pause during its rebuild.
func TestLateWriterChangesNothingThatIsRead(t *testing.T) {
	s := new(store)
	for _, token := range []coordinator.Token{5, 7, 6} {
		s.put(entry{token: token})
	}
	if got := s.get().token; got != 7 {
		t.Errorf("the entry of token %d is read, want 7", got)
	}
}
