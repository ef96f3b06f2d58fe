package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// puts reports whether a transaction may put, which an etcd without space
// refuses.
func puts(r *pb.TxnRequest) bool {
	return slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		return op.GetRequestPut() != nil || op.GetRequestTxn() != nil && puts(op.GetRequestTxn())
	})
}

// fill refuses puts from now on. With crossing, the first is applied all the
// same, as by an etcd whose quota it exceeds.
func (f *fake) fill(crossing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = func(ctx context.Context, r *pb.TxnRequest) error {
		if !puts(r) {
			return nil
		}
		f.mu.Lock()
		before, apply := f.before, crossing
		crossing = false
		f.mu.Unlock()
		if apply {
			f.before = nil
			_, _ = f.Txn(ctx, r)
			f.before = before
		}
		return rpctypes.ErrGRPCNoSpace
	}
}

// TestRequestThatCrossesTheQuotaIsFound: it was applied, although it was
// refused.
func TestRequestThatCrossesTheQuotaIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		f.fill(true)
		j, err := s.Join(t.Context(), queue, contender())
		if err != nil || j.First {
			t.Fatalf("%+v, %v", j, err)
		}
		if _, err := s.Join(t.Context(), queue, contender()); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("the next request: %v", err)
		}
		f.fill(true)
		p, err := s.Convert(t.Context(), queue, j, "y", nil)
		if err != nil || p.Mode != "y" {
			t.Fatalf("%+v, %v", p, err)
		}
		j.Place = p
		if _, err := s.Convert(t.Context(), queue, j, "z", nil); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("the next request: %v", err)
		}
		if v := ahead(t, s, p); len(v.Ahead) != 0 || !v.Last {
			t.Errorf("%+v", v)
		}
		check(t, s.Leave(t.Context(), queue, p))
	})
}

// TestPassThatCrossesTheQuotaHasLeft: it was applied, although it was refused.
func TestPassThatCrossesTheQuotaHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, crossing := range []bool{false, true} {
			f, c := newFake(t)
			s := open(t, f, c)
			a, b := contender(), contender()
			a.Follows, b.Follows = true, true
			join(t, s, contender())
			own := join(t, s, a)
			join(t, s, b)
			f.fill(crossing)
			if err := s.Pass(t.Context(), queue, own.Place); err != nil {
				t.Errorf("crossing %t: %v", crossing, err)
			}
			if left := ids(t, s); slices.Contains(left, a.ID) {
				t.Errorf("crossing %t: left %q", crossing, left)
			}
		}
	})
}

// F1 without space: Forget returns nil only if no late join can be applied. F2:
// other contenders are not affected.
func TestForgetWithoutSpace(t *testing.T) {
	fail := func(f *fake) (late **pb.TxnRequest) {
		late = new(*pb.TxnRequest)
		f.before = func(_ context.Context, r *pb.TxnRequest) error {
			*late = r
			return rpctypes.ErrGRPCTimeout
		}
		return late
	}
	for name, c := range map[string]struct {
		before func(t *testing.T, f *fake, s *session, me driver.Contender) (late **pb.TxnRequest)
		nil    bool
	}{
		"never joined": {func(*testing.T, *fake, *session, driver.Contender) **pb.TxnRequest { return nil }, true},
		"joined": {func(t *testing.T, _ *fake, s *session, me driver.Contender) **pb.TxnRequest {
			join(t, s, me)
			return nil
		}, true},
		"a late conversion": {func(t *testing.T, f *fake, s *session, me driver.Contender) **pb.TxnRequest {
			j := join(t, s, me)
			late := fail(f)
			_, _ = s.Convert(t.Context(), queue, j, "y", nil)
			return late
		}, true},
		"a late join": {func(t *testing.T, f *fake, s *session, me driver.Contender) **pb.TxnRequest {
			late := fail(f)
			_, _ = s.Join(t.Context(), queue, me)
			return late
		}, false},
		"a late join, fenced off": {func(t *testing.T, f *fake, s *session, me driver.Contender) **pb.TxnRequest {
			late := fail(f)
			_, _ = s.Join(t.Context(), queue, me)
			f.before = nil
			me.Again = true
			join(t, s, me)
			return late
		}, true},
		"a join refused": {func(t *testing.T, f *fake, s *session, me driver.Contender) **pb.TxnRequest {
			f.fill(false)
			_, _ = s.Join(t.Context(), queue, me)
			return nil
		}, true},
		"a join given up": {func(t *testing.T, f *fake, s *session, me driver.Contender) **pb.TxnRequest {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(driver.ErrRefused) // not an error of the service
			late := new(*pb.TxnRequest)
			f.before = func(ctx context.Context, r *pb.TxnRequest) error {
				*late = r
				return ctx.Err()
			}
			_, _ = s.Join(ctx, queue, me)
			return late
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, client := newFake(t)
				s := open(t, f, client)
				me, other := contender(), contender()
				join(t, s, other)
				late := c.before(t, f, s, me)
				f.fill(false)
				err := s.Forget(t.Context(), queue, me.ID)
				if c.nil && err != nil || !c.nil && !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("Forget = %v", err)
				}
				if got := ids(t, s); !slices.Equal(got, []string{other.ID}) {
					t.Errorf("queue %q", got)
				}
				f.before = nil
				if !c.nil { // there is space again
					check(t, s.Forget(t.Context(), queue, me.ID))
				}
				if late != nil {
					_, err := f.Txn(t.Context(), *late)
					check(t, err)
				}
				if got := ids(t, s); !slices.Equal(got, []string{other.ID}) {
					t.Errorf("a ghost in the queue: %q", got)
				}
			})
		})
	}
}

// TestForgetWithoutSpaceDuringAJoin, which may still be applied.
func TestForgetWithoutSpaceDuringAJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		me := contender()
		join := joinHeld(t, f, s, me)
		f.fill(false)
		for range 2 {
			err := s.Forget(t.Context(), queue, me.ID)
			if !errors.Is(err, driver.ErrUnavailable) || !answer.Is(err, rpctypes.ErrNoSpace) {
				t.Errorf("Forget = %v, want the service's error as the cause", err)
			}
		}
		check(t, join())
		f.before = nil
		check(t, s.Forget(t.Context(), queue, me.ID))
		if got := ids(t, s); len(got) != 0 {
			t.Errorf("queue %q", got)
		}
	})
}

// TestRecordThatCrossesTheQuotaIsFound: it was written, although it was
// refused.
func TestRecordThatCrossesTheQuotaIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		f.fill(true)
		v, err := s.SetRecord(t.Context(), "m/x", []byte("one"), 0)
		if err != nil || v == 0 {
			t.Fatalf("the write that crosses the quota: %v, %v", v, err)
		}
		if _, err := s.SetRecord(t.Context(), "m/x", []byte("two"), v); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("the next request: %v", err)
		}
		if r, err := s.Record(t.Context(), "m/x", driver.Any); err != nil || string(r.Value) != "one" || r.Version != v {
			t.Errorf("the record is %+v, %v", r, err)
		}
	})
}

// TestCloseClosesTheClientWithADeadContext: a Close that has waited for a
// silent service has a dead context.
func TestCloseClosesTheClientWithADeadContext(t *testing.T) {
	for range 30 {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
		check(t, err)
		d := &source{lock: newLock(), client: c}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = d.close(ctx)
		select {
		case <-c.Ctx().Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("the client is open after close: %v", err)
		}
	}
}
