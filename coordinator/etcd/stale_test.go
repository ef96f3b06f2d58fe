package etcd

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/baton-go/baton/coordinator/driver"
)

// J7: a request that is late is not applied behind ErrStale.
func TestLateJoinIsNotAppliedBehindErrStale(t *testing.T) {
	for _, alone := range []bool{false, true} {
		f, c := newFake(t)
		s := open(t, f, c)
		me := contender()
		old := setRecord(t, s, "one", 0)
		me.Alone, me.Record = alone, setRecord(t, s, "two", old)
		late := delay(f, func() { _, _ = s.Join(t.Context(), queue, me) })
		me.Again, me.Record = true, old
		if _, err := s.Join(t.Context(), queue, me); !errors.Is(err, driver.ErrStale) {
			t.Errorf("got %v", err)
		}
		late(t)
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
