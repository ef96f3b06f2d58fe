package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

func setRecord(t *testing.T, s *session, value string, known driver.Version) driver.Version {
	t.Helper()
	v, err := s.SetRecord(t.Context(), queue, []byte(value), known)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// current is the record as it is.
func current(t *testing.T, s *session) driver.Record {
	t.Helper()
	r, err := s.Record(t.Context(), queue, driver.Any)
	if err != nil {
		t.Fatal(err)
	}
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

// ended waits for the end of a call, asleep makes sure that there is none.
func ended[T any](t *testing.T, result <-chan outcome[T]) outcome[T] {
	t.Helper()
	select {
	case o := <-result:
		return o
	case <-time.After(time.Second):
		t.Fatal("the wait goes on")
		panic("unreachable")
	}
}

func asleep[T any](t *testing.T, result <-chan outcome[T]) {
	t.Helper()
	select {
	case o := <-result:
		t.Fatalf("woken: %+v, %v", o.got, o.err)
	case <-time.After(20 * time.Millisecond):
	}
}

// D3, D4
func TestSetRecordNeedsTheKnownVersion(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	if r := current(t, s); r.Version != 0 || r.Value != nil {
		t.Errorf("no record: %+v", r)
	}
	var v driver.Version
	if n := f.sent(func() { v = setRecord(t, s, "one", 0) }); n != 1 {
		t.Errorf("%d requests", n)
	}
	if r := current(t, other); r.Version != v || string(r.Value) != "one" {
		t.Errorf("%+v, want version %d", r, v)
	}
	w := setRecord(t, other, "two", v)
	rev := f.rev
	for _, known := range []driver.Version{0, v, w + 1, driver.Any} {
		if _, err := s.SetRecord(t.Context(), queue, []byte("three"), known); !errors.Is(err, driver.ErrStale) {
			t.Errorf("version %d: %v", known, err)
		}
	}
	for _, value := range [][]byte{nil, make([]byte, 64<<10+1)} {
		if _, err := s.SetRecord(t.Context(), queue, value, w); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%d bytes: %v", len(value), err)
		}
	}
	if f.rev != rev {
		t.Error("something was written")
	}
	if !join(t, s, contender()).First {
		t.Error("a queue with a record is not empty")
	}
	if err := errors.Join(s.Close(t.Context()), other.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if r := current(t, open(t, f, c)); r.Version != w || string(r.Value) != "two" {
		t.Errorf("after the sessions: %+v", r)
	}
}

// C1, R2
func TestSetRecordEndsWithItsSession(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	late := delay(f, func() { _, _ = s.SetRecord(t.Context(), queue, []byte("late"), 0) })
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	late(t)
	if r := current(t, other); r.Version != 0 {
		t.Errorf("written after the end: %+v", r)
	}
	f.mu.Lock()
	delete(f.kvs, other.Sentinel.Key) // the watch does not tell
	f.mu.Unlock()
	if _, err := other.SetRecord(t.Context(), queue, []byte("r"), 0); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("got %v", err)
	}
	if other.Alive() == nil {
		t.Error("the session goes on")
	}
}

// D1
func TestRecordWaitsForAnotherVersion(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	v := setRecord(t, s, "one", 0)
	if o := ended(t, waitRecord(t.Context(), s, 0)); o.err != nil || o.got.Version != v {
		t.Errorf("known before: %+v", o)
	}

	result := waitRecord(t.Context(), s, v)
	f.watching(t, 1, "+record")
	join(t, other, contender())
	asleep(t, result)
	var w driver.Version
	n := f.sent(func() {
		w = setRecord(t, other, "two", v)
		if o := ended(t, result); o.err != nil || o.got.Version != w || string(o.got.Value) != "two" {
			t.Errorf("%+v, want version %d", o, w)
		}
	})
	if n != 1 {
		t.Errorf("%d requests for a write and a wake-up", n)
	}
	f.watching(t, 0, "+record")

	// An operator deletes it, and somebody makes it anew.
	result = waitRecord(t.Context(), s, w)
	f.watching(t, 1, "+record")
	remove := clientv3.OpDelete(s.keys.Record(queue))
	if _, err := c.Txn(t.Context()).Then(remove).Commit(); err != nil {
		t.Fatal(err)
	}
	if o := ended(t, result); o.err != nil || o.got.Version != 0 || o.got.Value != nil {
		t.Errorf("deleted: %+v", o)
	}
	result = waitRecord(t.Context(), s, 0)
	f.watching(t, 1, "+record")
	v = setRecord(t, other, "three", 0)
	if o := ended(t, result); o.err != nil || o.got.Version != v {
		t.Errorf("%+v, want version %d", o, v)
	}
}

// D1: the member at hand neither brings back the past nor hides the present.
func TestRecordIsAsNewAsWhatTheSessionFinished(t *testing.T) {
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
	asleep(t, result)
	catchUp() // which tells of the past and of w
	asleep(t, result)
	v = setRecord(t, s, "four", w)
	if o := ended(t, result); o.err != nil || o.got.Version != v {
		t.Errorf("%+v, want version %d", o, v)
	}
}

// D1, D2
func TestWaitForARecordEnds(t *testing.T) {
	f, c := newFake(t)
	s, other := open(t, f, c), open(t, f, c)
	ctx, cancel := context.WithCancel(t.Context())
	result := waitRecord(ctx, s, 0)
	f.watching(t, 1, "+record")
	cancel()
	if o := ended(t, result); !errors.Is(o.err, context.Canceled) {
		t.Errorf("got %+v", o)
	}
	f.watching(t, 0, "+record")

	result = waitRecord(t.Context(), s, 0)
	f.watching(t, 1, "+record")
	inject(f, "+record", clientv3.WatchResponse{Canceled: true, CompactRevision: 5})
	f.watching(t, 1, "+record")
	inject(f, "+record", clientv3.WatchResponse{}) // as somebody's request for progress makes it
	asleep(t, result)
	v := setRecord(t, other, "one", 0)
	if o := ended(t, result); o.err != nil || o.got.Version != v {
		t.Errorf("after a compaction: %+v, want version %d", o, v)
	}

	result = waitRecord(t.Context(), s, v)
	f.watching(t, 1, "+record")
	_, _ = c.Revoke(t.Context(), s.Lease)
	if o := ended(t, result); !errors.Is(o.err, driver.ErrSessionLost) {
		t.Errorf("got %+v", o)
	}
	f.watching(t, 0, "+record")
}
