package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// try joins alone, and reports the requests and whether one of them could
// write.
func try(t *testing.T, f *fake, s driver.Session) (got driver.Joined, requests int, writes bool, err error) {
	t.Helper()
	f.mu.Lock()
	before := len(f.txns)
	f.mu.Unlock()
	requests = f.sent(func() {
		x := follower()
		x.Alone = true
		got, err = s.Join(t.Context(), queue, x)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	return got, requests, slices.ContainsFunc(f.txns[before:], mayWrite), err
}

func mayWrite(r *pb.TxnRequest) bool {
	return slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		return op.GetRequestRange() == nil
	})
}

// Every member applies a transaction that may write, and compares the queue's
// keys meanwhile, even if it is refused.
func TestTriesOfATakenNameAreReads(t *testing.T) {
	for name, o := range map[string][]Option{"native": nil, "concurrency": {Layout(Concurrency)}} {
		t.Run(name, func(t *testing.T) {
			f, c := newFake(t)
			s, other := openWith(t, f, c, o...), openWith(t, f, c, o...)
			held := join(t, other, follower())
			for i := range 5 {
				_, n, writes, err := try(t, f, s)
				if !errors.Is(err, driver.ErrTaken) || writes != (i == 0) || i > 0 && n != 1 {
					t.Errorf("try %d: %v after %d requests, writes: %t", i, err, n, writes)
				}
			}
			check(t, other.Leave(t.Context(), queue, held.Place))
			for i, want := range []int{2, 1} { // a read, once
				j, n, _, err := try(t, f, s)
				if check(t, err); !j.First || n != want {
					t.Errorf("free, try %d: %+v after %d requests, want %d", i, j, n, want)
				}
				check(t, s.Leave(t.Context(), queue, j.Place))
			}
		})
	}
}

// F1: a try that is forgotten while it reads does not join. In layout
// concurrency it has no key yet, and a contender that is forgotten while it
// gets a lease does not join, either.
func TestForgetOvertakesWhatAJoinDoesFirst(t *testing.T) {
	for name, o := range map[string][]Option{"native": nil, "concurrency": {Layout(Concurrency)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c := newFake(t)
				s, other := openWith(t, f, c, o...), openWith(t, f, c, o...)
				held := join(t, other, follower())
				_, _, _, _ = try(t, f, s)
				check(t, other.Leave(t.Context(), queue, held.Place))
				me := contender()
				me.Alone = true
				f.before = func(ctx context.Context, _ *pb.TxnRequest) error {
					f.before = nil
					return s.Forget(ctx, queue, me.ID)
				}
				if _, err := s.Join(t.Context(), queue, me); !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("got %v", err)
				}
				if got := ids(t, s); len(got) != 0 {
					t.Errorf("queue %q", got)
				}
				if name == "native" {
					return
				}
				join(t, s, contender())
				me = contender()
				c.Lease = &granting{c.Lease, func() { check(t, s.Forget(t.Context(), queue, me.ID)) }}
				if _, err := s.Join(t.Context(), queue, me); !errors.Is(err, driver.ErrUnavailable) {
					t.Errorf("got %v", err)
				}
				if got := ids(t, s); len(got) != 1 {
					t.Errorf("queue %q", got)
				}
				join(t, s, contender()) // the lease is free
				if n := f.granted(); n != 3 {
					t.Errorf("%d leases, want one of each session and the further one", n)
				}
			})
		})
	}
}

// granting calls granted before a lease is granted.
type granting struct {
	clientv3.Lease
	granted func()
}

func (g *granting) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	g.granted()
	return g.Lease.Grant(ctx, ttl)
}

// R2, J5: a read alone would not show that the session is over.
func TestTryOfATakenNameNoticesTheEndOfItsSession(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	join(t, other, follower())
	_, _, _, _ = try(t, f, s)
	f.mu.Lock()
	delete(f.kvs, s.Sentinel.Key) // without an event
	f.mu.Unlock()
	if _, _, _, err := try(t, f, s); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("%v", err)
	}
}

// A marker is no contender, so the transaction decides, and sweeps it.
func TestTryFindsMarkersOnly(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	held := join(t, s, follower())
	_, _, _, _ = try(t, f, s)
	check(t, s.Leave(t.Context(), queue, held.Place))
	leaveMarker(t, f, c, s, contender(), false)
	if j, _, _, err := try(t, f, s); err != nil || !j.First {
		t.Errorf("%+v, %v", j, err)
	}
}

