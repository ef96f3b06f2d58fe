package virtualetcd_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
	"github.com/baton-go/baton/mutex"
)

// TestEtcdsOfABubbleAreSeparate: clients that a driver makes reach the etcd of
// their addresses or names. Each has its own holds, and one that stops takes no
// session from the other.
func TestEtcdsOfABubbleAreSeparate(t *testing.T) {
	for _, names := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var etcds [2]*virtualetcd.Etcd
			var held [2]*mutex.Lock
			for i := range etcds {
				etcds[i] = must(virtualetcd.New(virtualetcd.Options{Dir: t.TempDir(), Seed: 1, Names: names}))
				t.Cleanup(etcds[i].Close)
			}
			ctx, cancel := context.WithTimeout(t.Context(), ttl)
			defer cancel()
			for i, e := range etcds {
				b := must(coordinator.New(must(e.Link().Driver("x", "")), coordinator.WithTTL(ttl),
					coordinator.WithLogger(slog.New(slog.DiscardHandler))))
				t.Cleanup(func() { closeIn(b, ttl) })
				l, err := must(mutex.New(b, "a")).Lock(ctx)
				if err != nil {
					t.Errorf("names %v: etcd %d: %v", names, i, err)
					return
				}
				held[i] = l
			}
			if a, b := etcds[0].Server().Cluster().ID(), etcds[1].Server().Cluster().ID(); a == b {
				t.Errorf("names %v: both clusters have the ID %v", names, a)
			}
			etcds[0].Stop()
			time.Sleep(2 * ttl)
			if first, second := held[0].Err(), held[1].Err(); !errors.Is(first, coordinator.ErrSessionLost) || second != nil {
				t.Errorf("names %v: the first etcd has stopped: %v, %v", names, first, second)
			}
			check(t, held[1].Unlock(t.Context()))
		})
	}
}

func closeIn(b *coordinator.Client, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = b.Close(ctx)
}
