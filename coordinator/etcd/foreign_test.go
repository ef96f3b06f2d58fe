package etcd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// openForeign starts a session with the layout of package concurrency.
func openForeign(t *testing.T, f *fake, c *clientv3.Client) driver.Session {
	t.Helper()
	return openWith(t, f, c, Namespace("ns"), Layout(Concurrency))
}

// bareHex formats a lease as package concurrency does.
func bareHex(lease clientv3.LeaseID) string { return strconv.FormatInt(int64(lease), 16) }

func bareID(s driver.Session) string { return strings.TrimLeft(s.ID(), "0") }

// keys are the keys of the queue, in order of creation.
func (f *fake) keys() (keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kvs := f.inRange([]byte("ns/x/"), []byte(clientv3.GetPrefixRangeEnd("ns/x/")))
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return int(a.CreateRevision - b.CreateRevision) })
	for _, kv := range kvs {
		if bare := strings.TrimPrefix(string(kv.Key), "ns/x/"); bare != bareHex(clientv3.LeaseID(kv.Lease)) {
			keys = append(keys, "stray "+bare)
		} else {
			keys = append(keys, bare)
		}
	}
	return keys
}

// A refused try reads who holds. The next one reads that key alone, with its
// lease, which shows that it is a contender's.
func TestForeignTryAfterTheHolderWasReadIsTaken(t *testing.T) {
	f, c := newFake(t)
	g, other := openForeign(t, f, c), openForeign(t, f, c)
	join(t, other, contender())
	for i := range 3 {
		if _, _, _, err := try(t, f, g); !errors.Is(err, driver.ErrTaken) {
			t.Errorf("try %d: %v", i, err)
		}
		_, err := g.List(t.Context(), queue, 1)
		check(t, err)
	}
}

// A Forget without an answer may be applied late, when another contender of the
// session would have the key.
func TestLateForeignForgetDeletesNoKeyOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g, other := openForeign(t, f, c), openForeign(t, f, c)
		me := contender()
		f.loseReply()
		if _, err := g.Join(t.Context(), queue, me); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatal(err)
		}
		var late *pb.TxnRequest
		f.before = func(_ context.Context, r *pb.TxnRequest) error {
			f.before, late = nil, r
			return rpctypes.ErrGRPCTimeout
		}
		if err := g.Forget(t.Context(), queue, me.ID); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatal(err)
		}
		check(t, g.Forget(t.Context(), queue, me.ID))
		held := join(t, g, contender())
		next := join(t, other, contender())
		_, err := f.Txn(t.Context(), late)
		check(t, err)
		v, err := other.Ahead(t.Context(), queue, next.Place)
		if check(t, err); !held.First || len(v.Ahead) != 1 || v.Ahead[0].Key != held.Place.Key {
			t.Errorf("%+v, and ahead of the next %+v", held, v.Ahead)
		}
	})
}

func TestForeignJoinAndLeaveAreOneRequestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g, other := openForeign(t, f, c), openForeign(t, f, c)
		var first, second driver.Joined
		a, b := contender(), contender()
		if n := f.sent(func() { first = join(t, g, a) }); n != 1 {
			t.Errorf("Join took %d requests", n)
		}
		second = join(t, other, b)
		if !first.First || second.First || second.Token <= first.Token || first.Place.ID != a.ID || first.Place.Session != g.ID() {
			t.Errorf("first %+v, second %+v", first, second)
		}
		if keys := f.keys(); !slices.Equal(keys, []string{bareID(g), bareID(other)}) {
			t.Errorf("keys %q", keys)
		}
		stolen := first.Place
		stolen.ID, stolen.Session = b.ID, other.ID()
		for _, p := range []driver.Place{first.Place, stolen} {
			if err := other.Leave(t.Context(), queue, p); !errors.Is(err, driver.ErrGone) {
				t.Errorf("another session's place: %v", err)
			}
		}
		if n := f.sent(func() {
			check(t, g.Leave(t.Context(), queue, first.Place))
		}); n != 1 {
			t.Errorf("Leave took %d requests", n)
		}
	})
}

// TestContendersOfOneSessionHaveALeaseEach while they contend for one name;
// then one lease is enough again.
func TestContendersOfOneSessionHaveALeaseEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g := openForeign(t, f, c)
		a, b := join(t, g, contender()), join(t, g, contender())
		keys := f.keys()
		if len(keys) != 2 || keys[0] == keys[1] || keys[0] != bareID(g) || b.First {
			t.Fatalf("keys %q, second %+v", keys, b)
		}
		elsewhere, err := g.Join(t.Context(), "mutex/y", contender())
		if err != nil || !strings.HasPrefix(elsewhere.Place.Key, "ns/y/"+bareID(g)) {
			t.Errorf("another queue takes another lease: %+v, %v", elsewhere, err)
		}
		renew := func(want ...string) {
			t.Helper()
			f.kept = nil
			check(t, g.Renew(t.Context()))
			var kept []string
			for _, id := range f.kept {
				kept = append(kept, bareHex(id))
			}
			slices.Sort(kept)
			slices.Sort(want)
			if !slices.Equal(kept, want) {
				t.Errorf("renewed %q, want %q", kept, want)
			}
		}
		renew(keys...)
		for _, j := range []driver.Joined{a, b} {
			check(t, g.Leave(t.Context(), queue, j.Place))
		}
		again := join(t, g, contender())
		if got := f.keys(); !slices.Equal(got, keys[:1]) || again.Place.Key == a.Place.Key {
			t.Errorf("keys %q, %+v", got, again)
		}
		renew(keys...) // finds it idle
		renew(keys[0]) // revokes it
		if n := f.granted(); n != 1 {
			t.Errorf("%d leases are left at the service", n)
		}
	})
}

