package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestConstructorsRefuseNil(t *testing.T) {
	_, c := newFake(t)
	for name, make := range map[string]func() (driver.Driver, error){
		"client":    func() (driver.Driver, error) { return FromClient(nil) },
		"session":   func() (driver.Driver, error) { return FromSession(nil) },
		"option":    func() (driver.Driver, error) { return FromClient(c, nil) },
		"namespace": func() (driver.Driver, error) { return FromClient(c, Namespace("a/../b")) },
	} {
		if d, err := make(); !errors.Is(err, driver.ErrInvalid) || d != nil {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}

// The lease ends between the sentinel's put and its watch.
func TestDoneClosesWhenLeaseWasRevokedBeforeTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		d, _ := FromClient(c)
		f.opens = func() { // just before the watch is created
			for id := range f.leases {
				_, _ = c.Revoke(context.Background(), id)
			}
		}
		s, err := d.Open(t.Context(), 10*time.Second)
		check(t, err)
		wantDone(t, s)
	})
}

func TestCloseReleasesWithoutTheService(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	c.Lease = refusingLease{c.Lease}
	if err := s.Close(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	f.watching(t, 0, "")
}

type refusingLease struct{ clientv3.Lease }

func (refusingLease) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return nil, rpctypes.ErrNoLeader
}

func TestOpenEndsByItsContextAndSaysWhy(t *testing.T) {
	for _, u := range []string{"etcd://127.0.0.1:1", "etcd://user:" + secret + "@127.0.0.1:1"} {
		d, err := Open(parse(t, u))
		check(t, err)
		why := errors.New("why")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		_, err = d.Open(ctx, 5*time.Second)
		cancel()
		if !errors.Is(err, why) || !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("got %v, want the cause and the missing connection", err)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%v shows the password", err)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, err := d.Open(t.Context(), 5*time.Second); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("closed driver: %v", err)
		}
	}
}

func TestOpenWaitsForTheDialerWithItsContext(t *testing.T) {
	d, err := Open(parse(t, "etcd://127.0.0.1:1"))
	check(t, err)
	_ = d.(native).source.lock.acquire(t.Context()) // another Open is running
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := d.Open(ctx, 5*time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open: %v", err)
	}
	if err := d.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
}

// A slow service can end the lease before the sentinel is put, and so can an
// operator.
func TestLeaseThatEndsBeforeItsSessionBeginsIsNoLostSession(t *testing.T) {
	f, c := newFake(t)
	f.before = func(context.Context, *pb.TxnRequest) error { return rpctypes.ErrGRPCLeaseNotFound }
	for _, layout := range []string{Native, Concurrency} {
		d, err := FromClient(c, Layout(layout))
		check(t, err)
		_, err = d.Open(t.Context(), 10*time.Second)
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("%s: %v", layout, err)
		}
	}
	f.before = nil
	open(t, f, c)
}
