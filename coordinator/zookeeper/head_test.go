package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// startHead follows the head of m/a until ctx ends.
func startHead(ctx context.Context, s *session, known driver.Version) (<-chan driver.Head, <-chan error) {
	seen, done := make(chan driver.Head, 16), make(chan error, 1)
	go func() {
		for {
			h, err := s.Head(ctx, "m/a", known)
			if err != nil {
				done <- err
				return
			}
			known = h.Version
			seen <- h
		}
	}()
	return seen, done
}

func nextHead(t *testing.T, seen <-chan driver.Head) driver.Head {
	t.Helper()
	select {
	case h := <-seen:
		return h
	case <-time.After(5 * time.Second):
		t.Fatal("no head")
		return driver.Head{}
	}
}

func TestHeadShowsEachState(t *testing.T) {
	f, tr, s := openTree(t)
	if h, err := s.Head(soon(t, time.Second), "m/a", driver.Any); err != nil || h.Version != 0 || h.Key != "" {
		t.Errorf("Head of a queue that is not there = %+v, %v", h, err)
	}
	tr.put("/app/m/a", "")
	ctx, cancel := context.WithCancel(t.Context())
	seen, done := startHead(ctx, s, 0)
	eventually(t, "a watch", func() bool { return tr.watched() == 1 })
	first := testJoin(t, s, 1, "x")
	if h := nextHead(t, seen); h.Place != first.Place || h.Token != first.Token || string(h.Value) != "joined" {
		t.Errorf("Head = %+v; want %+v", h, first)
	}
	eventually(t, "a watch", func() bool { return tr.watched() == 1 })

	// A write between two calls of Head is found by listing the queue.
	listed, writes := f.count(opChildren), 10
	for i := range writes {
		value := fmt.Sprint("new", i)
		if err := s.Write(soon(t, time.Second), "m/a", first.Place, []byte(value)); err != nil {
			t.Fatal(err)
		}
		if h := nextHead(t, seen); h.Place != first.Place || string(h.Value) != value {
			t.Errorf("Head after Write = %+v", h)
		}
		eventually(t, "a watch", func() bool { return tr.watched() == 1 })
	}
	if n := f.count(opChildren) - listed; n > writes/2 {
		t.Errorf("the queue was listed %d times for %d writes", n, writes)
	}

	second := testJoin(t, s, 2, "x")
	first = testConvert(t, s, first, "y")
	if h := nextHead(t, seen); h.Place != first.Place || h.Token != first.Token || string(h.Value) != "converted" {
		t.Errorf("Head after Convert = %+v; want %+v", h, first)
	}
	if err := s.Leave(soon(t, time.Second), "m/a", first.Place); err != nil {
		t.Fatal(err)
	}
	if h := nextHead(t, seen); h.Place != second.Place || h.Token != second.Token {
		t.Errorf("Head after the first left = %+v; want %+v", h, second)
	}
	if err := s.Leave(soon(t, time.Second), "m/a", second.Place); err != nil {
		t.Fatal(err)
	}
	if h := nextHead(t, seen); h.Version != 0 || h.Key != "" {
		t.Errorf("Head of an empty queue = %+v", h)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Head = %v", err)
	}
}

// TestHeadIsNotNotifiedOfOtherEntries, not even by the service.
func TestHeadIsNotNotifiedOfOtherEntries(t *testing.T) {
	_, tr, s := openTree(t)
	testJoin(t, s, 1, "x")
	seen, _ := startHead(t.Context(), s, 0)
	nextHead(t, seen)
	eventually(t, "a watch", func() bool { return tr.watched() == 1 })
	before := tr.notified()
	second := testJoin(t, s, 2, "x")
	if err := s.Write(soon(t, time.Second), "m/a", second.Place, []byte("new")); err != nil {
		t.Fatal(err)
	}
	second = testConvert(t, s, second, "y")
	if err := s.Leave(soon(t, time.Second), "m/a", second.Place); err != nil {
		t.Fatal(err)
	}
	if n := tr.notified() - before; n != 0 {
		t.Errorf("%d notices were sent", n)
	}
}

// TestHeadMissesNoJoinWhileTheQueueIsRemovedAndRecreated: the service removes
// empty queues.
func TestHeadMissesNoJoinWhileTheQueueIsRemovedAndRecreated(t *testing.T) {
	_, tr, s := openTree(t)
	seen, _ := startHead(t.Context(), s, 0)
	for range 3 {
		eventually(t, "a watch for the queue", func() bool { return tr.watched() == 1 })
		tr.put("/app/m/a", "")
		eventually(t, "a watch in the queue", func() bool { return tr.watched() == 1 })
		tr.remove("/app/m/a")
	}
	eventually(t, "a watch for the queue", func() bool { return tr.watched() == 1 })
	tr.put("/app/m/a", "")
	tr.put("/app/m/a/"+testKey(0), "v")
	if h := nextHead(t, seen); h.Key != testKey(0) || string(h.Value) != "v" {
		t.Errorf("Head = %+v", h)
	}
	tr.remove("/app/m/a/" + testKey(0))
	if h := nextHead(t, seen); h.Version != 0 {
		t.Errorf("Head of an empty queue = %+v", h)
	}
	tr.put("/app/m/a/"+testKey(1), "v")
	if h := nextHead(t, seen); h.Key != testKey(1) {
		t.Errorf("Head = %+v", h)
	}
	eventually(t, "one watch", func() bool { return tr.watched() == 1 })
}

