package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

const queue = driver.Queue("mutex/x")

const someID = "0123456789abcdef"

func join(t *testing.T, s driver.Session, c driver.Contender) driver.Joined {
	t.Helper()
	j, err := s.Join(t.Context(), queue, c)
	check(t, err)
	return j
}

func ids(t *testing.T, s driver.Session) (ids []string) {
	t.Helper()
	entries, err := s.List(t.Context(), queue, 0)
	check(t, err)
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestJoinAndLeaveTakeOneRequest(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	var own driver.Joined
	if n := f.sent(func() { own = join(t, s, contender()) }); n != 1 || !own.First {
		t.Errorf("joining: %d requests, %+v", n, own)
	}
	if n := f.sent(func() { check(t, s.Leave(t.Context(), queue, own.Place)) }); n != 1 {
		t.Errorf("leaving: %d requests", n)
	}
}

// A tail key may outlive its contender, and is no entry (J6).
func TestAloneJoinsAQueueWithAStaleTailKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s, other := open(t, f, c), open(t, f, c)
		a, b, alone := contender(), contender(), contender()
		a.Follows, b.Follows, alone.Follows, alone.Alone = true, true, true, true
		first := join(t, s, a)
		join(t, s, b)
		check(t, s.Forget(t.Context(), queue, b.ID))
		check(t, s.Leave(t.Context(), queue, first.Place))
		sent := 0
		f.before = func(context.Context, *pb.TxnRequest) error {
			if sent++; sent > 10 { // stops an endless loop
				return rpctypes.ErrGRPCTimeout
			}
			return nil
		}
		if j, err := other.Join(t.Context(), queue, alone); err != nil || !j.First {
			t.Errorf("after %d requests: %+v, %v", sent, j, err)
		}
		behind := contender()
		behind.Follows = true
		if j := join(t, s, behind); j.Nearest != (driver.Place{}) {
			t.Errorf("behind %+v, which the tail key should not name any more", j.Nearest)
		}
	})
}

// So may markers, in any number.
func TestAloneJoinsAQueueOfMarkers(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	f.mu.Lock()
	for range 2*mostMarks + 1 {
		key := keys.Marker(s.keys.Contender(queue, s.ID(), contender().ID) + "x")
		f.rev++
		f.kvs[key] = &mvccpb.KeyValue{Key: []byte(key), Value: []byte("2"), Lease: int64(s.Lease), CreateRevision: f.rev, ModRevision: f.rev}
	}
	f.mu.Unlock()
	alone := contender()
	alone.Follows, alone.Alone = true, true
	if j, err := s.Join(t.Context(), queue, alone); err != nil || !j.First {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestJoinRefusesWhatCannotBeAKey(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	for _, bad := range []driver.Contender{{}, {ID: "x", Mode: "x"}, {ID: someID}, {ID: someID, Mode: "a-b"}, {ID: someID, Mode: "12345678901234567"}} {
		if _, err := s.Join(t.Context(), queue, bad); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// F1: a join under way when it is forgotten is not applied, nor sent again.
func TestForgetOvertakesJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		me := contender()
		answer := joinHeld(t, f, s, me)
		check(t, s.Forget(t.Context(), queue, me.ID))
		if err := answer(); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if got := ids(t, s); len(got) != 0 {
			t.Errorf("queue %q", got)
		}
	})
}

// F2: another contender's join survives any number of Forgets, at one request
// more.
func TestJoinSurvivesForgetOfAnother(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	n := f.sent(func() {
		answer := joinHeld(t, f, s, contender())
		for range 3 {
			check(t, s.Forget(t.Context(), queue, contender().ID))
		}
		check(t, answer())
	})
	if n != 3+2 {
		t.Errorf("%d requests", n)
	}
}

// joinHeld starts a join whose first transaction is held, and returns a
// function that releases it and returns the join's error.
func joinHeld(t *testing.T, f *fake, s *session, me driver.Contender) (answer func() error) {
	t.Helper()
	arrived, release, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	held := false
	f.before = func(_ context.Context, r *pb.TxnRequest) error {
		if held || len(r.Success) == 0 {
			return nil
		}
		if key := r.Success[0].GetRequestPut().GetKey(); strings.Contains(string(key), me.ID) {
			held = true
			close(arrived)
			<-release
		}
		return nil
	}
	go func() {
		_, err := s.Join(t.Context(), queue, me)
		result <- err
	}()
	<-arrived
	return func() error {
		close(release)
		return <-result
	}
}

// A Forget alone does not refuse a join with Alone.
func TestAloneSurvivesForgetOfAnother(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	me := contender()
	me.Alone = true
	f.before = func(ctx context.Context, _ *pb.TxnRequest) error {
		f.before = nil
		return s.Forget(ctx, queue, someID)
	}
	if !join(t, s, me).First {
		t.Error("alone, and not first")
	}
}

// After an outage all joins of a session are sent again at once. Each raises
// the epoch and thereby refuses the others, so only its first attempt may do
// that.
func TestJoinSentAgainRaisesTheEpochOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		var raises []bool
		f.before = func(ctx context.Context, r *pb.TxnRequest) error {
			raises = append(raises, r.Failure[len(r.Failure)-1].GetRequestTxn() != nil)
			if len(raises) < 3 { // another join raises it meanwhile, twice
				before := f.before
				f.before = nil
				defer func() { f.before = before }()
				return s.Forget(ctx, queue, someID)
			}
			return nil
		}
		me := contender()
		me.Again = true
		join(t, s, me)
		if !slices.Equal(raises, []bool{true, false, false}) {
			t.Errorf("attempts that raise the epoch: %v", raises)
		}
	})
}

