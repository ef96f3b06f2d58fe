//go:build !race

package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// The race detector of Go 1.26 itself crashes in about one of ten runs of this
// test (SIGSEGV in its runtime, while a bubble's timers start goroutines). So
// `make test` runs it again without the detector.

// TestConcurrentReadsAndRemovalsAreBounded when many contenders give up
// together: others read the queue, and their entries are removed.
func TestConcurrentReadsAndRemovalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		d := &slow{Driver: svc.Driver()}
		s := sessionOn(t, d)
		const n = 2 * engine.MostChanges
		for range n {
			go func() {
				j, err := s.Join(t.Context(), queue, driver.Contender{ID: s.NewID(false), Mode: "x"})
				if err == nil {
					_, err = s.Ahead(t.Context(), queue, j.Place)
				}
				if err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
		all := svc.Snapshot(queue)
		for _, what := range []string{"read", "leave"} { // in this order
			most := engine.MostReads
			d.counted()
			for _, e := range all {
				if what == "leave" {
					most = engine.MostChanges
					s.LeaveLater(queue, e.Place)
					continue
				}
				go func() { _, _ = s.Ahead(t.Context(), queue, e.Place) }()
			}
			time.Sleep(time.Minute)
			if got, sum := d.counted(); got != most || sum != n {
				t.Errorf("%s: %d at once, %d in all", what, got, sum)
			}
		}
		if left := svc.Snapshot(queue); len(left) != 0 {
			t.Errorf("%d are left", len(left))
		}
	})
}
