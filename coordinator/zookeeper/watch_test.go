package zookeeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// TestLeaveEndsWatchWithoutAnotherRequest: the handoff waits for it.
func TestLeaveEndsWatchWithoutAnotherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		own := testJoin(t, s, 1, "x")
		done := make(chan error, 1)
		go func() { done <- s.Watch(t.Context(), "m/a", own.Place) }()
		eventually(t, "the watch", func() bool { return tr.watched() == 1 })
		// The client has it, too: else its event is not used.
		node := zkconn.Target{Kind: zkconn.Children, Node: s.ChildPath("m/a", own.Place.Key)}
		_, err := s.ActiveWatch(soon(t, 10*time.Second), node)
		ok(t, err)
		ok(t, s.Leave(soon(t, 10*time.Second), "m/a", own.Place))
		if err := <-done; err != nil || f.count(opChildren) != 1 {
			t.Errorf("Watch = %v, with %d reads; want the one that set the watch", err, f.count(opChildren))
		}
	})
}

// TestWatchThatFiredUnseenShowsNothing: it does not show entries that joined
// since.
func TestWatchThatFiredUnseenShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		first, second := testJoin(t, s, 1, "x").Place, testJoin(t, s, 2, "x").Place
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Watch(ctx, "m/a", first, second) }()
		eventually(t, "the watch", func() bool { return tr.watched() == 1 })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		third := testJoin(t, s, 3, "x").Place
		if tr.watched() != 0 {
			t.Fatal("the watch has not fired")
		}
		if err := s.Watch(soon(t, 50*time.Millisecond), "m/a", first, third); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Watch = %v; want it to wait, both are queued", err)
		}
	})
}

// TestViewIsOfAConnectionThatWasSynced: the connection may be lost between sync
// and read.
func TestViewIsOfAConnectionThatWasSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, s := openTree(t)
		reads := 0
		_, err := zkconn.Fresh(soon(t, 20*time.Second), s.Conn, "/app/~/m/a", func() (int, error) {
			if reads++; reads < 3 {
				n := len(f.askedSessions())
				f.cut()
				eventually(t, "the next connection", func() bool {
					_, err := s.Stat(soon(t, 10*time.Second), "/app")
					return err == nil && len(f.askedSessions()) > n
				})
			}
			return reads, nil
		})
		if err != nil || reads != 3 || f.count(opSync) < 2 {
			t.Errorf("%v after %d reads and %d syncs; want 3 reads on 3 connections, and 2 syncs", err, reads, f.count(opSync))
		}
	})
}

func TestWatchOfSeveralIsNotEndedByAStray(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		first, second := testJoin(t, s, 1, "x").Place, testJoin(t, s, 2, "x").Place
		done := make(chan error, 1)
		go func() { done <- s.Watch(soon(t, 10*time.Second), "m/a", first, second) }()
		eventually(t, "a watch", func() bool { return tr.watched() == 1 })
		tr.put("/app/~/m/a/lease_holder", "")
		eventually(t, "the watch, again", func() bool { return tr.notified() == 1 && tr.watched() == 1 })
		select {
		case err := <-done:
			t.Fatalf("a child that is no place ended Watch: %v", err)
		default:
		}
		ok(t, s.Leave(t.Context(), "m/a", first))
		ok(t, <-done)
	})
}

// TestActiveWatchShowsTheQueueWithoutARequest: until it fires, it is up to
// date.
func TestActiveWatchShowsTheQueueWithoutARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		first, second := testJoin(t, s, 1, "x").Place, testJoin(t, s, 2, "x").Place
		go func() { _ = s.Watch(t.Context(), "m/a", first, second) }()
		eventually(t, "the watch", func() bool { return tr.watched() == 1 })
		whole := func(want int) {
			t.Helper()
			eventually(t, "a watch that has not fired", func() bool { return tr.watched() == 1 })
			before := f.count(opChildren)
			v, err := s.Ahead(soon(t, 10*time.Second), "m/a", driver.Place{})
			if n := f.count(opChildren) - before; err != nil || len(v.Ahead) != want || n > 0 {
				t.Errorf("%d places and %v with %d reads; want %d with none", len(v.Ahead), err, n, want)
			}
		}
		whole(2)
		third := testJoin(t, s, 3, "x").Place
		whole(3)
		ok(t, s.Leave(soon(t, 10*time.Second), "m/a", third))
		whole(2)
	})
}
