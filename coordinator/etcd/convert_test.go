package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/baton-go/baton/coordinator/driver"
)

func convert(t *testing.T, s driver.Converter, own driver.Joined, mode string) driver.Place {
	t.Helper()
	p, err := s.Convert(t.Context(), queue, own, mode, []byte("as "+mode))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// M1, M2
func TestConvertIsOneStep(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	own, behind := join(t, s, contender()), join(t, other, contender())
	result := awaitGone(t.Context(), other, own.Place)
	f.watching(t, 1, "/mutex/")
	rev := f.rev
	var place driver.Place
	if n := f.sent(func() { place = convert(t, s, own, "y") }); n != 1 || f.rev != rev+1 {
		t.Errorf("%d requests, %d revisions", n, f.rev-rev)
	}
	if err := told(t, result); err != nil {
		t.Errorf("who watched the old place: %v", err)
	}
	want := own.Place
	want.Key, want.Mode = place.Key, "y"
	if place != want || place.Key == own.Place.Key {
		t.Errorf("got %+v, want %+v", place, want)
	}
	entries, err := s.List(t.Context(), queue, 0)
	if err != nil || len(entries) != 2 || entries[0].Place != place ||
		entries[0].Token != own.Token || string(entries[0].Value) != "as y" {
		t.Errorf("%+v, %v", entries, err)
	}
	if v := ahead(t, other, behind.Place); len(v.Ahead) != 1 || v.Ahead[0] != place {
		t.Errorf("ahead %+v", v)
	}

	// There and back: another key or another life of it, each time.
	seen := map[string]bool{own.Place.Key: true}
	for _, mode := range []string{"x", "y", "x"} {
		seen[own.Place.Key], own.Place = true, place
		if place = convert(t, s, own, mode); seen[place.Key] {
			t.Errorf("handle %s is used again", place.Key)
		}
	}
	own.Place = place
	result = awaitGone(t.Context(), other, own.Place)
	f.watching(t, 1, "/mutex/")
	if err := s.Leave(t.Context(), queue, own.Place); err != nil {
		t.Error(err)
	}
	if err := told(t, result); err != nil {
		t.Error(err)
	}
	if got := ids(t, s); len(got) != 1 {
		t.Errorf("queue %q", got)
	}
}

// M3
func TestConvertAgainAfterALostReply(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	own := join(t, s, contender())
	f.loseReply()
	if _, err := s.Convert(t.Context(), queue, own, "y", nil); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatal(err)
	}
	place := convert(t, s, own, "y")
	if v := ahead(t, s, place); len(v.Ahead) != 0 || !v.Last {
		t.Errorf("%+v", v)
	}
	// Another mode is not what was asked for before.
	if _, err := s.Convert(t.Context(), queue, own, "z", nil); !errors.Is(err, driver.ErrGone) {
		t.Errorf("from the old place: %v", err)
	}
	own.Place = place
	_ = s.Leave(t.Context(), queue, place)
	if _, err := s.Convert(t.Context(), queue, own, "x", nil); !errors.Is(err, driver.ErrGone) {
		t.Errorf("after leaving: %v", err)
	}
	if len(f.kvs) != 1 {
		t.Errorf("left behind: %v", f.kvs)
	}
}

// L2: a contender that was converted there and back stands under a key that it had before. That was another entry.
func TestLeaveOfAnEarlierLifeDeletesNothing(t *testing.T) {
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
}

// M4: the request arrives after the contender was converted otherwise, has left, was forgotten, or closed its session.
func TestLateConversionMakesNothing(t *testing.T) {
	for name, end := range map[string]func(s *session, own driver.Joined) error{
		"leave":  func(s *session, own driver.Joined) error { return s.Leave(t.Context(), queue, own.Place) },
		"forget": func(s *session, own driver.Joined) error { return s.Forget(t.Context(), queue, own.Place.ID) },
		"close":  func(s *session, _ driver.Joined) error { return s.Close(t.Context()) },
		"convert": func(s *session, own driver.Joined) (err error) {
			own.Place, err = s.Convert(t.Context(), queue, own, "z", nil)
			return errors.Join(err, s.Leave(t.Context(), queue, own.Place))
		},
	} {
		f, c := newFake(t)
		s := open(t, f, c)
		own := join(t, s, contender())
		late := delay(f, func() { _, _ = s.Convert(t.Context(), queue, own, "y", nil) })
		if err := end(s, own); err != nil {
			t.Fatal(err)
		}
		late(t)
		for key := range f.kvs {
			if key != s.Sentinel.Key {
				t.Errorf("%s: a ghost in the queue: %s", name, key)
			}
		}
	}
}

