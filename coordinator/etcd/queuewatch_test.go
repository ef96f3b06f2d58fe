package etcd

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestQueueIsReadOnceAndKeptByItsWatch: by quorum, so a lagging member shows it
// too. The watch does not outlive the call.
func TestQueueIsReadOnceAndKeptByItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		a := join(t, s, contender())
		catchUp := f.lag()
		b := join(t, s, contender())
		ctx, cancel := context.WithCancel(t.Context())
		views := make(chan []string, 100)
		ended := make(chan error, 1)
		go func() {
			ended <- s.WatchQueue(ctx, queue, func(places []driver.Place) bool {
				var ids []string
				for _, p := range places {
					ids = append(ids, p.ID+p.Mode)
				}
				views <- ids
				return true
			})
		}()
		shown := func(after string, want ...string) {
			t.Helper()
			for {
				select {
				case got := <-views:
					if slices.Equal(got, want) {
						return
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("not shown after %s: %q", after, want)
				}
			}
		}
		shown("two joins", a.Place.ID+"x", b.Place.ID+"x")
		catchUp()
		var d driver.Joined
		sent := f.sent(func() {
			d = join(t, s, contender())
			shown("a join", a.Place.ID+"x", b.Place.ID+"x", d.Place.ID+"x")
			p, err := s.Convert(t.Context(), queue, a, "r", nil)
			check(t, err)
			shown("a conversion", a.Place.ID+"r", b.Place.ID+"x", d.Place.ID+"x")
			check(t, s.Write(t.Context(), queue, p, []byte("value")))
			check(t, s.Leave(t.Context(), queue, b.Place))
			shown("a leave", a.Place.ID+"r", d.Place.ID+"x")
		})
		if sent != 4 {
			t.Errorf("%d requests for four changes", sent)
		}
		f.watching(t, 1, "/mutex/")
		cancel()
		<-ended
		f.watching(t, 0, "/mutex/")
	})
}
