package zookeeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestUnansweredRequestMovesTheSession from a server that answers only pings,
// after a quarter of the TTL. The session then works on the next connection.
func TestUnansweredRequestMovesTheSession(t *testing.T) {
	own := driver.Place{Key: "n0000000001"}
	for what, request := range map[string]func(s *session) error{
		"Renew": func(s *session) error { return s.Renew(context.Background()) },
		"List":  func(s *session) error { return second(s.List(context.Background(), "m/a", 0)) },
		"Join": func(s *session) error {
			return second(s.Join(context.Background(), "m/a", driver.Contender{ID: testID, Mode: "x"}))
		},
		"SetRecord": func(s *session) error {
			return second(s.SetRecord(context.Background(), "m/a", []byte("5"), 1))
		},
		"Watch": func(s *session) error { // which goes on there
			ctx, cancel := context.WithTimeout(context.Background(), testTTL/2)
			defer cancel()
			return s.Watch(ctx, "m/a", own)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newPipes(t)
			s := openFake(t, f, testTTL)
			taken := false
			f.set(func() {
				f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
					first := !taken && op != opPing
					taken = taken || first
					return 0, make([]byte, 128), !first
				}
			})
			began := time.Now()
			err := request(s)
			took := time.Since(began)
			if what == "Watch" {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Watch = %v", err)
				}
			} else if !errors.Is(err, driver.ErrUnavailable) || took != testTTL/4 {
				t.Errorf("%s = %v after %v; want ErrUnavailable after a quarter of the TTL", what, err, took)
			}
			time.Sleep(time.Second) // it connects again
			if err := s.Renew(soon(t, testTTL/4)); err != nil || len(f.askedSessions()) != 2 {
				t.Errorf("%s: then Renew = %v, with %d connections", what, err, len(f.askedSessions()))
			}
		})
	}
}

// TestMovedSessionIsTakenBack: an earlier attempt to reconnect, whose request
// came late, has the session. Waits read again, since their watches may be on a
// server that does not have it.
func TestMovedSessionIsTakenBack(t *testing.T) {
	const moved zk.ErrCode = -118
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		tr.put("/app/~/m/a", "")
		tr.put("/app/~/m/a/n0000000001", "")
		waited := make(chan error, 1)
		go func() { waited <- s.Watch(t.Context(), "m/a", driver.Place{Key: "n0000000001"}) }()
		synctest.Wait()
		tr.on(func(op int32, _ string) treeFate {
			if op == opSync && len(f.askedSessions()) == 1 {
				return treeFate{code: moved}
			}
			return treeFate{}
		})
		tr.stall() // it sends no events either
		tr.remove("/app/~/m/a/n0000000001")
		if err := s.Renew(soon(t, time.Second)); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Renew = %v; want ErrUnavailable", err)
		}
		select {
		case err := <-waited:
			ok(t, err)
		case <-time.After(time.Second):
			t.Error("the waiter was not notified")
		}
		time.Sleep(time.Second)
		ok(t, s.Renew(soon(t, time.Second)))
		if got := f.askedSessions(); len(got) != 2 || got[1] != s.Number() || s.Err() != nil {
			t.Errorf("sessions asked for: %x; the session: %v", got, s.Err())
		}
	})
}

// TestWaiterLeavesAServerThatStopsApplying: it answers pings and reads, and
// neither sends events nor answers a sync, whose reply comes after them. Each
// renewal is a sync, so no wait outlasts a TTL on such a server.
func TestWaiterLeavesAServerThatStopsApplying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		tr.put("/app/~/m/a", "")
		key := nodePrefix(driver.Contender{ID: testID, Mode: "x"}, "abc") + "0000000001"
		tr.put("/app/~/m/a/"+key, "")
		tr.put("/app/~/m/a+record", "1")
		const waits = 3
		waited := make(chan error, waits)
		go func() { waited <- s.Watch(t.Context(), "m/a", driver.Place{Key: key}) }()
		go func() { waited <- second(s.Record(t.Context(), "m/a", 1)) }()
		go func() {
			known, err := s.Head(t.Context(), "m/a", driver.Any)
			if err == nil {
				_, err = s.Head(t.Context(), "m/a", known.Version)
			}
			waited <- err
		}()
		synctest.Wait()
		tr.stall()
		tr.put("/app/~/m/a+record", "2")
		tr.remove("/app/~/m/a/" + key)
		began, done := time.Now(), make(chan struct{})
		defer func() { <-done }()
		ctx, cancel := context.WithTimeout(t.Context(), testTTL)
		defer cancel()
		go func() { // as the engine does
			defer close(done)
			for ; ctx.Err() == nil; time.Sleep(testTTL / driver.RenewalsPerTTL) {
				go func() { _ = s.Renew(ctx) }()
			}
		}()
		for range waits {
			if err := <-waited; err != nil {
				t.Errorf("a wait ended with %v", err)
			}
		}
		if took := time.Since(began); took > testTTL/2 {
			t.Errorf("the last waiter was notified after %v", took)
		}
		if s.Err() != nil || f.count(opPing) == 0 && len(f.askedSessions()) != 2 {
			t.Errorf("the session: %v; %d connections", s.Err(), len(f.askedSessions()))
		}
	})
}
