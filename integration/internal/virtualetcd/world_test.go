package virtualetcd_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
)

const ttl = 10 * time.Second

// world is an etcd and its clients in one bubble.
type world struct {
	t *testing.T
	*virtualetcd.Etcd
}

// inWorld runs a test in a bubble with a new etcd.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

// newWorld starts an etcd. It is called in a bubble.
func newWorld(t *testing.T) *world {
	t.Helper()
	e := must(virtualetcd.New(virtualetcd.Options{Dir: t.TempDir(), Seed: 1}))
	t.Cleanup(e.Close)
	return &world{t, e}
}

// client makes a client of etcd's library on a link of its own.
func (w *world) client(user string) (*clientv3.Client, *virtualetcd.Link) {
	l := w.Link()
	c := must(l.Client(user))
	w.t.Cleanup(func() { _ = c.Close() })
	return c, l
}

// baton makes a client of Baton on a client of etcd.
func (w *world) baton(c *clientv3.Client, opts ...etcd.Option) *coordinator.Client {
	d := must(etcd.FromClient(c, append(opts, etcd.Namespace("x"))...))
	b := must(coordinator.New(d, coordinator.WithTTL(ttl), coordinator.WithLogger(slog.New(slog.DiscardHandler))))
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ttl)
		defer cancel()
		_ = b.Close(ctx)
	})
	return b
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func errOf[T any](_ T, err error) error { return err }
