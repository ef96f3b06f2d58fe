package rwlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
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
		r1, r2, w2, r3 := b.begin(b.l.RLock), c.begin(c.l.RLock), b.begin(b.l.Lock), c.begin(c.l.RLock)
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
		l, err := rwlock.New(a.client, "catalogue", rwlock.WithIdentity("alice"), rwlock.WithPayload([]byte("batch 7")))
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
			if h.Identity != "alice" || string(h.Payload) != "batch 7" || !h.Holding || h.Token != w.Token() || h.Writer == downgraded ||
				h.Session != w.Session() || time.Since(h.Since) != time.Minute {
				t.Errorf("holder is listed as %+v", h)
			}
			if x.Identity != b.client.Identity() || x.Holding != downgraded || x.Writer || x.Token <= h.Token || time.Since(x.Since) != 0 {
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

// TestListingTellsTheEntryOfALock is FIELD 46, by the token: for those who want to look at it at the service.
func TestListingTellsTheEntryOfALock(t *testing.T) {
	parties(t, func(a, _, _ party) {
		w := a.lock()
		all, err := a.l.Contenders(a.Context())
		if err != nil || all[0].Token != w.Token() || all[0].Key != a.svc.Snapshot(queue)[0].Key {
			t.Errorf("%+v, %v", all, err)
		}
		a.unlock(w)
	})
}

// TestForeignEntryExcludesAll: what Baton did not write is taken for a writer.
func TestForeignEntryExcludesAll(t *testing.T) {
	parties(t, func(a, b, _ party) {
		foreign := a.svc.AddForeign(queue)
		_, err := a.l.TryRLock(a.Context())
		wantErr(t, err, coordinator.ErrTaken)
		reader, writer := a.begin(a.l.RLock), b.begin(b.l.Lock)
		admitted(t, "", reader, writer)
		if got := b.listed(); got != "Wrw" {
			t.Errorf("listed as %q", got)
		}
		a.svc.Remove(queue, foreign.Key)
		admitted(t, "a", reader, writer)
		reader.unlock()
		writer.unlock()
	})
}

// TestBadInputIsRefusedWithTheValueAndTheRule, and nothing is sent.
func TestBadInputIsRefusedWithTheValueAndTheRule(t *testing.T) {
	parties(t, func(a, _, _ party) {
		long := strings.Repeat("x", 256)
		for _, tt := range []struct {
			client *coordinator.Client
			name   string
			opts   []rwlock.Option
			says   []string
		}{
			{nil, "catalogue", nil, []string{"nil client"}},
			{a.client, "", nil, []string{"name is empty"}},
			{a.client, "   ", nil, []string{`"   "`, "blank"}},
			{a.client, "a\x00b", nil, []string{`"a\x00b"`, "control"}},
			{a.client, "a\nb", nil, []string{`"a\nb"`, "control"}},
			{a.client, ".", nil, []string{`"."`}},
			{a.client, "a/../b", nil, []string{`"a/../b"`, `".."`}},
			{a.client, "a//b", nil, []string{`"a//b"`, "empty"}},
			{a.client, "/a", nil, []string{`"/a"`, "empty"}},
			{a.client, strings.Repeat("n", 1000), nil, []string{"1000"}},
			{a.client, "catalogue", []rwlock.Option{nil}, []string{"nil option", "catalogue"}},
			{a.client, "catalogue", []rwlock.Option{rwlock.WithPayload(make([]byte, 4097))}, []string{"4097", "4096"}},
			{a.client, "catalogue", []rwlock.Option{rwlock.WithIdentity(long)}, []string{"256", "255"}},
			{a.client, "catalogue", []rwlock.Option{rwlock.WithIdentity("a\x00")}, []string{`"a\x00"`, "control"}},
			{a.client, "catalogue", []rwlock.Option{rwlock.WithIdentity("a\xff")}, []string{"UTF-8"}},
		} {
			n := a.requests(func() {
				l, err := rwlock.New(tt.client, tt.name, tt.opts...)
				wantErr(t, err, coordinator.ErrInvalid)
				for _, s := range tt.says {
					if l != nil || !strings.Contains(fmt.Sprint(err), s) {
						t.Errorf("New(%.20q) = %v, want %q in it", tt.name, err, s)
					}
				}
			})
			if n != 0 {
				t.Errorf("New(%.20q) sent %d requests", tt.name, n)
			}
		}
	})
}

func TestDeadContextSendsNothing(t *testing.T) {
	parties(t, func(a, _, _ party) {
		dead, cancel := context.WithCancel(a.Context())
		cancel()
		for _, f := range []take{a.l.Lock, a.l.RLock, a.l.TryLock, a.l.TryRLock} {
			n := a.requests(func() {
				_, err := f(dead)
				wantErr(t, err, context.Canceled)
			})
			if n != 0 {
				t.Errorf("%d requests", n)
			}
		}
	})
}
