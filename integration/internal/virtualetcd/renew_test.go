package virtualetcd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/etcd"
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
				three := w.client(3, "")
				c := w.baton(three, etcd.Layout(etcd.Concurrency))
				m := must(mutex.New(c, "a"))
				held := must(m.Lock(w.t.Context()))
				ctx, cancel := context.WithCancel(w.t.Context())
				var all sync.WaitGroup
				for range waiters {
					all.Go(func() { _, _ = m.Lock(ctx) })
				}
				time.Sleep(3 * ttl)
				for i, member := range three.members {
					if deposed && i > 0 {
						member.keepAlives(false, 1)
					} else {
						member.keepAlives(i == 0 && !deposed, 0)
					}
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