// granted counts the live leases.
func (f *fake) granted() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ttl := range f.leases {
		if ttl > 0 {
			n++
		}
	}
	return n
}

// TestALostLeaseEndsTheSession: the key of one contender is gone.
func TestALostLeaseEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g := openForeign(t, f, c)
		join(t, g, contender())
		join(t, g, contender())
		second, err := strconv.ParseInt(f.keys()[1], 16, 64)
		check(t, err)
		_, err = c.Revoke(t.Context(), clientv3.LeaseID(second))
		check(t, err)
		if err := g.Renew(t.Context()); !errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("Renew: %v", err)
		}
		wantDone(t, g)
	})
}

// TestForeignJoinsAfterALostReply: the key is found, or certainly removed.
func TestForeignJoinsAfterALostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g := openForeign(t, f, c)
		x := contender()
		f.loseReply()
		if _, err := g.Join(t.Context(), queue, x); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("a lost reply: %v", err)
		}
		x.Again = true
		if j := join(t, g, x); j.Place.ID != x.ID || !j.First {
			t.Errorf("again: %+v", j)
		}
		if err := g.Forget(t.Context(), queue, x.ID); err != nil || len(f.keys()) != 0 {
			t.Errorf("forgotten: %v, keys %q", err, f.keys())
		}

		// A late request arrives after the contender was forgotten.
		y := contender()
		var late *pb.TxnRequest
		f.before = func(_ context.Context, r *pb.TxnRequest) error {
			f.before, late = nil, r
			return rpctypes.ErrGRPCTimeout
		}
		if _, err := g.Join(t.Context(), queue, y); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("a lost request: %v", err)
		}
		check(t, g.Forget(t.Context(), queue, y.ID))
		if resp, err := f.Txn(t.Context(), late); err != nil || resp.Succeeded || len(f.keys()) != 0 {
			t.Errorf("the late request was applied: %v, keys %q", err, f.keys())
		}
		if j := join(t, g, contender()); !j.First { // with the lease that is free again
			t.Errorf("%+v", j)
		}
		if n := f.granted(); n != 1 {
			t.Errorf("%d leases", n)
		}
	})
}

// TestStrayKeysMakeAQueueAmbiguous, if they are ahead.
func TestStrayKeysMakeAQueueAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g := openForeign(t, f, c)
		put := func(key string, lease clientv3.LeaseID) {
			t.Helper()
			_, err := c.Txn(t.Context()).Then(clientv3.OpPut(key, "", clientv3.WithLease(lease))).Commit()
			check(t, err)
		}
		first := join(t, g, contender())
		put("ns/x/behind", 0)
		if view, err := g.Ahead(t.Context(), queue, first.Place); err != nil || len(view.Ahead) != 0 {
			t.Errorf("stray behind: %+v, %v", view, err)
		}
		second := join(t, g, contender())
		_, err := g.Ahead(t.Context(), queue, second.Place)
		const command = "etcdctl del 'ns/x/behind'"
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), command) {
			t.Errorf("stray ahead: %v", err)
		}
		alone := contender()
		alone.Alone = true
		if _, err := g.Join(t.Context(), queue, alone); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), command) {
			t.Errorf("Join with Alone: %v", err)
		}
		if _, err := g.Ahead(t.Context(), queue, driver.Place{}); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("the whole queue: %v", err)
		}
		if err := g.Leave(t.Context(), queue, second.Place); err != nil {
			t.Errorf("Leave: %v", err)
		}
	})
}

