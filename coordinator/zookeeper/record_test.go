package zookeeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

func testSetRecord(t *testing.T, s *session, value string, known driver.Version) driver.Version {
	t.Helper()
	v, err := s.SetRecord(soon(t, 20*time.Second), "m/a", []byte(value), known)
	ok(t, err)
	return v
}

func TestJoinChecksTheRecordInTheSameRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		join := func(n int, record driver.Version) (driver.Joined, error) {
			c := driver.Contender{ID: testID[:31] + string(rune('0'+n)), Mode: "p2", Record: record}
			return s.Join(soon(t, 10*time.Second), "m/a", c)
		}
		if _, err := join(1, 1); !errors.Is(err, driver.ErrStale) || errors.Is(err, driver.ErrGone) {
			t.Errorf("Join with a version of no record = %v; want ErrStale", err)
		}
		if names := tr.list("/app/~/m"); len(names) != 0 || f.count(opMulti) != 1 {
			t.Errorf("a join that was refused sent %d transactions and left %q", f.count(opMulti), names)
		}
		v := testSetRecord(t, s, "5", 0)
		if j, err := join(2, v); err != nil || !j.First { // makes the queue
			t.Errorf("Join = %+v, %v", j, err)
		}
		before := f.count(opMulti)
		if j, err := join(3, v); err != nil || j.First {
			t.Errorf("Join = %+v, %v", j, err)
		}
		if n := f.count(opMulti) - before; n != 1 {
			t.Errorf("a join that checks took %d transactions", n)
		}
		next := testSetRecord(t, s, "6", v)
		for _, record := range []driver.Version{v, next + 1, driver.Any, next + 1<<32} {
			if _, err := join(4, record); !errors.Is(err, driver.ErrStale) {
				t.Errorf("Join with version %d of %d = %v; want ErrStale", record, next, err)
			}
		}
		if names := tr.list("/app/~/m/a"); len(names) != 2 {
			t.Errorf("in the queue: %q; want 2", names)
		}
	})
}

// startRecord follows a record until ctx ends.
func startRecord(ctx context.Context, s *session, known driver.Version) (<-chan driver.Record, <-chan error) {
	seen, done := make(chan driver.Record, 16), make(chan error, 1)
	go func() {
		for {
			r, err := s.Record(ctx, "m/a", known)
			if err != nil {
				done <- err
				return
			}
			known = r.Version
			seen <- r
		}
	}()
	return seen, done
}

func TestRecordWaitsForTheNextVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		ctx, cancel := context.WithCancel(t.Context())
		seen, done := startRecord(ctx, s, 0)
		eventually(t, "a watch for a record to come", func() bool { return tr.watched() == 1 })
		tr.put("/app/~/m/b+record", "another queue's")
		tr.put("/app/~/m/a", "") // the queue comes
		if tr.notified() != 0 {
			t.Error("notices of other nodes were sent")
		}
		for _, value := range []string{"1", "2", "3"} {
			tr.put("/app/~/m/a+record", value)
			if r := <-seen; string(r.Value) != value {
				t.Errorf("Record = %q; want %q", r.Value, value)
			}
			eventually(t, "a watch", func() bool { return tr.watched() == 1 })
		}
		tr.remove("/app/~/m/a+record")
		if r := <-seen; r.Version != 0 {
			t.Errorf("Record = %+v after an operator deleted it", r)
		}
		tr.put("/app/~/m/a+record", "4")
		if r := <-seen; string(r.Value) != "4" {
			t.Errorf("Record = %+v; want 4", r)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Record = %v", err)
		}
	})
}

// TestRepeatedWaitsLeaveOneWatch: later waits send nothing.
func TestRepeatedWaitsLeaveOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		record := testSetRecord(t, s, "5", 0)
		own, behind := testJoin(t, s, 1, "x"), testJoin(t, s, 2, "x")
		head, err := s.Head(soon(t, 10*time.Second), "m/a", driver.Any)
		ok(t, err)
		for what, wait := range map[string]func(ctx context.Context) error{
			"Head":         func(ctx context.Context) error { return second(s.Head(ctx, "m/a", head.Version)) },
			"Head, empty":  func(ctx context.Context) error { return second(s.Head(ctx, "m/empty", 0)) },
			"Head, none":   func(ctx context.Context) error { return second(s.Head(ctx, "m/none", 0)) },
			"Record":       func(ctx context.Context) error { return second(s.Record(ctx, "m/a", record)) },
			"Record, none": func(ctx context.Context) error { return second(s.Record(ctx, "m/none", 0)) },
			"Watch":        func(ctx context.Context) error { return s.Watch(ctx, "m/a", own.Place) },
			"Watch of two": func(ctx context.Context) error { return s.Watch(ctx, "m/a", own.Place, behind.Place) },
		} {
			tr.put("/app/~/m/empty", "")
			f.cut()
			eventually(t, "a new connection", func() bool { return s.Renew(soon(t, 10*time.Second)) == nil && tr.watched() == 0 })
			waits := func() (requests int) {
				asked := f.requests()
				if err := wait(soon(t, 5*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s = %v", what, err)
				}
				return f.requests() - asked
			}
			quiet := 0 // waits in a row: on a slow machine the first ones end before they have sent all
			eventually(t, what+": a watch", func() bool {
				if quiet++; waits() != 0 || tr.watched() == 0 {
					quiet = 0
				}
				return quiet == 5
			})
			requests := 0
			for range 10 {
				requests += waits()
			}
			if n := tr.watched(); n != 1 {
				t.Errorf("%s: %d watches are left; want 1", what, n)
			}
			if requests != 0 {
				t.Errorf("%s: %d requests were sent by later waits", what, requests)
			}
			tr.remove("/app/~/m/empty")
		}
	})
}

// requests is the number of requests received, pings apart.
func (f *fake) requests() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for op, count := range f.ops {
		if op != opPing {
			n += count
		}
	}
	return n
}
