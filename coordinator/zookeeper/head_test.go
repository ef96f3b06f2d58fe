package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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
	case <-time.After(20 * time.Second):
		t.Fatal("no head")
		return driver.Head{}
	}
}

// TestHeadReadsAWriteAlone: only a write between two calls of Head is found by
// listing the queue.
func TestHeadReadsAWriteAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		first := testJoin(t, s, 1, "x")
		seen, _ := startHead(t.Context(), s, 0)
		nextHead(t, seen)
		listed, writes := f.count(opChildren), 10
		for i := range writes {
			value := fmt.Sprint("new", i)
			eventually(t, "a watch", func() bool { return tr.watched() == 1 })
			ok(t, s.Write(soon(t, 10*time.Second), "m/a", first.Place, []byte(value)))
			if h := nextHead(t, seen); h.Place != first.Place || string(h.Value) != value {
				t.Errorf("Head after Write = %+v", h)
			}
		}
		if n := f.count(opChildren) - listed; n > writes/2 {
			t.Errorf("the queue was listed %d times for %d writes", n, writes)
		}
	})
}

// TestHeadIsNotNotifiedOfOtherEntries, not even by the service.
func TestHeadIsNotNotifiedOfOtherEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		testJoin(t, s, 1, "x")
		seen, _ := startHead(t.Context(), s, 0)
		nextHead(t, seen)
		eventually(t, "a watch", func() bool { return tr.watched() == 1 })
		before := tr.notified()
		second := testJoin(t, s, 2, "x")
		ok(t, s.Write(soon(t, 10*time.Second), "m/a", second.Place, []byte("new")))
		second = testConvert(t, s, second, "y")
		ok(t, s.Leave(soon(t, 10*time.Second), "m/a", second.Place))
		if n := tr.notified() - before; n != 0 {
			t.Errorf("%d notices were sent", n)
		}
	})
}

// TestHeadMissesNoJoinWhileTheQueueIsRemovedAndRecreated: the service removes
// empty queues.
func TestHeadMissesNoJoinWhileTheQueueIsRemovedAndRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		seen, _ := startHead(t.Context(), s, 0)
		for range 3 {
			eventually(t, "a watch for the queue", func() bool { return tr.watched() == 1 })
			tr.put("/app/~/m/a", "")
			eventually(t, "a watch in the queue", func() bool { return tr.watched() == 1 })
			tr.remove("/app/~/m/a")
		}
		eventually(t, "a watch for the queue", func() bool { return tr.watched() == 1 })
		tr.put("/app/~/m/a", "")
		tr.put("/app/~/m/a/"+testKey(0), "v")
		if h := nextHead(t, seen); h.Key != testKey(0) || string(h.Value) != "v" {
			t.Errorf("Head = %+v", h)
		}
		tr.remove("/app/~/m/a/" + testKey(0))
		if h := nextHead(t, seen); h.Version != 0 {
			t.Errorf("Head of an empty queue = %+v", h)
		}
		eventually(t, "a watch for a join", func() bool { return tr.watched() == 1 })
		tr.put("/app/~/m/a/"+testKey(1), "v")
		if h := nextHead(t, seen); h.Key != testKey(1) {
			t.Errorf("Head = %+v", h)
		}
		eventually(t, "one watch", func() bool { return tr.watched() == 1 })
	})
}

// TestEntryConvertedBetweenListingAndReading: the queue is listed again.
func TestEntryConvertedBetweenListingAndReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		first, second := testJoin(t, s, 1, "w"), testJoin(t, s, 2, "w")
		n, _ := parseNode(first.Place.Key)
		to := n.converted("r", first.Token)
		for what, read := range map[string]func() []driver.Entry{
			"List":          func() []driver.Entry { return testList(t, s, 0) },
			"List of one":   func() []driver.Entry { return testList(t, s, 1) },
			"Head":          func() []driver.Entry { return testHead(t, s, driver.Any) },
			"Head, waiting": func() []driver.Entry { return testHead(t, s, 77) },
		} {
			tr.on(func(op int32, node string) treeFate {
				switch {
				case op == opGet && node == "/app/~/m/a/"+first.Place.Key:
					tr.remove(node)
					tr.put("/app/~/m/a/"+to.Key, "converted")
				case op == opGet && node == "/app/~/m/a/"+second.Place.Key && what != "List":
					t.Errorf("%s: the second was read, though the first has never left", what)
				}
				return treeFate{}
			})
			entries := read()
			if len(entries) == 0 || entries[0].Place != to.Place || entries[0].Token != first.Token {
				t.Errorf("%s = %+v; want %+v first", what, entries, to.Place)
			}
			if what == "List" && (len(entries) != 2 || entries[1].Place != second.Place) {
				t.Errorf("List = %+v; want two entries", entries)
			}
			tr.on(nil)
			tr.remove("/app/~/m/a/" + to.Key)
			tr.put("/app/~/m/a/"+first.Place.Key, "joined")
		}
	})
}

func testHead(t *testing.T, s *session, known driver.Version) []driver.Entry {
	t.Helper()
	h, err := s.Head(soon(t, 10*time.Second), "m/a", known)
	ok(t, err)
	return []driver.Entry{h.Entry}
}

func TestHeadOfAQueueWithStraysIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		tr.put("/app/~/m/a", "")
		tr.put("/app/~/m/a/lease_holder", "")
		for _, known := range []driver.Version{driver.Any, 0, 7} {
			_, err := s.Head(soon(t, 10*time.Second), "m/a", known)
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "lease_holder") {
				t.Errorf("Head with version %d = %v; want ErrRefused with the stray's name", known, err)
			}
		}
	})
}

// TestHeadThatChangesWhileThereIsNoConnection is seen on the next connection.
func TestHeadThatChangesWhileThereIsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		away(func() { tr.put("/app/~/m/a", "") }) // an empty queue is no change
		away(func() { tr.put("/app/~/m/a/"+testKey(0), "v") })
		if h := nextHead(t, seen); h.Key != testKey(0) {
			t.Errorf("Head = %+v", h)
		}
		away(func() { tr.put("/app/~/m/a/"+testKey(0), "w") })
		if h := nextHead(t, seen); string(h.Value) != "w" {
			t.Errorf("Head = %+v", h)
		}
		away(func() { tr.remove("/app/~/m/a/" + testKey(0)) })
		if h := nextHead(t, seen); h.Version != 0 {
			t.Errorf("Head = %+v", h)
		}
		if n := f.count(opSync); n < 4 {
			t.Errorf("%d syncs on 4 new connections", n)
		}
	})
}

// TestHeadsShareOneWatchAndNoValue: each caller may change the value it gets.
func TestHeadsShareOneWatchAndNoValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		own := testJoin(t, s, 1, "x")
		all := make(chan driver.Head, 10)
		known, err := s.Head(soon(t, 10*time.Second), "m/a", driver.Any)
		ok(t, err)
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
		ok(t, s.Write(soon(t, 10*time.Second), "m/a", own.Place, []byte("0")))
		for range cap(all) {
			if h := nextHead(t, all); string(h.Value) != "1" {
				t.Errorf("Value = %q; want only this caller's change", h.Value)
			}
		}
		if n := f.count(opGet) - before; n != 1 {
			t.Errorf("%d reads for %d waiters", n, cap(all))
		}
	})
}

// testKey is the key of an entry of another session.
func testKey(seq int32) string { return fmt.Sprintf("x_%s_5_%010d", testID, seq) }
