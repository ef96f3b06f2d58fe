package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/baton-go/baton/coordinator/driver"
)

func convert(t *testing.T, s driver.Converter, own driver.Joined, mode string) driver.Place {
	t.Helper()
	p, err := s.Convert(t.Context(), queue, own, mode, []byte("as "+mode))
	check(t, err)
	return p
}

// L2: a contender converted there and back has a key that it had before. That
// was another entry.
func TestLeaveOfAnEarlierLifeDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		own := join(t, s, contender())
		own.Place = convert(t, s, own, "y")
		earlier := own.Place
		own.Place = convert(t, s, own, "x")
		own.Place = convert(t, s, own, "y")
		if err := s.Leave(t.Context(), queue, earlier); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave of the earlier entry = %v", err)
		}
		if err := s.Leave(t.Context(), queue, own.Place); err != nil {
			t.Errorf("Leave = %v", err)
		}
	})
}

// delay makes the transaction of do fail, and returns a function that delivers
// it late.
func delay(f *fake, do func()) (deliver func(t *testing.T)) {
	var late *pb.TxnRequest
	f.before = func(_ context.Context, r *pb.TxnRequest) error {
		late = r
		return rpctypes.ErrGRPCTimeout
	}
	do()
	f.before = nil
	return func(t *testing.T) {
		if _, err := f.Txn(t.Context(), late); err != nil && !errors.Is(err, rpctypes.ErrGRPCLeaseNotFound) {
			t.Error(err)
		}
	}
}

// C1: late conversions find no sentinel, whichever key is deleted first.
func TestCloseOfExternalSessionRemovesConvertedEntries(t *testing.T) {
	f, c := newFake(t)
	external := openExternal(t, c)
	stays, leaves := join(t, external, contender()), join(t, external, contender())
	stays.Place, leaves.Place = convert(t, external, stays, "y"), convert(t, external, leaves, "y")
	check(t, external.Leave(t.Context(), queue, leaves.Place))
	if n := len(external.memory.contenders); n != 1 {
		t.Errorf("%d contenders are in memory", n)
	}
	check(t, external.Close(t.Context()))
	if len(f.kvs) != 0 {
		t.Errorf("left behind: %v", f.kvs)
	}

	f, c = newFake(t)
	external = openExternal(t, c)
	last := contender()
	last.ID = "ffffffffffffffff" // in the order of the deletions
	own := join(t, external, last)
	late := delay(f, func() { _, _ = external.Convert(t.Context(), queue, own, "y", nil) })
	for range 150 {
		join(t, external, contender())
	}
	n := 0
	f.before = func(context.Context, *pb.TxnRequest) error {
		if n++; n == 2 { // between the first deletions and the last
			f.before = nil
			late(t)
		}
		return nil
	}
	check(t, external.Close(t.Context()))
	if n < 2 || len(f.kvs) != 0 {
		t.Errorf("%d requests, left behind: %v", n, f.kvs)
	}
}

// TestRefusedConversionForgetsNothing: the entry's deletion still deletes the
// predecessor's marker.
func TestRefusedConversionForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		a, b := open(t, f, c), open(t, f, c)
		ahead, behind := contender(), contender()
		ahead.Follows, behind.Follows = true, true
		first := join(t, a, contender()).Place // so that the next entry follows, and can pass
		ja, jb := join(t, a, ahead), join(t, b, behind)
		check(t, a.Leave(t.Context(), queue, first))
		followed := make(chan error, 1)
		go func() { _, err := b.Follow(t.Context(), queue, jb.Place, ja.Place); followed <- err }()
		check(t, a.Pass(t.Context(), queue, ja.Place))
		check(t, <-followed)
		f.before = func(context.Context, *pb.TxnRequest) error { return rpctypes.ErrGRPCPermissionDenied }
		if _, err := b.Convert(t.Context(), queue, jb, "y", nil); !errors.Is(err, driver.ErrRefused) {
			t.Fatalf("Convert = %v", err)
		}
		f.before = nil
		check(t, b.Pass(t.Context(), queue, jb.Place))
		f.mu.Lock()
		defer f.mu.Unlock()
		for key := range f.kvs {
			if strings.HasSuffix(key, "~") {
				t.Errorf("%s is left in an empty queue", key)
			}
		}
	})
}
