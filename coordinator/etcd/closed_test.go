package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
)

// TestClientThatItsOwnerHasClosedIsNoOutage: the session ends, a lock fails at
// once with ErrClosed, and so does Close, whose requests cannot be sent.
func TestClientThatItsOwnerHasClosedIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, fake := newFake(t)
		ctx, end := context.WithCancel(t.Context())
		c := clientv3.NewCtxClient(ctx)
		c.KV, c.Lease, c.Watcher = fake.KV, fake.Lease, fake.Watcher
		d, err := FromClient(c)
		check(t, err)
		client, err := coordinator.New(d)
		check(t, err)
		s, err := engine.Of(client).Session(t.Context())
		check(t, err)
		m, err := mutex.New(client, "jobs")
		check(t, err)
		began := time.Now()
		end()
		<-s.Context().Done()
		if why := context.Cause(s.Context()); !errors.Is(why, coordinator.ErrSessionLost) || !strings.Contains(why.Error(), "has closed it") {
			t.Errorf("the session ended with %v", why)
		}
		if _, err := m.Lock(t.Context()); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Lock: %v", err)
		}
		_ = client.Close(t.Context())
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// TestRequestsOfAClosedClientAreNotSent: the real client would repeat them.
func TestRequestsOfAClosedClientAreNotSent(t *testing.T) {
	r, _, _, _ := keeper(t)
	conn := lease.Conn{Client: r.client, Lead: r.source.lead}
	check(t, r.client.Close())
	if err := conn.Revoke(t.Context(), 1); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Revoke: %v", err)
	}
	d, err := FromClient(r.client)
	check(t, err)
	if _, err := d.Open(t.Context(), 10*time.Second); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Open: %v", err)
	}
}
