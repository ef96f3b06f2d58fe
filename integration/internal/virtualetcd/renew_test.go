package virtualetcd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