// TestHeadThatGoesBetweenListingAndReading may have been converted, so the
// queue is listed again.
func TestHeadThatGoesBetweenListingAndReading(t *testing.T) {
	for _, known := range []driver.Version{driver.Any, 77} {
		_, tr, s := openTree(t)
		first, second := testJoin(t, s, 1, "w"), testJoin(t, s, 2, "w")
		n, _ := parseNode(first.Place.Key)
		to := n.converted("r", first.Token)
		tr.on(func(op int32, node string) treeFate {
			switch {
			case op == opGet && node == "/app/m/a/"+first.Place.Key:
				tr.remove(node)
				tr.put("/app/m/a/"+to.Key, "")
			case op == opGet && node == "/app/m/a/"+second.Place.Key:
				t.Error("the second was read, though the first has never left")
			}
			return treeFate{}
		})
		if h, err := s.Head(soon(t, time.Second), "m/a", known); err != nil || h.Place != to.Place || h.Token != first.Token {
			t.Errorf("Head = %+v, %v; want %+v", h, err, to.Place)
		}
	}
}

func TestHeadOfAQueueWithStraysIsRefused(t *testing.T) {
	_, tr, s := openTree(t)
	tr.put("/app/m/a", "")
	tr.put("/app/m/a/lease_holder", "")
	for _, known := range []driver.Version{driver.Any, 0, 7} {
		_, err := s.Head(soon(t, time.Second), "m/a", known)
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "lease_holder") {
			t.Errorf("Head with version %d = %v; want ErrRefused with the stray's name", known, err)
		}
	}
}

// TestHeadThatChangesWhileThereIsNoConnection is seen on the next connection.
func TestHeadThatChangesWhileThereIsNoConnection(t *testing.T) {
	f, tr, s := openTree(t)
	seen, _ := startHead(t.Context(), s, 0)
	away := func(change func()) {
		t.Helper()
		eventually(t, "a watch", func() bool { return tr.watched() == 1 })
		grant := f.grant
		f.set(func() { f.grant = func(hello) (hello, bool) { return hello{}, false } })
		f.cut()
		eventually(t, "the watch is gone", func() bool { return tr.watched() == 0 })
		change()
		f.set(func() { f.grant = grant })
		f.cut()
	}
	away(func() { tr.put("/app/m/a", "") }) // an empty queue is no change
	away(func() { tr.put("/app/m/a/"+testKey(0), "v") })
	if h := nextHead(t, seen); h.Key != testKey(0) {
		t.Errorf("Head = %+v", h)
	}
	away(func() { tr.put("/app/m/a/"+testKey(0), "w") })
	if h := nextHead(t, seen); string(h.Value) != "w" {
		t.Errorf("Head = %+v", h)
	}
	away(func() { tr.remove("/app/m/a/" + testKey(0)) })
	if h := nextHead(t, seen); h.Version != 0 {
		t.Errorf("Head = %+v", h)
	}
	if n := f.count(opSync); n < 4 {
		t.Errorf("%d syncs on 4 new connections", n)
	}
}

// TestHeadsShareOneWatchAndNoValue: each caller may change the value it gets.
func TestHeadsShareOneWatchAndNoValue(t *testing.T) {
	f, tr, s := openTree(t)
	own := testJoin(t, s, 1, "x")
	all := make(chan driver.Head, 10)
	known, err := s.Head(soon(t, time.Second), "m/a", driver.Any)
	if err != nil {
		t.Fatal(err)
	}
	for range cap(all) {
		go func() {
			h, err := s.Head(t.Context(), "m/a", known.Version)
			if err != nil {
				t.Error(err)
			}
			for i := range h.Value {
				h.Value[i]++
			}
			all <- h
		}()
	}
	eventually(t, "a watch", func() bool { return tr.watched() == 1 })
	before := f.count(opGet)
	if err := s.Write(soon(t, time.Second), "m/a", own.Place, []byte("0")); err != nil {
		t.Fatal(err)
	}
	for range cap(all) {
		if h := nextHead(t, all); string(h.Value) != "1" {
			t.Errorf("Value = %q; want only this caller's change", h.Value)
		}
	}
	if n := f.count(opGet) - before; n != 1 {
		t.Errorf("%d reads for %d waiters", n, cap(all))
	}
}

// testKey is the key of an entry of another session.
func testKey(seq int32) string { return fmt.Sprintf("x_%s_5_%010d", testID, seq) }