func TestForeignSessionRefusesWhatTheLayoutLacks(t *testing.T) {
	f, c := newFake(t)
	g := openForeign(t, f, c)
	ctx := t.Context()
	x := contender()
	x.Record = 7
	_, join := g.Join(ctx, queue, x)
	_, record := g.Record(ctx, queue, driver.Any)
	_, set := g.SetRecord(ctx, queue, []byte("x"), 0)
	_, queues := g.Capabilities().Operator.Queues(ctx)
	_, layout := FromClient(c, Layout("kazoo"))
	for what, err := range map[string]error{
		"Join": join, "Record": record, "SetRecord": set, "Queues": queues, "Layout": layout,
	} {
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSharedForgetWithoutSpaceNamesItsCause: a join whose reply was lost may
// still be applied, and etcd refuses the epoch that would prevent it.
func TestSharedForgetWithoutSpaceNamesItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g, me := openForeign(t, f, c), contender()
		f.before = func(context.Context, *pb.TxnRequest) error { return rpctypes.ErrGRPCTimeout }
		_, _ = g.Join(t.Context(), queue, me)
		f.fill(false)
		err := g.Forget(t.Context(), queue, me.ID)
		if !errors.Is(err, driver.ErrUnavailable) || !answer.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("Forget = %v, want the service's error as the cause", err)
		}
	})
}

// TestForeignLeaveOfAnEarlierLifeKeepsTheLease: ID and key of a contender are
// reused. A late Leave must not free the later contender's lease.
func TestForeignLeaveOfAnEarlierLifeKeepsTheLease(t *testing.T) {
	f, c := newFake(t)
	g, x := openForeign(t, f, c), contender()
	old := join(t, g, x)
	check(t, g.Leave(t.Context(), queue, old.Place))
	now := join(t, g, x)
	for range 2 {
		if err := g.Leave(t.Context(), queue, old.Place); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave of the earlier entry: %v", err)
		}
	}
	if other := join(t, g, contender()); other.First {
		t.Errorf("%+v is first together with %+v", other, now)
	}
	if err := g.Leave(t.Context(), queue, now.Place); err != nil {
		t.Errorf("Leave: %v", err)
	}
}

// TestRenewalsThatOverlapKeepTheSession: one revokes an idle lease while the
// other renews it.
func TestRenewalsThatOverlapKeepTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g := openForeign(t, f, c)
		a, b := join(t, g, contender()), join(t, g, contender())
		check(t, g.Leave(t.Context(), queue, a.Place))
		check(t, g.Leave(t.Context(), queue, b.Place))
		extra := clientv3.LeaseID(0)
		for id := range f.leases {
			extra = max(extra, id)
		}
		var renewed error
		overlaps := &overlapping{Lease: c.Lease, extra: extra}
		overlaps.renew = func() { renewed = g.Renew(t.Context()) }
		c.Lease = overlaps
		err := g.Renew(t.Context())
		if err = errors.Join(err, renewed); err != nil || overlaps.renew != nil || f.granted() != 1 {
			t.Errorf("Renew: %v, %d leases", err, f.granted())
		}
		check(t, g.Renew(t.Context()))
	})
}

// overlapping runs another renewal just before a lease is renewed.
type overlapping struct {
	clientv3.Lease
	extra clientv3.LeaseID
	renew func()
}

func (o *overlapping) KeepAliveOnce(
	ctx context.Context, id clientv3.LeaseID,
) (*clientv3.LeaseKeepAliveResponse, error) {
	if renew := o.renew; id == o.extra && renew != nil {
		o.renew = nil
		renew()
	}
	return o.Lease.KeepAliveOnce(ctx, id)
}

// TestForeignKeyOfAnotherProgramIsNotTaken: it has the name that the session's
// first contender would have.
func TestForeignKeyOfAnotherProgramIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g := openForeign(t, f, c)
		put := clientv3.OpPut("ns/x/"+bareID(g), "", clientv3.WithLease(1000))
		_, err := c.Txn(t.Context()).Then(put).Commit()
		check(t, err)
		if j, err := g.Join(t.Context(), queue, contender()); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("joined with %+v, %v", j, err)
		}
		if n := len(f.keys()); n != 1 {
			t.Errorf("%d keys", n)
		}
	})
}

// TestForeignJoinSentAgainRulesOutTheFirst: applied after the entry has left,
// the first request would make it again.
func TestForeignJoinSentAgainRulesOutTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g := openForeign(t, f, c)
		x := contender()
		var late *pb.TxnRequest
		f.before = func(_ context.Context, r *pb.TxnRequest) error {
			f.before, late = nil, r
			return rpctypes.ErrGRPCTimeout
		}
		if _, err := g.Join(t.Context(), queue, x); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("a lost request: %v", err)
		}
		x.Again = true
		check(t, g.Leave(t.Context(), queue, join(t, g, x).Place))
		if resp, err := f.Txn(t.Context(), late); err != nil || resp.Succeeded || len(f.keys()) != 0 {
			t.Errorf("the first request was applied: %v, keys %q", err, f.keys())
		}
	})
}

// TestForeignViewIsAsNewAsItsOwnJoin is V1 on a member that is behind.
func TestForeignViewIsAsNewAsItsOwnJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		g := openForeign(t, f, c)
		defer f.lag()()
		first, me := join(t, g, contender()), join(t, g, contender())
		v, err := g.Ahead(t.Context(), queue, me.Place)
		if check(t, err); len(v.Ahead) != 1 || v.Ahead[0].Key != first.Place.Key {
			t.Errorf("ahead: %+v", v)
		}
	})
}
