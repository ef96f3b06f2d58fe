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

// TestNothingBeginsOnAClosedDriver: Close waits for what goes on without a
// caller, so nothing may be added to that at the same time, or later.
func TestNothingBeginsOnAClosedDriver(t *testing.T) {
	f, c := newFake(t)
	for range 100 {
		d, err := FromClient(c)
		check(t, err)
		opened := make(chan error)
		go func() {
			s, err := d.Open(context.Background(), 10*time.Second)
			if err == nil {
				err = s.Close(context.Background())
			}
			opened <- err
		}()
		check(t, d.Close(t.Context()))
		if err := <-opened; err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Open while it is closed: %v", err)
		}
		sent := f.sent(func() { _, err = d.Open(t.Context(), 10*time.Second) })
		if !errors.Is(err, driver.ErrInvalid) || sent > 0 {
			t.Errorf("Open after that: %v, %d requests", err, sent)
		}
	}
}

// TestOpenWithADeadContextSendsNothing: it would go on without its caller.
func TestOpenWithADeadContextSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		d, err := FromClient(c)
		check(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		sent := f.sent(func() {
			_, err = d.Open(ctx, 10*time.Second)
			synctest.Wait()
		})
		if !errors.Is(err, why) || sent > 0 {
			t.Errorf("%v, %d requests", err, sent)
		}
	})
}

// TestReadThatEndsWithItsSessionIsNoSilence: other sessions of the driver do
// not send their reads twice for it.
func TestReadThatEndsWithItsSessionIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		d, err := FromClient(c)
		check(t, err)
		a, err := d.Open(t.Context(), 10*time.Second)
		check(t, err)
		b, err := d.Open(t.Context(), 10*time.Second)
		check(t, err)
		first := join(t, b, contender())
		synctest.Wait()
		heal := f.stall(0)
		f.mute = true
		f.behind[""] = false // watches exist, and reads are not answered
		end := awaitGone(t.Context(), a.(*session), first.Place)
		synctest.Wait()
		check(t, a.Close(t.Context()))
		if err := ended(t, end).err; !errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("the wait: %v", err)
		}
		heal()
		if n := f.sent(func() { _, err = b.List(t.Context(), queue, 0) }); n != 1 || err != nil {
			t.Errorf("%d requests, %v", n, err)
		}
		check(t, b.Close(t.Context()))
	})
}