// A tail key may name an entry that is gone. The join that finds it deletes it.
func TestTryWithALeftOverTailKey(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	put(t, c, s.keys.Tail(queue))
	for _, want := range []int{2, 1} {
		j, n, _, err := try(t, f, s)
		if check(t, err); !j.First || n != want {
			t.Errorf("%+v after %d requests, want %d", j, n, want)
		}
		check(t, s.Leave(t.Context(), queue, j.Place))
	}
}

// No join compares more than a few keys of a long queue, which every member
// would do while it applies the transaction.
func TestJoinsCompareFewKeysOfALongQueue(t *testing.T) {
	const long = 1000
	compared := func(f *fake, do func()) int {
		before := f.compared
		do()
		return f.compared - before
	}
	for name, contender := range map[string]func() driver.Contender{
		"that follows": follower, "that counts permits": contender,
	} {
		t.Run(name, func(t *testing.T) {
			f, c := newFake(t)
			s := open(t, f, c)
			for range long {
				join(t, s, contender())
			}
			if n := compared(f, func() { join(t, s, contender()) }); n > 5 {
				t.Errorf("a join compares %d keys", n)
			}
			f.compared = 0
			again := contender()
			again.Again = true
			if n := compared(f, func() { join(t, s, again) }); n > 5 {
				t.Errorf("a repeated join compares %d keys", n)
			}
		})
	}
	f, c := newFake(t)
	s := open(t, f, c)
	for range long {
		join(t, s, follower())
	}
	for i := range 2 {
		if n := compared(f, func() { _, _, _, _ = try(t, f, open(t, f, c)) }); n > 5 {
			t.Errorf("try %d compares %d keys", i, n)
		}
	}
}

// TestUncontendedJoinReturnsToOneRequest after contention: the next contender
// that reads the queue finds that it is alone.
func TestUncontendedJoinReturnsToOneRequest(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	a, b := join(t, s, contender()), join(t, s, contender())
	check(t, s.Leave(t.Context(), queue, a.Place))
	check(t, s.Leave(t.Context(), queue, b.Place))
	j := join(t, s, contender()) // as in a contended queue
	if !j.First {
		v, err := s.Ahead(t.Context(), queue, j.Place)
		if check(t, err); len(v.Ahead) > 0 || !v.Last {
			t.Fatalf("%+v", v)
		}
	}
	check(t, s.Leave(t.Context(), queue, j.Place))
	if n := f.sent(func() { j = join(t, s, contender()) }); n != 1 || !j.First {
		t.Errorf("%+v after %d requests", j, n)
	}
}

// A member sorts a queue to find its first entry. That entry is the first for
// as long as it exists, so the next reads find it alone.
func TestFirstEntryOfALongQueueIsReadAlone(t *testing.T) {
	const long = 1000
	for name, o := range map[string][]Option{"native": nil, "concurrency": {Layout(Concurrency)}} {
		t.Run(name, func(t *testing.T) {
			f, c := newFake(t)
			s := openWith(t, f, c, o...)
			var all []driver.Joined
			for range long {
				all = append(all, join(t, s, follower()))
			}
			first := func() (driver.Entry, int) {
				t.Helper()
				before := f.fetched
				got, err := s.List(t.Context(), queue, 1)
				if check(t, err); len(got) != 1 {
					t.Fatalf("%d entries", len(got))
				}
				return got[0], f.fetched - before
			}
			for i := range 3 {
				got, n := first()
				if i > 0 && n > 5 || got.Token != all[0].Token || string(got.Value) != "v" {
					t.Errorf("read %d of %d keys: %+v, want token %d", i, n, got, all[0].Token)
				}
			}
			_, err := s.Capabilities().HeadWatcher.Head(t.Context(), queue, driver.Any)
			check(t, err)
			for i := range 3 { // the first is a transaction
				before := f.fetched
				if _, _, _, err := try(t, f, s); !errors.Is(err, driver.ErrTaken) {
					t.Fatal(err)
				}
				if n := f.fetched - before; i > 0 && n > 5 {
					t.Errorf("try %d reads %d keys", i, n)
				}
			}
			check(t, s.Leave(t.Context(), queue, all[0].Place))
			if got, _ := first(); got.Token != all[1].Token {
				t.Errorf("%+v, want token %d", got, all[1].Token)
			}
			if got, n := first(); got.Token != all[1].Token || n > 5 {
				t.Errorf("read of %d keys: %+v, want token %d", n, got, all[1].Token)
			}
		})
	}
}
