package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/mutex"
)

func newOwner(t *testing.T, c *clientv3.Client, ttl int) *concurrency.Session {
	t.Helper()
	owner, err := concurrency.NewSession(c, concurrency.WithTTL(ttl))
	check(t, err)
	t.Cleanup(owner.Orphan)
	return owner
}

// openExternal starts a session on an external lease.
func openExternal(t *testing.T, c *clientv3.Client) *externalSession {
	t.Helper()
	d, err := FromSession(newOwner(t, c, 7), Namespace("ns"))
	check(t, err)
	s, err := d.Open(t.Context(), 7*time.Second)
	check(t, err)
	return s.(*externalSession)
}

// O2, O3
func TestExternalLeaseIsUsedOnceWithItsOwnTTL(t *testing.T) {
	f, c := newFake(t)
	owner := newOwner(t, c, 7)
	d, err := FromSession(owner, Namespace("ns"))
	check(t, err)
	_, err = d.Open(t.Context(), 10*time.Second)
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "10s") || !strings.Contains(err.Error(), "7s") {
		t.Errorf("got %v, want both values", err)
	}
	if len(f.kvs) != 0 {
		t.Errorf("left behind: %v", f.kvs)
	}
	s, err := d.Open(t.Context(), 7*time.Second)
	check(t, err)
	if s.ID() != keys.LeaseHex(owner.Lease()) || s.TTL() != 7*time.Second {
		t.Errorf("session %s, %v", s.ID(), s.TTL())
	}
	check(t, s.Close(t.Context()))
	if _, err := d.Open(t.Context(), 7*time.Second); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("second session on the lease: %v", err)
	}

	owner = newOwner(t, c, 7)
	_, _ = c.Revoke(t.Context(), owner.Lease())
	d, _ = FromSession(owner)
	if _, err := d.Open(t.Context(), 7*time.Second); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("a lease that is over: %v", err)
	}
}

// TestExternalLeaseIsRenewedWhenItsSessionOpens: the deadline counts from Open,
// whatever the owner's renewals do. Without the renewal there is no session.
func TestExternalLeaseIsRenewedWhenItsSessionOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		owner := newOwner(t, c, 7)
		d, err := FromSession(owner, Namespace("ns"))
		check(t, err)
		silent := &unanswered{Lease: c.Lease}
		c.Lease = silent
		if _, err := d.Open(t.Context(), 7*time.Second); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("a session without a renewal: %v", err)
		}
		if len(f.kvs) != 0 || len(f.kept) != 0 {
			t.Errorf("keys %v, renewed %v", f.kvs, f.kept)
		}
		c.Lease = silent.Lease
		s, err := d.Open(t.Context(), 7*time.Second)
		check(t, err)
		if !slices.Equal(f.kept, []clientv3.LeaseID{owner.Lease()}) {
			t.Errorf("renewed %v, want the lease of the session", f.kept)
		}
		check(t, s.Close(t.Context()))
	})
}

// TestExternalSessionNeedsARenewalOfTheTermOfItsSentinel: a leader that was
// deposed without noticing may have acknowledged the renewal for nothing.
func TestExternalSessionNeedsARenewalOfTheTermOfItsSentinel(t *testing.T) {
	f, c := newFake(t)
	d, err := FromSession(newOwner(t, c, 7), Namespace("ns"))
	check(t, err)
	f.term = 2
	lease := c.Lease
	c.Lease = inTerm{lease, 1}
	if _, err := d.Open(t.Context(), 7*time.Second); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a renewal by a deposed leader: %v", err)
	}
	f.mu.Lock()
	if len(f.kvs) != 0 {
		t.Errorf("left behind: %v", f.kvs)
	}
	f.mu.Unlock()
	c.Lease = inTerm{lease, 2}
	s, err := d.Open(t.Context(), 7*time.Second)
	check(t, err)
	check(t, s.Close(t.Context()))
}

