package virtualzk_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/virtualzk"
)

// TestForgetFindsAnEntryThatADeposedLeaderDoesNotKnow: the reply to a join is
// lost, and the client reconnects to a leader that was paused while the others
// elected another. It answers syncs alone until it notices that.
func TestForgetFindsAnEntryThatADeposedLeaderDoesNotKnow(t *testing.T) {
	for _, layout := range []string{"native", "curator", "kazoo"} {
		synctest.Test(t, func(t *testing.T) {
			const ttl, id = 10 * time.Second, "0123456789abcdef"
			e := virtualzk.New(virtualzk.Config{
				Members: 3, Tick: time.Second, Peers: time.Millisecond, Random: rand.New(rand.NewPCG(1, 2)),
			})
			link := e.Link("")
			link.Reach(1)
			d, err := zookeeper.OpenWith(e.URL("/x?layout="+layout), zookeeper.Dialer(link.Dial))
			must(t, err)
			t.Cleanup(func() {
				e.Resume(0)
				e.Rejoin(0)
				link.Heal()
				must(t, d.Close(context.Background()))
				e.Close()
				time.Sleep(5 * time.Second) // the client library's Close waits for a reply
			})
			s, err := d.Open(t.Context(), ttl)
			must(t, err)
			t.Cleanup(func() { _ = s.Close(context.Background()) })
			first, err := s.Join(t.Context(), "mutex/n", driver.Contender{ID: id[:15] + "0", Mode: "x"})
			must(t, err)
			e.Pause(0)
			e.Isolate(0)
			time.Sleep(time.Second) // for a connection to the next leader
			var lost atomic.Bool
			e.OnRequest(func(r virtualzk.Request) virtualzk.Fate {
				return virtualzk.Fate{DropReply: r.Op == "multi" && !lost.Swap(true)}
			})
			_, err = s.Join(t.Context(), "mutex/n", driver.Contender{ID: id, Mode: "x"})
			if !errors.Is(err, driver.ErrUnavailable) || !lost.Load() {
				t.Fatalf("%s: Join = %v", layout, err)
			}
			e.Resume(0)
			link.Reach(0)
			link.Reset()
			time.AfterFunc(ttl/2, func() {
				e.Rejoin(0)
				link.Heal()
			})
			ctx, cancel := context.WithTimeout(t.Context(), ttl)
			defer cancel()
			for errors.Is(err, driver.ErrUnavailable) { // as package coordinator does
				err = s.Forget(ctx, "mutex/n", id)
			}
			must(t, err)
			time.Sleep(ttl / 2)
			view, err := s.Ahead(t.Context(), "mutex/n", driver.Place{})
			must(t, err)
			if len(view.Ahead) != 1 || view.Ahead[0].Key != first.Place.Key {
				t.Errorf("%s: left in the queue: %+v", layout, view.Ahead)
			}
			must(t, s.Close(t.Context()))
		})
	}
}
