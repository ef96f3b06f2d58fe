package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// wired is a service and a client of it.
type wired struct {
	svc *memory.Service
	d   *memory.Driver
	s   session
}

// bubble runs a test in virtual time, with an open session.
func bubble(t *testing.T, test func(t *testing.T, w wired)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		d := svc.Driver()
		test(t, wired{svc, d, open(t, d)})
	})
}

func TestDelayIsRequestPlusReply(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		w.d.Delay(time.Second, 2*time.Second)
		done := start(func() error { return joinErr(t.Context(), w.s) })
		time.Sleep(time.Second - 1)
		synctest.Wait()
		wantEntries(t, w.svc, 0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantEntries(t, w.svc, 1)
		pending(t, done)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		must(t, <-done)
	})
}

func TestHeldRequestIsAppliedLate(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		w.d.Cut()
		wantErr(t, joinErr(within(t, time.Second), w.s), context.DeadlineExceeded)
		wantEntries(t, w.svc, 0)
		w.d.Heal()
		wantEntries(t, w.svc, 1) // although its caller has given up
	})
}

func TestHeldRequestsPassInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		w.d.HoldRequests()
		var want []string
		for range 20 {
			c := contender()
			want = append(want, c.ID)
			_ = start(func() error { _, err := w.s.Join(t.Context(), queue, c); return err })
			synctest.Wait()
		}
		w.d.Heal()
		for i, x := range w.svc.Snapshot(queue) {
			if x.ID != want[i] {
				t.Fatalf("place %d is %s, want %s", i, x.ID, want[i])
			}
		}
		wantEntries(t, w.svc, len(want))
	})
}

func TestResetLosesWhatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		held := join(t, w.s)
		watch := start(func() error { return w.s.Watch(t.Context(), queue, held.Place) })
		synctest.Wait()
		w.d.Delay(time.Minute, 0)
		delayed := start(func() error { return joinErr(t.Context(), w.s) })
		synctest.Wait()
		w.d.Delay(0, 0)
		w.d.Cut()
		cut := start(func() error { return joinErr(t.Context(), w.s) })
		synctest.Wait()
		if n := w.svc.Stats().Watches; n != 1 {
			t.Fatalf("%d watches, want 1", n)
		}
		w.d.Reset()
		for _, done := range []<-chan error{watch, delayed, cut} {
			wantErr(t, <-done, driver.ErrUnavailable)
		}
		w.d.Heal()
		time.Sleep(2 * time.Second)
		wantEntries(t, w.svc, 1)
		if n := w.svc.Stats().Watches; n != 0 {
			t.Fatalf("%d watches after their connection broke", n)
		}
	})
}

func TestStrandedRequestIsOvertaken(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		w.d.HoldRequests()
		stranded := start(func() error { return joinErr(t.Context(), w.s) })
		synctest.Wait()
		w.d.Strand()
		wantErr(t, <-stranded, driver.ErrUnavailable)
		second := join(t, w.s)
		w.d.Deliver()
		list := w.svc.Snapshot(queue)
		if len(list) != 2 || list[0].ID != second.Place.ID {
			t.Fatalf("queue %v, want the second request first", list)
		}
		w.d.Deliver() // nothing is left to arrive
		wantEntries(t, w.svc, 2)
	})
}

func TestJoinCalledAfterForgetPassesEvenIfForgetIsSlow(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		w.d.Delay(time.Second, 0)
		forget := start(func() error { return w.s.Forget(t.Context(), queue, contender().ID) })
		synctest.Wait()
		w.d.Delay(2*time.Second, 0)
		must(t, joinErr(t.Context(), w.s)) // arrives after the Forget that it was called after
		must(t, <-forget)
		wantEntries(t, w.svc, 1)
	})
}

func TestFates(t *testing.T) {
	own := errors.New("disk full")
	for _, x := range []struct {
		name    string
		fate    memory.Fate
		want    error
		applied int
		took    time.Duration
	}{
		{"none", memory.Fate{}, nil, 1, 0},
		{"dropped request", memory.Fate{DropRequest: true, DelayRequest: time.Second}, driver.ErrUnavailable, 0, time.Second},
		{"dropped reply", memory.Fate{DropReply: true, DelayReply: time.Second}, driver.ErrUnavailable, 1, time.Second},
		{"error of the service", memory.Fate{Err: own}, driver.ErrRefused, 0, 0},
		{"cause of that error", memory.Fate{Err: own}, own, 0, 0},
		{"error of the contract", memory.Fate{Err: driver.ErrUnavailable}, driver.ErrUnavailable, 0, 0},
		{"delays", memory.Fate{DelayRequest: time.Second, DelayReply: time.Second}, nil, 1, 2 * time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w wired) {
				w.svc.OnRequest(func(memory.Request) memory.Fate { return x.fate })
				began := time.Now()
				if err := joinErr(t.Context(), w.s); !errors.Is(err, x.want) || x.want == nil && err != nil {
					t.Errorf("Join: %v, want %v", err, x.want)
				}
				if took := time.Since(began); took != x.took {
					t.Errorf("Join took %v, want %v", took, x.took)
				}
				w.svc.OnRequest(nil)
				wantEntries(t, w.svc, x.applied)
				must(t, w.s.Renew(t.Context()))
			})
		})
	}
}

func TestHookSeesTheRequest(t *testing.T) {
	svc := memory.NewService()
	d := svc.Driver()
	var seen []memory.Request
	svc.OnRequest(func(r memory.Request) memory.Fate {
		_ = svc.Stats() // no lock is held
		r.Context = nil // see TestRequestShowsItsCallersContext
		seen = append(seen, r)
		return memory.Fate{}
	})
	s := open(t, d)
	own := join(t, s)
	must(t, s.Leave(t.Context(), queue, own.Place))
	want := []memory.Request{
		{Op: memory.OpOpen, Driver: d},
		{Op: memory.OpJoin, Driver: d, Session: s.ID(), Queue: queue, ID: own.Place.ID},
		{Op: memory.OpLeave, Driver: d, Session: s.ID(), Queue: queue, ID: own.Place.ID},
	}
	if len(seen) != len(want) {
		t.Fatalf("%d requests, want %d", len(seen), len(want))
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Errorf("request %d: %+v, want %+v", i, seen[i], want[i])
		}
	}
}

func TestCloseOfADriverEndsItsCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		own := join(t, w.s)
		watch := start(func() error { return w.s.Watch(t.Context(), queue, own.Place) })
		synctest.Wait()
		must(t, w.d.Close(t.Context()))
		wantErr(t, <-watch, driver.ErrUnavailable)
		wantErr(t, joinErr(t.Context(), w.s), driver.ErrUnavailable)
		_, err := w.d.Open(t.Context(), ttl)
		wantErr(t, err, driver.ErrUnavailable)
		must(t, w.d.Close(t.Context()))
		wantEntries(t, w.svc, 1) // as after a crash
		time.Sleep(ttl)
		synctest.Wait()
		wantEntries(t, w.svc, 0)
	})
}
