package virtualetcd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
	"github.com/baton-go/baton/mutex"
)

// In layout concurrency the waiters of a session have a lease each, and more
// than one stream renews them. One member that answers no keep-alives, or is a
// deposed leader, costs some renewals and not the session.
func TestManyLeasesOutliveAMemberThatDoesNotRenewThem(t *testing.T) {
	const waiters = 300
	for _, deposed := range []bool{false, true} {
		t.Run(fmt.Sprintf("deposed=%v", deposed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				three, _ := w.client("")
				c := w.baton(three, etcd.Layout(etcd.Concurrency))
				m := must(mutex.New(c, "a"))
				held := must(m.Lock(w.t.Context()))
				ctx, cancel := context.WithCancel(w.t.Context())
				var all sync.WaitGroup
				for range waiters {
					all.Go(func() { _, _ = m.Lock(ctx) })
				}
				time.Sleep(3 * ttl)
				if ill := w.Members()[0]; deposed {
					ill.Suffer(virtualetcd.Deposed)
				} else {
					ill.Suffer(virtualetcd.Unrenewing)
				}
				time.Sleep(20 * ttl)
				synctest.Wait()
				if err := held.Err(); err != nil {
					w.t.Errorf("the hold is lost: %v", err)
				}
				cancel()
				all.Wait()
			})
		})
	}
}

// TestKeepAlivesGoToTheMembersInTurn: no member answers two keep-alives in a
// row, so that others soon show what one does not know. When a member has gone,
// the other two go on, and open no stream for each keep-alive.
func TestKeepAlivesGoToTheMembersInTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		var mu sync.Mutex
		var asked []int
		streams := map[context.Context]bool{}
		w.OnRequest(func(r virtualetcd.Request) virtualetcd.Fate {
			if _, ok := r.Message.(*pb.LeaseKeepAliveRequest); ok {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, r.Member.Index())
				streams[r.Context] = true
			}
			return virtualetcd.Fate{}
		})
		// during returns how often each member is asked in some TTLs, and how
		// often it is asked twice in a row.
		during := func(n int) (times [3]int, twice int) {
			time.Sleep(3 * ttl)
			mu.Lock()
			asked = nil
			clear(streams)
			mu.Unlock()
			time.Sleep(time.Duration(n) * ttl)
			mu.Lock()
			defer mu.Unlock()
			for i, member := range asked {
				if times[member]++; i > 0 && member == asked[i-1] {
					twice++
				}
			}
			return times, twice
		}
		three, _ := w.client("")
		held := must(must(mutex.New(w.baton(three), "a")).Lock(w.t.Context()))
		if times, twice := during(6); times != [3]int{20, 20, 20} || twice > 0 || len(streams) != 3 {
			w.t.Errorf("asked %v times, %d times twice in a row, on %d streams", times, twice, len(streams))
		}
		w.Members()[0].Stop()
		if times, _ := during(6); times[0] > 0 || times[1] < 20 || times[2] < 20 || len(streams) > 4 {
			w.t.Errorf("one stopped: asked %v times on %d streams", times, len(streams))
		}
		check(w.t, held.Err())
	})
}
