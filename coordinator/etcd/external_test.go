package etcd

import (
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

func newOwner(t *testing.T, c *clientv3.Client, ttl int) *concurrency.Session {
	t.Helper()
	owner, err := concurrency.NewSession(c, concurrency.WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Orphan)
	return owner
}

// openExternal starts a session on a lease of somebody else.
func openExternal(t *testing.T, c *clientv3.Client) *externalSession {
	t.Helper()
	d, err := FromSession(newOwner(t, c, 7), Namespace("ns"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(t.Context(), 7*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*externalSession)
}

// O2, O3
func TestExternalLeaseIsUsedOnceWithItsOwnTTL(t *testing.T) {
	f, c := newFake(t)
	owner := newOwner(t, c, 7)
	d, err := FromSession(owner, Namespace("ns"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Open(t.Context(), 10*time.Second)
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "10s") || !strings.Contains(err.Error(), "7s") {
		t.Errorf("got %v, want both values", err)
	}
	if len(f.kvs) != 0 {
		t.Errorf("left behind: %v", f.kvs)
	}
	s, err := d.Open(t.Context(), 7*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if s.ID() != keys.LeaseHex(owner.Lease()) || s.TTL() != 7*time.Second {
		t.Errorf("session %s, %v", s.ID(), s.TTL())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), 7*time.Second); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("adopted twice: %v", err)
	}

	owner = newOwner(t, c, 7)
	_, _ = c.Revoke(t.Context(), owner.Lease())
	d, _ = FromSession(owner)
	if _, err := d.Open(t.Context(), 7*time.Second); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("a lease that is over: %v", err)
	}
}

func TestEndOfTheOwnerEndsTheSession(t *testing.T) {
	_, c := newFake(t)
	owner := newOwner(t, c, 7)
	d, _ := FromSession(owner)
	s, err := d.Open(t.Context(), 7*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	owner.Orphan() // the lease is still there, and not ours to keep
	select {
	case <-s.Done():
	case <-time.After(time.Second):
		t.Fatal("nobody told")
	}
	if err := s.Renew(t.Context()); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("Renew: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// An adopted session has no lease to revoke; closing it must find all its
// entries.
func TestCloseOfExternalSessionRemovesOwnEntriesOnly(t *testing.T) {
	f, c := newFake(t)
	external, other := openExternal(t, c), open(t, f, c)
	s := external.session
	f.settled(t, s)
	for range 250 {
		join(t, external, contender())
	}
	left := join(t, external, contender())
	if err := external.Leave(t.Context(), queue, left.Place); err != nil {
		t.Fatal(err)
	}
	taken, stale := contender(), contender()
	taken.Alone, stale.Record = true, 1
	for _, refused := range []driver.Contender{taken, stale} {
		if _, err := external.Join(t.Context(), queue, refused); err == nil {
			t.Error("joined")
		}
	}
	if n := len(external.memory.contenders); n != 250 {
		t.Errorf("%d contenders are remembered", n)
	}
	stays := join(t, other, contender())
	n := f.sent(func() {
		if err := external.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if n != 8 { // the sentinel, and seven times some of the contenders
		t.Errorf("%d requests", n)
	}
	if got := ids(t, other); len(got) != 1 || got[0] != stays.Place.ID {
		t.Errorf("queue %q", got)
	}
	if f.leases[s.Lease] == 0 || f.kvs[s.Sentinel.Key] != nil {
		t.Error("the lease is gone or the sentinel is left")
	}
}

// The tails of queues in which an external session once stood are not
// remembered; those that name its contenders go with it, and others stay.
func TestCloseOfExternalSessionRemovesOwnTailKeysOnly(t *testing.T) {
	for name, forget := range map[string]bool{"forgotten": true, "standing": false} {
		f, c := newFake(t)
		external, other := openExternal(t, c), open(t, f, c)
		s := external.session
		follow := func(s driver.Session, l driver.Queue) driver.Joined {
			c := contender()
			c.Follows = true
			j, err := s.Join(t.Context(), l, c)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		const once, own, others = "mutex/once", "mutex/own", "mutex/others"
		for _, l := range []driver.Queue{once, own, others} {
			follow(other, l)
		}
		if err := external.Leave(t.Context(), once, follow(external, once).Place); err != nil {
			t.Fatal(err)
		}
		if n := len(external.memory.contenders); n != 0 {
			t.Errorf("%s: %d prefixes are remembered: %v", name, n, external.memory.contenders)
		}
		last := follow(external, own)
		follow(external, others)
		follow(other, others)
		if forget {
			if err := external.Forget(t.Context(), own, last.Place.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := external.Close(t.Context()); err != nil {
			t.Error(err)
		}
		f.mu.Lock()
		for key, kv := range f.kvs {
			if kv.Lease == int64(s.Lease) {
				t.Errorf("%s: left %s", name, key)
			}
		}
		if f.kvs[s.keys.Tail(others)] == nil {
			t.Errorf("%s: the tail of another is gone", name)
		}
		f.mu.Unlock()
	}
}
