package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// TestOpenThatFailsLeavesNoLease: its sentinel cannot be written, or the
// service grants a longer TTL, for which holders would outlive their deadline's
// bound.
func TestOpenThatFailsLeavesNoLease(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(f *fake)
		want    error
	}{
		"no sentinel": {func(f *fake) {
			f.before = func(context.Context, *pb.TxnRequest) error { return rpctypes.ErrGRPCTimeout }
		}, driver.ErrUnavailable},
		"a longer TTL": {func(f *fake) { f.minTTL = 15 }, driver.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c := newFake(t)
				test.prepare(f)
				d, err := FromClient(c)
				check(t, err)
				if _, err = d.Open(t.Context(), 10*time.Second); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if len(f.leases) != 1 || f.granted() != 0 {
					t.Errorf("%d of %d leases live on", f.granted(), len(f.leases))
				}
			})
		})
	}
}

// TestRenewalOfALeaseThatIsGoneEndsTheSession: no watch has shown the end.
func TestRenewalOfALeaseThatIsGoneEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		f.mu.Lock()
		f.leases[s.Lease] = 0
		f.mu.Unlock()
		if err := s.Renew(t.Context()); !errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("got %v", err)
		}
		wantDone(t, s)
	})
}

// endingLease ends the session when a keep-alive comes, and acknowledges it.
type endingLease struct {
	clientv3.Lease
	end func()
}

func (l *endingLease) KeepAliveOnce(
	ctx context.Context, id clientv3.LeaseID,
) (*clientv3.LeaseKeepAliveResponse, error) {
	l.end()
	return l.Lease.KeepAliveOnce(ctx, id)
}

// TestRenewalDuringTheEndDoesNotCount is R2: the end was found while the
// renewal was under way.
func TestRenewalDuringTheEndDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		l := &endingLease{Lease: c.Lease}
		c.Lease = l
		s := open(t, f, c)
		l.end = s.End
		if err := s.Renew(t.Context()); !errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("got %v", err)
		}
	})
}

// TestRenewalGoesToTheNextMemberAfterAnOlderTerm: with several calls for one
// renewal, one of them would always reach the deposed leader.
func TestRenewalGoesToTheNextMemberAfterAnOlderTerm(t *testing.T) {
	terms := []uint64{8, 7, 8, 7, 8}
	s := &lease.Session{Conn: lease.Conn{
		KeepAlive: func(context.Context, ...clientv3.LeaseID) (lease.Kept, error) {
			shown := terms[0]
			terms = terms[1:]
			return lease.Kept{Header: &pb.ResponseHeader{RaftTerm: shown}}, nil
		},
	}}
	for range 3 {
		if _, err := s.Keep(t.Context(), 1); err != nil {
			t.Error(err)
		}
	}
	if len(terms) != 0 {
		t.Errorf("%d members were not asked", len(terms))
	}
}

// TestClosedClientEndsItsSession: its owner has closed it.
func TestClosedClientEndsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, fakes := newFake(t)
		ctx, end := context.WithCancel(t.Context())
		c := clientv3.NewCtxClient(ctx)
		c.KV, c.Lease, c.Watcher = fakes.KV, fakes.Lease, fakes.Watcher
		s := open(t, f, c)
		end()
		wantDone(t, s)
	})
}

// TestLateWriteIsNotAppliedAfterALaterOne is P1 of the contract.
func TestLateWriteIsNotAppliedAfterALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		own := join(t, s, contender())
		late := delay(f, func() { _ = s.Write(t.Context(), queue, own.Place, []byte("one")) })
		write(t, s, own.Place, "two")
		late(t)
		if got := headOf(t, s); string(got.Value) != "two" {
			t.Errorf("the value is %q", got.Value)
		}
	})
}

// TestCloseRevokesTheLeasesOfAllContenders of a shared queue.
func TestCloseRevokesTheLeasesOfAllContenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g := openForeign(t, f, c)
		join(t, g, contender())
		join(t, g, contender())
		before := f.granted()
		check(t, g.Close(t.Context()))
		if before != 2 || f.granted() != 0 {
			t.Errorf("%d leases, %d after Close", before, f.granted())
		}
	})
}
