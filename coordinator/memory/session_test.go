package memory_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

func TestRenewalCountsFromItsArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		d := svc.Driver()
		s := open(t, d)
		d.Delay(2*time.Second, 3*time.Second)
		time.Sleep(7 * time.Second)
		must(t, s.Renew(t.Context())) // arrives at 9 s, is answered at 12 s
		if n := len(svc.Sessions()); n != 1 {
			t.Fatalf("%d sessions, want the renewed one", n)
		}
		time.Sleep(7*time.Second - 1) // 19 s less a nanosecond
		synctest.Wait()
		if n := len(svc.Sessions()); n != 1 {
			t.Fatalf("%d sessions before the ttl has passed since the arrival", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := len(svc.Sessions()); n != 0 {
			t.Fatalf("%d sessions after the ttl", n)
		}
	})
}

func TestDoneIsClosedOverTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		d := svc.Driver()
		s := open(t, d)
		d.Delay(0, time.Second)
		svc.Expire(s.ID())
		synctest.Wait()
		if isDone(s) {
			t.Fatal("Done is closed before the notification could arrive")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !isDone(s) {
			t.Fatal("Done is open after the notification has arrived")
		}

		d.Delay(0, 0)
		cut := open(t, d)
		d.Cut()
		svc.Expire(cut.ID())
		if isDone(cut) {
			t.Fatal("a client that is cut off was notified")
		}
		d.Heal()
		if !isDone(cut) {
			t.Fatal("a client that was healed was not notified")
		}
	})
}

func TestReconnectReportsEndedSessions(t *testing.T) {
	svc := memory.NewService()
	d := svc.Driver()
	s := open(t, d)
	d.Cut()
	svc.Expire(s.ID())
	d.Reset() // the held notification is lost
	if isDone(s) {
		t.Fatal("notified over a link that is cut")
	}
	d.Heal()
	if !isDone(s) {
		t.Fatal("not notified after the reconnect")
	}
}

func TestEndedSessionSendsNoRequests(t *testing.T) {
	svc := memory.NewService()
	s := open(t, svc.Driver())
	svc.Expire(s.ID())
	before := svc.Stats().Total()
	wantErr(t, s.Renew(t.Context()), driver.ErrSessionLost)
	wantErr(t, joinErr(t.Context(), s), driver.ErrSessionLost)
	must(t, s.Close(t.Context()))
	if after := svc.Stats().Total(); after != before {
		t.Errorf("%d requests for a session that is known to be over", after-before)
	}
}

func TestBubbleEndsWithOpenSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		d := svc.Driver()
		d.Delay(time.Hour, time.Hour)
		_ = start(func() error { _, err := d.Open(within(t, time.Minute), ttl); return err })
		open(t, svc.Driver())
		join(t, open(t, svc.Driver()))
		time.Sleep(2 * time.Minute)
		// Timers of sessions and of a request are left. A goroutine that waits
		// for one would panic here.
	})
}

func TestJoinRefusesWhatBreaksTheRules(t *testing.T) {
	s := open(t, memory.NewService().Driver())
	good := driver.Contender{ID: strings.Repeat("a", 32), Mode: "abcdefghijklmno3", Value: make([]byte, 64<<10)}
	for name, x := range map[string]func(l *driver.Queue, c *driver.Contender){
		"no name":         func(l *driver.Queue, _ *driver.Contender) { *l = "m" },
		"empty name":      func(l *driver.Queue, _ *driver.Contender) { *l = "m/" },
		"empty kind":      func(l *driver.Queue, _ *driver.Contender) { *l = "/a" },
		"dots":            func(l *driver.Queue, _ *driver.Contender) { *l = "m/.." },
		"three parts":     func(l *driver.Queue, _ *driver.Contender) { *l = "m/a/b" },
		"space":           func(l *driver.Queue, _ *driver.Contender) { *l = "m/a b" },
		"short ID":        func(_ *driver.Queue, c *driver.Contender) { c.ID = "abc" },
		"long ID":         func(_ *driver.Queue, c *driver.Contender) { c.ID += "a" },
		"upper-case ID":   func(_ *driver.Queue, c *driver.Contender) { c.ID = strings.ToUpper(c.ID) },
		"no mode":         func(_ *driver.Queue, c *driver.Contender) { c.Mode = "" },
		"long mode":       func(_ *driver.Queue, c *driver.Contender) { c.Mode = "abcdefghijklmnopq" },
		"mode with dash":  func(_ *driver.Queue, c *driver.Contender) { c.Mode = "a-b" },
		"value too large": func(_ *driver.Queue, c *driver.Contender) { c.Value = make([]byte, 64<<10+1) },
	} {
		l, c := queue, good
		x(&l, &c)
		_, err := s.Join(t.Context(), l, c)
		if wantErr(t, err, driver.ErrInvalid); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	_, err := s.Join(t.Context(), "m/a.b-c_d~e%2Ff", good)
	must(t, err)
}

func TestSlackEndsSessionsSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService(memory.WithSlack(3 * time.Second))
		s := open(t, svc.Driver())
		if s.Slack() != 3*time.Second || s.TTL() != ttl {
			t.Fatalf("TTL %v, Slack %v", s.TTL(), s.Slack())
		}
		time.Sleep(ttl - 3*time.Second)
		synctest.Wait()
		if !isDone(s) {
			t.Error("the session outlives its ttl less the slack")
		}
	})
}
