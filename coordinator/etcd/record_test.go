package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
)

func setRecord(t *testing.T, s *session, value string, known driver.Version) driver.Version {
	t.Helper()
	v, err := s.SetRecord(t.Context(), queue, []byte(value), known)
	check(t, err)
	return v
}

// current is the current record.
func current(t *testing.T, s *session) driver.Record {
	t.Helper()
	r, err := s.Record(t.Context(), queue, driver.Any)
	check(t, err)
	return r
}

type outcome[T any] struct {
	got T
	err error
}

func waitRecord(ctx context.Context, s *session, known driver.Version) <-chan outcome[driver.Record] {
	result := make(chan outcome[driver.Record], 1)
	go func() {
		r, err := s.Record(ctx, queue, known)
		result <- outcome[driver.Record]{r, err}
	}()
	return result
}

// ended returns what a call returned. Like stillWaits, which checks that it has
// not ended, it first waits until nothing in the test's bubble can go on.
func ended[T any](t *testing.T, result <-chan outcome[T]) outcome[T] {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-result:
		return o
	default:
		t.Fatal("the call still waits")
		panic("unreachable")
	}
}

func stillWaits[T any](t *testing.T, result <-chan outcome[T]) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-result:
		t.Fatalf("woken: %+v, %v", o.got, o.err)
	default:
	}
}

// D1: a member that is behind neither shows an old record nor hides the new
// one.
func TestRecordIsNoOlderThanEarlierResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		v := setRecord(t, s, "one", 0)
		catchUp := f.lag()
		w := setRecord(t, s, "three", setRecord(t, s, "two", v))
		if r := current(t, s); r.Version != w {
			t.Errorf("%+v, want version %d", r, w)
		}
		for _, known := range []driver.Version{0, v} {
			if o := ended(t, waitRecord(t.Context(), s, known)); o.err != nil || o.got.Version != w {
				t.Errorf("known %d: %+v, want version %d", known, o, w)
			}
		}
		result := waitRecord(t.Context(), s, w)
		f.watching(t, 1, "+record")
		stillWaits(t, result)
		catchUp() // it sends the events up to w
		stillWaits(t, result)
		v = setRecord(t, s, "four", w)
		if o := ended(t, result); o.err != nil || o.got.Version != v {
			t.Errorf("%+v, want version %d", o, v)
		}
	})
}

// J7: a late request is not applied after ErrStale was returned.
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

// D3: Record reads by quorum, so no write has to come before it.
func TestRecordOfAnySessionCostsOneRead(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	f.lag()
	for _, value := range []string{"one", "two"} {
		want := setRecord(t, other, value, current(t, other).Version)
		var err error
		var r driver.Record
		if n := f.sent(func() {
			_, err = s.SetRecord(t.Context(), queue, []byte("0"), driver.Any)
			r = current(t, s)
		}); n != 1 || !errors.Is(err, driver.ErrStale) || r.Version != want || string(r.Value) != value {
			t.Errorf("%d requests: %v, then %+v; want version %d", n, err, r, want)
		}
	}
	s.End()
	if _, err := s.SetRecord(t.Context(), queue, []byte("0"), driver.Any); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("%v on a session that is over", err)
	}
}