// delay makes the transaction of do fail, and returns what delivers it late.
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

func TestConvertRefusesWhatIsNotItsOwn(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	own := join(t, s, contender())
	elsewhere := own
	elsewhere.Token++
	for name, call := range map[string]func() (driver.Place, error){
		"no mode":       func() (driver.Place, error) { return s.Convert(t.Context(), queue, own, "", nil) },
		"long mode":     func() (driver.Place, error) { return s.Convert(t.Context(), queue, own, "12345678901234567", nil) },
		"same mode":     func() (driver.Place, error) { return s.Convert(t.Context(), queue, own, "x", nil) },
		"another token": func() (driver.Place, error) { return s.Convert(t.Context(), queue, elsewhere, "y", nil) },
	} {
		if p, err := call(); !errors.Is(err, driver.ErrInvalid) || p != (driver.Place{}) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	for name, call := range map[string]func() (driver.Place, error){
		"another session": func() (driver.Place, error) { return other.Convert(t.Context(), queue, own, "y", nil) },
		"another queue":   func() (driver.Place, error) { return s.Convert(t.Context(), "mutex/y", own, "y", nil) },
		"nothing":         func() (driver.Place, error) { return s.Convert(t.Context(), queue, driver.Joined{}, "y", nil) },
	} {
		if p, err := call(); !errors.Is(err, driver.ErrGone) || p != (driver.Place{}) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	// The session ends just before the request arrives.
	f.before = func(ctx context.Context, _ *pb.TxnRequest) error {
		_, _ = c.Revoke(ctx, s.Lease)
		return nil
	}
	if _, err := s.Convert(t.Context(), queue, own, "y", nil); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("lost session: %v", err)
	}
}

// J2, J3, J6, F1
func TestConvertedStillStands(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	me := contender()
	own := join(t, s, me)
	own.Place = convert(t, s, own, "y")
	me.Again = true
	if again := join(t, s, me); again.Place != own.Place || again.Token != own.Token {
		t.Errorf("again: %+v, want %+v", again, own)
	}
	alone := contender()
	alone.Alone = true
	if _, err := s.Join(t.Context(), queue, alone); !errors.Is(err, driver.ErrTaken) {
		t.Errorf("alone behind a converted entry: %v", err)
	}
	if join(t, s, contender()).First {
		t.Error("first behind a converted entry")
	}
	if err := s.Forget(t.Context(), queue, me.ID); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, s); len(got) != 1 || got[0] == me.ID {
		t.Errorf("queue %q", got)
	}
	if err := s.Leave(t.Context(), queue, own.Place); !errors.Is(err, driver.ErrGone) {
		t.Errorf("leaving after being forgotten: %v", err)
	}
}

// W1, W2: several places, converted ones among them.
func TestWatchOnConvertedPlaces(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	a, b := join(t, s, contender()), join(t, s, contender())
	a.Place = convert(t, s, a, "y")
	result := awaitGone(t.Context(), s, a.Place, b.Place)
	f.watching(t, 1, "/mutex/")
	other := join(t, s, contender())
	other.Place = convert(t, s, other, "z")
	if err := s.Write(t.Context(), queue, a.Place, []byte("w")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-result:
		t.Fatalf("woken by another: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	convert(t, s, b, "y")
	if err := told(t, result); err != nil {
		t.Error(err)
	}
	if err := told(t, awaitGone(t.Context(), s, a.Place, b.Place)); err != nil {
		t.Errorf("gone before: %v", err)
	}
}

// C1: late conversions find the sentinel gone, whichever key is deleted first.
func TestWithdrawRemovesConvertedEntries(t *testing.T) {
	f, c := newFake(t)
	external := openExternal(t, c)
	stays, leaves := join(t, external, contender()), join(t, external, contender())
	stays.Place, leaves.Place = convert(t, external, stays, "y"), convert(t, external, leaves, "y")
	if err := external.Leave(t.Context(), queue, leaves.Place); err != nil {
		t.Fatal(err)
	}
	if n := len(external.prefixes); n != 2 { // one contender, before and after
		t.Errorf("%d prefixes are remembered", n)
	}
	if err := external.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	if err := external.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n < 2 || len(f.kvs) != 0 {
		t.Errorf("%d requests, left behind: %v", n, f.kvs)
	}
}