// TestSentinelOfAnOpeningThatWasGivenUpIsDeleted by Close (O4): the lease may
// live for years.
func TestSentinelOfAnOpeningThatWasGivenUpIsDeleted(t *testing.T) {
	f, c := newFake(t)
	d, err := FromSession(newOwner(t, c, 7), Namespace("ns"))
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	f.before = func(_ context.Context, r *pb.TxnRequest) error {
		f.before = nil
		_, _ = f.Txn(t.Context(), r)
		cancel() // and the reply comes too late
		return ctx.Err()
	}
	if _, err := d.Open(ctx, 7*time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	if len(f.kvs) != 1 {
		t.Fatalf("keys %v, want the sentinel", f.kvs)
	}
	check(t, d.Close(t.Context()))
	if len(f.kvs) != 0 {
		t.Errorf("left behind: %v", f.kvs)
	}
}

// TestLateCleanUpOfAFailedOpenDeletesNoSentinel: the reply to the sentinel is
// lost, and what Open then sends to delete it is applied after a later Open.
func TestLateCleanUpOfAFailedOpenDeletesNoSentinel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		d, err := FromSession(newOwner(t, c, 7), Namespace("ns"))
		check(t, err)
		var late []*pb.TxnRequest
		f.before = func(ctx context.Context, r *pb.TxnRequest) error {
			if before := f.before; len(late) == 0 {
				f.before = nil
				_, _ = f.Txn(ctx, r)
				f.before = before
			}
			late = append(late, r)
			return rpctypes.ErrGRPCTimeout
		}
		if _, err := d.Open(t.Context(), 7*time.Second); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatal(err)
		}
		f.before = nil
		s, err := d.Open(t.Context(), 7*time.Second)
		check(t, err)
		f.settled(t, s)
		for _, r := range late[1:] {
			_, err := f.Txn(t.Context(), r)
			check(t, err)
		}
		if f.kvs[s.(*externalSession).Sentinel.Key] == nil || len(late) != 2 {
			t.Errorf("the sentinel is gone after %d requests without an answer", len(late))
		}
		check(t, s.Close(t.Context()))
		if len(f.kvs) != 0 {
			t.Errorf("left behind: %v", f.kvs)
		}
	})
}

// inTerm are leases whose keep-alives are answered in a raft term.
type inTerm struct {
	clientv3.Lease
	term uint64
}

func (l inTerm) KeepAliveOnce(
	ctx context.Context, id clientv3.LeaseID,
) (*clientv3.LeaseKeepAliveResponse, error) {
	return &clientv3.LeaseKeepAliveResponse{
		ResponseHeader: &pb.ResponseHeader{RaftTerm: l.term}, ID: id, TTL: 7,
	}, nil
}

// unanswered are leases whose keep-alives get no answer.
type unanswered struct{ clientv3.Lease }

func (unanswered) KeepAliveOnce(
	context.Context, clientv3.LeaseID,
) (*clientv3.LeaseKeepAliveResponse, error) {
	return nil, rpctypes.ErrTimeout
}

func TestEndOfTheOwnerEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newFake(t)
		owner := newOwner(t, c, 7)
		d, _ := FromSession(owner)
		s, err := d.Open(t.Context(), 7*time.Second)
		check(t, err)
		owner.Orphan() // the lease still exists, but Baton must not renew it
		wantDone(t, s)
		if why := s.(*externalSession).Err(); !errors.Is(why, driver.ErrSessionLost) {
			t.Errorf("it ended with %v", why)
		}
		if err := s.Renew(t.Context()); !errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("Renew: %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// An external session has no lease to revoke; Close must find all its entries.
func TestCloseOfExternalSessionRemovesOwnEntriesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		external, other := openExternal(t, c), open(t, f, c)
		s := external.session
		f.settled(t, s)
		for range 250 {
			join(t, external, contender())
		}
		left := join(t, external, contender())
		check(t, external.Leave(t.Context(), queue, left.Place))
		taken, stale := contender(), contender()
		taken.Alone, stale.Record = true, 1
		for _, refused := range []driver.Contender{taken, stale} {
			if _, err := external.Join(t.Context(), queue, refused); err == nil {
				t.Error("joined a queue that refuses it")
			}
		}
		if n := len(external.memory.contenders); n != 250 {
			t.Errorf("%d contenders are in memory", n)
		}
		stays := join(t, other, contender())
		n := f.sent(func() {
			check(t, external.Close(t.Context()))
		})
		if n != 8 { // the sentinel, and seven chunks of contenders
			t.Errorf("%d requests", n)
		}
		if got := ids(t, other); len(got) != 1 || got[0] != stays.Place.ID {
			t.Errorf("queue %q", got)
		}
		if f.leases[s.Lease] == 0 || f.kvs[s.Sentinel.Key] != nil {
			t.Error("the lease is gone or the sentinel is left")
		}
	})
}

