package rwlock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/rwlock"
)

// listed is the queue as Contenders shows it: "R" and "W" hold, "r" and "w" wait.
func (p party) listed() string {
	p.Helper()
	all, err := p.l.Contenders(context.Background())
	if err != nil {
		p.Fatal(err)
	}
	var s string
	for _, c := range all {
		letter := "r"
		if c.Writer {
			letter = "w"
		}
		if c.Holding {
			letter = strings.ToUpper(letter)
		}
		s += letter
	}
	return s
}

func TestContendersTellReadersAndWritersHoldingAndWaiting(t *testing.T) {
	parties(t, func(a, b, c party) {
		want := func(s string) {
			t.Helper()
			synctest.Wait()
			if got := b.listed(); got != s {
				t.Errorf("listed as %q, want %q", got, s)
			}
		}
		want("")
		w := a.lock()
		want("W")
		r1, r2, w2, r3 := b.begin(b.l.RLock), c.begin(c.l.RLock), b.begin(b.l.Lock),
			c.begin(c.l.RLock)
		want("Wrrwr")
		r := a.take(a.l.RLock, w.Context())
		want("Wrrwr")
		a.unlock(w)
		want("RRRwr")
		r1.unlock()
		want("RRwr")
		w2.cancel(context.Canceled)
		want("RRR")
		a.unlock(r)
		r2.unlock()
		want("R")
		r3.unlock()
		want("")
	})
}

// TestContendersTellWhoAndSinceWhen, and what they have to show: FIELD 47.
func TestContendersTellWhoAndSinceWhen(t *testing.T) {
	parties(t, func(a, b, _ party) {
		l, err := rwlock.New(a.client, "catalogue", rwlock.WithIdentity("alice"),
			rwlock.WithPayload([]byte("batch 7")))
		wantErr(t, err)
		w := a.take(l.Lock, a.Context())
		time.Sleep(time.Minute)
		reader := b.begin(b.l.RLock)
		r := a.take(l.RLock, w.Context())
		for _, downgraded := range []bool{false, true} {
			all, err := b.l.Contenders(b.Context())
			if err != nil || len(all) != 2 {
				t.Fatalf("%v, %v", all, err)
			}
			h, x := all[0], all[1]
			if h.Identity != "alice" || string(h.Payload) != "batch 7" || !h.Holding ||
				h.Token != w.Token() || h.Writer == downgraded ||
				h.Session != w.Session() || time.Since(h.Since) != time.Minute {
				t.Errorf("holder is listed as %+v", h)
			}
			if x.Identity != b.client.Identity() || x.Holding != downgraded || x.Writer ||
				x.Token <= h.Token || time.Since(x.Since) != 0 {
				t.Errorf("the one behind is listed as %+v", x)
			}
			if !downgraded {
				a.unlock(w)
				synctest.Wait()
			}
		}
		a.unlock(r)
		reader.unlock()
	})
}
