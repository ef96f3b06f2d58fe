package virtualetcd_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
	"github.com/baton-go/baton/mutex"
)

// TestSilentMembersCostNoSession: one member renews the session, the others
// take requests and do not answer. A renewal is confirmed by a read, which the
// client sends to the members in turn. Other requests of the client, at the
// pace of the renewals, do not let all reads meet silent members.
func TestSilentMembersCostNoSession(t *testing.T) {
	for name, test := range map[string]struct{ addresses, silent int }{
		"one of two": {2, 1}, "one of three": {3, 1}, "two of three": {3, 2},
	} {
		for _, pace := range []time.Duration{ttl / 10, ttl / 30} {
			for phase := range time.Duration(5) {
				t.Run(fmt.Sprint(name, " ", pace, " ", int(phase)), func(t *testing.T) {
					inWorld(t, func(w *world) {
						c, link := w.client("")
						c.SetEndpoints(link.Endpoints()[:test.addresses]...)
						least := w.staysBesides(c, pace, 3*ttl+phase*ttl/83, w.Members()[:test.silent])
						if least < ttl/2 {
							w.t.Errorf("a renewal came %v before the deadline", least)
						}
					})
				})
			}
		}
	}
}

// staysBesides checks that a hold lasts while members are silent, from a moment
// on, and the client has other requests. It returns the time that was left when
// the latest of the renewals came.
func (w *world) staysBesides(
	c *clientv3.Client, pace, from time.Duration, silent []*virtualetcd.Member,
) time.Duration {
	var least atomic.Int64
	least.Store(int64(ttl))
	renewed := event.DirectFunc(func(e event.Event) {
		if e.Kind == event.SessionRenewed {
			least.Store(min(least.Load(), int64(e.Margin)))
		}
	})
	b := must(coordinator.New(must(etcd.FromClient(c)), coordinator.WithTTL(ttl),
		coordinator.WithObserver(renewed), coordinator.WithLogger(slog.New(slog.DiscardHandler))))
	held := must(must(mutex.New(b, "a")).Lock(w.t.Context()))
	time.Sleep(from)
	ctx, cancel := context.WithCancel(w.t.Context())
	go func() {
		for ctx.Err() == nil {
			go func() {
				bound, stop := context.WithTimeout(ctx, time.Second)
				defer stop()
				_, _ = c.Get(bound, "b", clientv3.WithSerializable())
			}()
			time.Sleep(pace)
		}
	}()
	for _, m := range silent {
		m.Suffer(virtualetcd.Mute)
	}
	time.Sleep(12 * ttl)
	if err := held.Err(); err != nil {
		w.t.Errorf("the hold is lost: %v", err)
	}
	cancel()
	for _, m := range silent {
		m.Heal()
	}
	check(w.t, b.Close(w.t.Context()))
	time.Sleep(time.Second) // the other requests end
	return time.Duration(least.Load())
}