// A lost reply leaves an old epoch in memory; the next join learns the new one.
func TestJoinAfterLostForget(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	f.loseReply()
	if err := s.Forget(t.Context(), queue, someID); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatal(err)
	}
	if n := f.sent(func() { join(t, s, follower()) }); n != 3 { // refused; reads why; created
		t.Errorf("%d requests", n)
	}
	for _, want := range []int{2, 1} { // one to find that the queue is not empty
		if n := f.sent(func() { join(t, s, follower()) }); n != want {
			t.Errorf("then %d requests, want %d", n, want)
		}
	}
}

// TestLostSessionIsFoundByItsSentinel, and makes no other (R2).
func TestLostSessionIsFoundByItsSentinel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, call := range map[string]func(s *session) error{
			"Forget": func(s *session) error { return s.Forget(t.Context(), queue, someID) },
			"SetRecord": func(s *session) error {
				_, err := s.SetRecord(t.Context(), queue, []byte("r"), 0)
				return err
			},
		} {
			f, c := newFake(t)
			s := open(t, f, c)
			f.mu.Lock()
			delete(f.kvs, s.Sentinel.Key) // without an event
			f.mu.Unlock()
			err := call(s)
			if !errors.Is(err, driver.ErrSessionLost) || s.Alive() == nil || len(f.kvs) != 0 {
				t.Errorf("%s = %v; alive: %v; left behind: %v", name, err, s.Alive(), f.kvs)
			}
		}
	})
}

func follower() driver.Contender {
	x := contender()
	x.Follows = true
	return x
}

// leaveMarker leaves the marker of a contender that has left s, and maybe an
// entry of another session behind it.
func leaveMarker(t *testing.T, f *fake, client *clientv3.Client, s *session, x driver.Contender, behind bool) {
	t.Helper()
	x.Follows = true
	other := open(t, f, client)
	ahead := join(t, s, follower())
	left := join(t, s, x)
	check(t, s.Pass(t.Context(), queue, ahead.Place))
	join(t, other, follower())
	check(t, s.Pass(t.Context(), queue, left.Place))
	if !behind {
		check(t, other.Close(t.Context())) // without deleting the marker
	}
	key := s.keys.Contender(queue, s.ID(), x.ID) + x.Mode
	if f.kvs[keys.Marker(key)] == nil || f.kvs[key] != nil {
		t.Fatal("no marker, or still an entry")
	}
}

// TestMarkerIsNoEntry: a marker has the name of a contender that has left, and
// the session reuses that name. A repeated join whose first request was lost
// must not take the marker for its entry.
func TestMarkerIsNoEntry(t *testing.T) {
	for _, c := range []struct {
		name          string
		alone, behind bool
	}{{"the queue is empty", false, false}, {"alone", true, false}, {"an entry is queued", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, client := newFake(t)
				s, x := open(t, f, client), contender()
				leaveMarker(t, f, client, s, x, c.behind)

				x.Follows, x.Again, x.Alone = true, true, c.alone
				j := join(t, s, x)
				kv := f.kvs[s.keys.Contender(queue, s.ID(), x.ID)+x.Mode]
				if kv == nil || driver.Token(kv.CreateRevision) != j.Token || c.alone && !j.First || c.behind && j.First {
					t.Errorf("joined with %+v, and there is %v", j, kv)
				}
			})
		})
	}
}

// TestMarkerDoesNotShowARefusedJoin: of a join refused for want of space, only
// its entry shows that it was applied.
func TestMarkerDoesNotShowARefusedJoin(t *testing.T) {
	f, client := newFake(t)
	s, x := open(t, f, client), contender()
	leaveMarker(t, f, client, s, x, true)
	f.before = func(_ context.Context, r *pb.TxnRequest) error {
		if len(r.Compare) > 0 {
			return rpctypes.ErrGRPCNoSpace
		}
		return nil
	}
	defer func() { f.before = nil }()
	if j, err := s.Join(t.Context(), queue, x); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("joined with %+v, %v", j, err)
	}
}