// TestCloseOfExternalSessionGoesOnInTheBackground: no TTL ends the entries that
// a Close could not remove. The work ends with them, or with the owner.
func TestCloseOfExternalSessionGoesOnInTheBackground(t *testing.T) {
	for name, ownerEnds := range map[string]bool{"the service returns": false, "the owner ends": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c := newFake(t)
				owner := newOwner(t, c, 7)
				d, err := FromSession(owner, Namespace("ns"))
				check(t, err)
				client, err := coordinator.New(d, coordinator.WithTTL(7*time.Second))
				check(t, err)
				m, err := mutex.New(client, "jobs")
				check(t, err)
				_, err = m.Lock(t.Context())
				check(t, err)
				var away atomic.Bool
				away.Store(true)
				f.before = func(context.Context, *pb.TxnRequest) error {
					if away.Load() {
						return rpctypes.ErrTimeout
					}
					return nil
				}
				if err := client.Close(t.Context()); !errors.Is(err, coordinator.ErrUnavailable) {
					t.Errorf("Close without the service: %v", err)
				}
				time.Sleep(time.Minute)
				if ownerEnds {
					owner.Orphan()
					synctest.Wait()
				}
				away.Store(false)
				time.Sleep(10 * time.Second)
				f.mu.Lock()
				defer f.mu.Unlock()
				if left := len(f.kvs) > 0; left != ownerEnds {
					t.Errorf("left: %v", f.kvs)
				}
			})
		})
	}
}

// A member that takes a request of the background and does not answer it costs
// seconds, also with a lease that lives for a day.
func TestRemovalInTheBackgroundLeavesASilentMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 24 * time.Hour
		f, c := newFake(t)
		owner := newOwner(t, c, int(ttl/time.Second))
		d, err := FromSession(owner, Namespace("ns"))
		check(t, err)
		s, err := d.Open(t.Context(), ttl)
		check(t, err)
		join(t, s, contender())
		silent := 2 // requests
		f.before = func(ctx context.Context, _ *pb.TxnRequest) error {
			if silent--; silent >= 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Close(ctx); err == nil {
			t.Error("Close succeeded at a silent member")
		}
		time.Sleep(30 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.kvs) > 0 {
			t.Errorf("left: %v", f.kvs)
		}
	})
}

// TestRemovalInTheBackgroundGoesOnWhereItEnded: two thousand contenders take
// fifty requests, more than one attempt has time for.
func TestRemovalInTheBackgroundGoesOnWhereItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		owner := newOwner(t, c, 7)
		d, err := FromSession(owner, Namespace("ns"))
		check(t, err)
		s, err := d.Open(t.Context(), 7*time.Second)
		check(t, err)
		for range 2000 {
			join(t, s, contender())
		}
		f.before = func(ctx context.Context, _ *pb.TxnRequest) error {
			select {
			case <-time.After(50 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Close(ctx); err == nil {
			t.Error("Close succeeded in a second")
		}
		time.Sleep(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := len(f.kvs); n > 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// Queues that an external session has left are not in memory. Close deletes the
// tail keys that name its contenders, and keeps others.
func TestCloseOfExternalSessionRemovesOwnTailKeysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, forget := range map[string]bool{"forgotten": true, "queued": false} {
			f, c := newFake(t)
			external, other := openExternal(t, c), open(t, f, c)
			s := external.session
			follow := func(s driver.Session, l driver.Queue) driver.Joined {
				c := contender()
				c.Follows = true
				j, err := s.Join(t.Context(), l, c)
				check(t, err)
				return j
			}
			const once, own, others = "mutex/once", "mutex/own", "mutex/others"
			for _, l := range []driver.Queue{once, own, others} {
				follow(other, l)
			}
			check(t, external.Leave(t.Context(), once, follow(external, once).Place))
			if n := len(external.memory.contenders); n != 0 {
				t.Errorf("%s: %d prefixes are in memory: %v", name, n, external.memory.contenders)
			}
			last := follow(external, own)
			follow(external, others)
			follow(other, others)
			if forget {
				check(t, external.Forget(t.Context(), own, last.Place.ID))
			}
			check(t, external.Close(t.Context()))
			f.mu.Lock()
			for key, kv := range f.kvs {
				if kv.Lease == int64(s.Lease) {
					t.Errorf("%s: left %s", name, key)
				}
			}
			if f.kvs[s.keys.Tail(others)] == nil {
				t.Errorf("%s: the tail key of another contender is gone", name)
			}
			f.mu.Unlock()
		}
	})
}
