package etcd

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/baton-go/baton/coordinator/driver"
)

// J7
func TestJoinNeedsItsRecord(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	var late *pb.TxnRequest
	for _, alone := range []bool{false, true} {
		old := setRecord(t, s, "one", current(t, s).Version)
		me := contender()
		me.Record, me.Alone = old, alone
		var own driver.Joined
		if n := f.sent(func() { own = join(t, s, me) }); n != 1 {
			t.Errorf("%d requests", n)
		}
		now := setRecord(t, s, "two", old)
		rev := f.rev
		for _, again := range []bool{false, true} {
			stale := contender()
			stale.Record, stale.Alone, stale.Again = old, alone, again
			n := f.sent(func() {
				if _, err := s.Join(t.Context(), queue, stale); !errors.Is(err, driver.ErrStale) {
					t.Errorf("got %v", err)
				}
			})
			want := 1
			if !alone && !again { // the short attempt is not told why
				want = 2
			}
			if raised := f.rev != rev; n != want || raised != again { // only the epoch, which nobody watches
				t.Errorf("%d requests, revision %d to %d", n, rev, f.rev)
			}
		}
		me.Again = true // J2 wins over J7
		if again := join(t, s, me); again.Place != own.Place {
			t.Errorf("again: %+v, want %+v", again, own)
		}
		if err := s.Leave(t.Context(), queue, own.Place); err != nil {
			t.Fatal(err)
		}

		// A request that is late is not applied behind ErrStale.
		me = contender()
		me.Record, me.Alone = now, alone
		f.before = func(_ context.Context, r *pb.TxnRequest) error {
			late = r
			return rpctypes.ErrGRPCTimeout
		}
		_, _ = s.Join(t.Context(), queue, me)
		f.before = nil
		me.Again, me.Record = true, old
		if _, err := s.Join(t.Context(), queue, me); !errors.Is(err, driver.ErrStale) {
			t.Errorf("got %v", err)
		}
		if _, err := f.Txn(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, s); len(got) != 0 {
			t.Errorf("alone %v: a ghost in the queue: %q", alone, got)
		}
	}
}

// J7: the epoch has moved, too.
func TestJoinNeedsItsRecordInEachAttempt(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	me := contender()
	me.Record = setRecord(t, s, "one", 0)
	f.before = func(ctx context.Context, _ *pb.TxnRequest) error {
		f.before = nil
		_ = s.Forget(ctx, queue, someID)
		return nil
	}
	own := join(t, s, me)
	_ = s.Leave(t.Context(), queue, own.Place)
	f.before = func(ctx context.Context, _ *pb.TxnRequest) error {
		f.before = nil
		setRecord(t, s, "two", me.Record)
		return s.Forget(ctx, queue, someID)
	}
	if _, err := s.Join(t.Context(), queue, me); !errors.Is(err, driver.ErrStale) {
		t.Errorf("got %v", err)
	}
}
