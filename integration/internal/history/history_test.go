package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
)

// mk makes a hold: client, kind, token, and the times of the call, the grant
// and the release's call.
func mk(client string, kind Kind, token, asked, granted, releasing int64) *Hold {
	r := &Hold{
		ID: fmt.Sprint(client, token), Client: client, Name: "n", Kind: kind, N: 1, Limit: 1, Token: token,
		Asked: asked, Granted: granted, Releasing: releasing,
	}
	if releasing != 0 {
		r.Released = releasing + 5
	}
	return r
}

func with(r *Hold, change func(*Hold)) *Hold { change(r); return r }

func lost(r *Hold, at int64) *Hold {
	return with(r, func(r *Hold) { r.Releasing, r.Released, r.Ended, r.Cause = 0, 0, at, "session is lost" })
}

func permits(r *Hold, n, limit int) *Hold { return with(r, func(r *Hold) { r.N, r.Limit = n, limit }) }

func made(holds ...*Hold) *History {
	h := New()
	for _, r := range holds {
		h.add(line{Hold: r})
	}
	return h
}

func judge(t *testing.T, h *History, want ...string) {
	t.Helper()
	t.Setenv(Artifacts, t.TempDir())
	r := h.Report()
	var got []string
	for _, v := range r.Violations {
		got = append(got, v.Check)
		if len(v.Around) == 0 {
			t.Errorf("no events are shown for %v", v)
		}
	}
	if got = slices.Compact(got); !slices.Equal(got, want) || len(r.Unknown) != 0 {
		t.Errorf("found %q, want %q; undecided %q", got, want, r.Unknown)
		for _, v := range r.Violations {
			t.Log(v)
		}
	}
}

func TestGoodHistoriesPass(t *testing.T) {
	for name, h := range map[string]*History{
		"empty":    New(),
		"in order": made(mk("a", Mutex, 1, 0, 10, 20), mk("b", Mutex, 2, 5, 21, 30), mk("a", Mutex, 3, 25, 31, 0)),
		// The release takes effect before it returns, and the next grant may be
		// seen before its reply.
		"granted before the release returned": made(mk("a", Mutex, 1, 0, 10, 20), mk("b", Mutex, 2, 5, 21, 23)),
		"granted at the very moment":          made(lost(mk("a", Mutex, 1, 0, 10, 0), 20), mk("b", Mutex, 2, 5, 20, 30)),
		"lost in time":                        made(lost(mk("a", Mutex, 1, 0, 10, 0), 19), mk("b", Mutex, 2, 5, 20, 30)),
		"dead when granted":                   made(lost(mk("a", Mutex, 1, 0, 30, 0), 30), mk("b", Mutex, 2, 5, 20, 40)),
		"readers together":                    made(mk("a", Read, 1, 1, 10, 50), mk("b", Read, 2, 2, 11, 40), mk("c", Write, 3, 3, 51, 60), mk("d", Read, 4, 4, 61, 70)),
		// The first caller need not join first, and readers' grants have no
		// order.
		"readers crossed": made(mk("a", Read, 2, 1, 10, 50), mk("b", Read, 1, 2, 11, 40)),
		"downgraded": made(with(mk("a", Write, 1, 1, 10, 50), func(r *Hold) { r.Downgraded = 20 }),
			mk("b", Read, 2, 2, 21, 40), mk("c", Write, 3, 3, 55, 60)),
		"permits": made(permits(mk("a", Permits, 1, 1, 10, 50), 2, 3), permits(mk("b", Permits, 2, 2, 11, 60), 1, 3),
			permits(mk("c", Permits, 3, 3, 51, 70), 2, 3)),
		"other names and kinds": made(mk("a", Mutex, 1, 1, 10, 50), with(mk("b", Mutex, 2, 1, 10, 50), func(r *Hold) { r.Name = "m" }),
			mk("c", Term, 3, 1, 10, 50)),
	} {
		t.Run(name, func(t *testing.T) { judge(t, h) })
	}
}

func TestBrokenHistoriesAreFound(t *testing.T) {
	const exclusion, permit, tokens, order, unique = "exclusion", "permits", "tokens rise", "first come, first served", "one token for one grant"
	for _, c := range []struct {
		name string
		h    *History
		want []string
	}{
		{"double grant", made(mk("a", Mutex, 1, 0, 10, 30), mk("b", Mutex, 2, 5, 20, 40)), []string{exclusion, "porcupine"}},
		{"overlap by a nanosecond", made(mk("a", Mutex, 1, 0, 10, 21), mk("b", Mutex, 2, 5, 20, 40)), []string{exclusion, "porcupine"}},
		{"ended a nanosecond late", made(lost(mk("a", Mutex, 1, 0, 10, 0), 21), mk("b", Mutex, 2, 5, 20, 40)), []string{exclusion, "porcupine"}},
		{"missing release", made(mk("a", Term, 1, 0, 10, 0), mk("b", Term, 2, 5, 20, 40)), []string{exclusion, "porcupine"}},
		{"token falls", made(mk("a", Mutex, 2, 0, 10, 20), mk("b", Mutex, 1, 5, 30, 40)), []string{order, "porcupine"}},
		{"token falls for a later request", made(mk("a", Mutex, 2, 0, 10, 20), mk("b", Mutex, 1, 25, 30, 40)), []string{tokens, "porcupine"}},
		{"one token twice", made(mk("a", Mutex, 1, 0, 10, 20), mk("b", Mutex, 1, 5, 30, 40)), []string{unique, "porcupine"}},
		{"reader beside a writer", made(mk("a", Write, 1, 0, 10, 30), mk("b", Read, 2, 5, 20, 40)), []string{exclusion, "porcupine"}},
		{"writer beside a reader", made(mk("a", Read, 1, 0, 10, 30), mk("b", Write, 2, 5, 20, 40)), []string{exclusion, "porcupine"}},
		{"reader before a downgrade", made(with(mk("a", Write, 1, 1, 10, 50), func(r *Hold) { r.Downgraded = 22 }), mk("b", Read, 2, 2, 21, 40)), []string{exclusion, "porcupine"}},
		{"writer after a downgrade", made(with(mk("a", Write, 1, 1, 10, 50), func(r *Hold) { r.Downgraded = 20 }), mk("b", Write, 2, 2, 21, 40)), []string{exclusion, "porcupine"}},
		// A model of the lock alone cannot distinguish a reader that overtook
		// from one that joined first.
		{"reader overtakes a writer", made(mk("a", Read, 1, 0, 10, 30), mk("b", Read, 3, 5, 20, 40), mk("c", Write, 2, 4, 41, 50)), []string{order, "porcupine"}},
		{"permits above the limit", made(permits(mk("a", Permits, 1, 1, 10, 50), 2, 3), permits(mk("b", Permits, 2, 2, 11, 60), 2, 3)), []string{permit, "porcupine"}},
		{"semaphore overtaken", made(permits(mk("a", Permits, 1, 1, 10, 50), 2, 3), permits(mk("b", Permits, 3, 2, 11, 60), 1, 3),
			permits(mk("c", Permits, 2, 2, 61, 70), 2, 3)), []string{order}},
	} {
		t.Run(c.name, func(t *testing.T) { judge(t, c.h, c.want...) })
	}
}

func TestExcusedHoldIsNotCheckedDuringTheExcuse(t *testing.T) {
	holds := func() *History {
		return made(lost(mk("a", Mutex, 1, 0, 10, 0), 35), mk("b", Mutex, 2, 5, 20, 40))
	}
	h := holds()
	h.Excuse("a", "", "stopped", 15, 35)
	judge(t, h)
	h = holds()
	h.Excuse("a", "n", "killed", 15, Forever)
	judge(t, h)
	h = holds()
	h.Ousted("a", "", 15, 35)
	judge(t, h)
	// A waiter's entry is deleted while the reply with its grant is in flight.
	h = made(lost(mk("a", Mutex, 1, 1, 25, 0), 35), mk("b", Mutex, 2, 5, 20, 40))
	h.excuse(Excused{Client: "a", From: 15, To: 35, Before: 18})
	judge(t, h)
	for name, excuse := range map[string]func(*History){
		"before it was asked for": func(h *History) { h.excuse(Excused{Client: "a", From: -5, To: 35, Before: -1}) },
		"another client":          func(h *History) { h.Excuse("b", "", "stopped", 25, 35) },
		"another name":            func(h *History) { h.Excuse("a", "m", "stopped", 15, 35) },
		"too late":                func(h *History) { h.Excuse("a", "", "stopped", 21, 35) },
	} {
		t.Run(name, func(t *testing.T) {
			h := holds()
			excuse(h)
			judge(t, h, "exclusion", "porcupine")
		})
	}
	// Granted during the excuse, and held after it: only the order of grants is
	// unknown then.
	late := func(next *Hold) *History { return made(mk("a", Mutex, 1, 0, 20, 100), next) }
	for name, excuse := range map[string]func(*History){
		"stopped": func(h *History) { h.Excuse("a", "", "stopped", 15, 25) },
		"ousted":  func(h *History) { h.Ousted("a", "", 15, 25) },
	} {
		t.Run("granted meanwhile, "+name, func(t *testing.T) {
			h := late(mk("b", Mutex, 2, 5, 50, 60))
			excuse(h)
			judge(t, h, "exclusion", "porcupine")
			h = late(mk("b", Mutex, 2, 5, 22, 24)) // a later token, already released
			excuse(h)
			judge(t, h)
		})
	}
	t.Run("permits granted meanwhile", func(t *testing.T) {
		h := made(permits(mk("a", Permits, 1, 0, 20, 100), 2, 3), permits(mk("b", Permits, 2, 5, 50, 60), 2, 3))
		h.Excuse("a", "", "stopped", 15, 25)
		judge(t, h, "permits", "porcupine")
	})
	t.Run("too short", func(t *testing.T) { // it holds again after the excuse
		h := holds()
		h.Excuse("a", "", "stopped", 15, 30)
		judge(t, h, "exclusion")
	})
}

func TestRegisters(t *testing.T) {
	type access struct {
		read       bool
		token      coordinator.Token
		value      string
		begin, end int64
		accepted   bool
	}
	const w, r, yes, no = false, true, true, false
	good := []access{
		{r, 1, "", 1, 2, yes}, {w, 1, "x", 3, 6, yes}, {r, 2, "x", 5, 8, yes}, {w, 1, "z", 9, 10, no}, {w, 2, "y", 9, 12, yes}, {r, 0, "y", 13, 14, yes},
	}
	for name, c := range map[string]struct {
		add   []access
		found bool
	}{
		"good":                              {nil, false},
		"concurrent, either order":          {[]access{{w, 3, "u", 20, 30, yes}, {w, 2, "v", 21, 31, yes}, {r, 0, "u", 40, 41, yes}}, false},
		"stale write accepted":              {[]access{{w, 1, "s", 20, 21, yes}}, true},
		"older than a read accepted":        {[]access{{r, 4, "y", 20, 21, yes}, {w, 3, "s", 22, 23, yes}}, true},
		"good write refused":                {[]access{{w, 2, "s", 20, 21, no}}, true},
		"update lost":                       {[]access{{w, 2, "s", 20, 21, yes}, {r, 0, "y", 22, 23, yes}}, true},
		"never written":                     {[]access{{r, 0, "s", 22, 23, yes}}, true},
		"empty again":                       {[]access{{r, 0, "", 22, 23, yes}}, true},
		"read before it was written":        {[]access{{r, 0, "s", 20, 21, yes}, {w, 2, "s", 22, 23, yes}}, true},
		"concurrent, but the wrong one won": {[]access{{w, 3, "u", 20, 30, yes}, {w, 2, "v", 21, 31, yes}, {r, 0, "v", 40, 41, yes}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Artifacts, t.TempDir())
			h := New()
			for _, a := range append(slices.Clone(good), c.add...) {
				if a.read {
					h.Read("c", "reg", a.token, a.value, a.begin, a.end, a.accepted)
				} else {
					h.Write("c", "reg", a.token, a.value, a.begin, a.end, a.accepted)
				}
			}
			rep := h.Report()
			if (len(rep.Violations) > 0) != c.found {
				t.Errorf("found %v", rep.Violations)
			}
			// Both kinds of checks find it, unless only a search can.
			if n := len(h.registers()); c.found && n == 0 && !strings.HasPrefix(name, "concurrent") {
				t.Error("not found by the direct check")
			}
			if vs, _ := h.witness(); c.found && len(vs) == 0 {
				t.Error("not found by porcupine")
			}
		})
	}
}

// A search that times out does not count as success.
func TestPorcupineDrawsAViolation(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Artifacts, dir)
	vs, _ := made(mk("a", Mutex, 1, 0, 10, 30), mk("b", Mutex, 2, 5, 20, 40)).witness()
	if len(vs) != 1 || !strings.Contains(vs[0].Around[0], dir) {
		t.Fatalf("found %v", vs)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.html")); err != nil || len(files) != 1 {
		t.Errorf("drawn: %v, %v", files, err)
	}
}

// The history has the size of a soak's round.
func TestLongHistoryIsChecked(t *testing.T) {
	h, at, r := New(), int64(0), rand.New(rand.NewPCG(1, 2))
	for token := int64(1); token < 3000; token++ {
		asked := max(0, at-r.Int64N(1000))
		hold := mk(fmt.Sprint("c", token%16), Mutex, token, asked, at+1, at+100)
		if r.IntN(10) == 0 {
			lost(hold, at+50)
		}
		h.add(line{Hold: hold})
		at += 100 + r.Int64N(50)
	}
	judge(t, h)
}

func TestRecordingLive(t *testing.T) {
	h := New()
	grant := func(token coordinator.Token) (*Grant, context.CancelCauseFunc) {
		ctx, cancel := context.WithCancelCause(context.Background())
		return h.Attempt("a", "n", Mutex, 1, 1).Granted(ctx, token), cancel
	}
	first, cancel := grant(1)
	first.Releasing()
	cancel(coordinator.ErrReleased)
	first.Released(nil)
	_, cancel = grant(2)
	cancel(coordinator.ErrSessionLost) // a check sees it, even before the notification
	third, cancel := grant(3)
	defer cancel(nil)
	h.Attempt("b", "n", Mutex, 1, 1).Failed(errors.New("unavailable"))
	h.Fault("cut")("a")
	reading, done := context.WithCancelCause(context.Background())
	a := h.Attempt("a", "rw", Write, 1, 1)
	w, cancel := context.WithCancelCause(context.Background())
	both := a.Granted(w, 9)
	both.Downgraded(reading)
	cancel(coordinator.ErrReleased)
	other := h.Attempt("b", "rw", Read, 1, 1).Granted(context.Background(), 10)
	_ = other
	both.Releasing()
	both.Released(nil)
	done(coordinator.ErrReleased)
	r := h.Check(t)
	if r.Grants[Mutex] != 3 || r.Losses[coordinator.ErrSessionLost.Error()] != 1 || r.Failures["unavailable"] != 1 || r.Faults["cut"] != 1 {
		t.Errorf("reported\n%v", r)
	}
	late, cancel := grant(4) // while the third holds
	defer cancel(nil)
	h.mu.Lock()
	vs := h.direct()
	h.mu.Unlock()
	if len(vs) != 1 || vs[0].Check != "exclusion" {
		t.Errorf("found %v", vs)
	}
	late.Releasing()
	third.Releasing()
}

// A user that is notified late could have checked the deadline before.
func TestLossIsDatedByTheDeadline(t *testing.T) {
	h := New()
	ctx, cancel := context.WithCancelCause(context.Background())
	g := h.Attempt("a", "n", Mutex, 1, 1).Granted(ctx, 1)
	const late = time.Hour // so long that no stall of this test matters
	deadline, then := time.Now().Add(-late), Now()-late.Nanoseconds()
	h.mu.Lock()
	g.r.Asked, g.r.Granted = then-late.Nanoseconds(), then-late.Nanoseconds()
	h.mu.Unlock()
	g.Until(func() time.Time { return deadline })
	cancel(coordinator.ErrSessionLost)
	var ended int64
	await.Until(t, "the end to be recorded", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		ended = g.r.Ended
		return ended != 0
	})
	if off := time.Duration(ended - then).Abs(); off > time.Minute {
		t.Errorf("off by %v", off)
	}
	if told := h.Report().ToldLate; (told - late).Abs() > time.Minute {
		t.Errorf("notified %v late, but %v is reported", late, told)
	}
	h.Excuse("a", "", "stopped", then, then+1)
	if told := h.Report().ToldLate; told != 0 {
		t.Errorf("notified late with an excuse, but %v is reported", told)
	}
}

func TestHistoriesOfProcessesAreMerged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "child")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	child, h := New(), New()
	child.AppendTo(f)
	ctx, cancel := context.WithCancel(context.Background())
	g := child.Attempt("child", "n", Mutex, 1, 1).Granted(ctx, 2)
	child.Write("child", "reg", 2, "x", 1, 2, true)
	child.Excuse("child", "n", "as a test", 1, 2)
	child.Fault("cut")("child")
	ours := h.Attempt("parent", "n", Mutex, 1, 1).Granted(context.Background(), 3)
	if _, err := f.WriteString(`{"hold":{"id":"killed in mid`); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	h.Merge(loaded)
	r := h.Report()
	if r.Grants[Mutex] != 2 || r.Accesses != 1 || r.Faults["cut"] != 1 || len(h.excused) != 1 || h.faults[0].End == 0 {
		t.Errorf("merged\n%v", r)
	}
	if vs := h.direct(); len(vs) != 1 || vs[0].Check != "exclusion" {
		t.Errorf("two processes hold, but the check finds %v", vs)
	}
	g.Releasing()
	ours.Releasing()
	cancel()
	if _, err := f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil {
		t.Error("a broken line in the middle was accepted")
	}
}

// On a loaded machine a search may time out.
func TestSearchTimeoutFailsOnlyASoak(t *testing.T) {
	for soak, want := range map[string]int{"": 0, "5m": 1} {
		t.Run("BATON_SOAK="+soak, func(t *testing.T) {
			t.Setenv(soakVariable, soak)
			c := &counter{TB: t}
			judgeUnknown(c, Report{Unknown: []string{"porcupine: no answer"}})
			if c.failures != want || c.logged != 1-want {
				t.Errorf("%d failures, %d lines", c.failures, c.logged)
			}
		})
	}
	h := New()
	h.err = errors.New("disk full")
	c := &counter{TB: t}
	if h.Check(c); c.failures != 1 {
		t.Error("an incomplete history passes")
	}
}

// counter is a testing.TB that counts failures.
type counter struct {
	testing.TB
	failures, logged int
}

func (c *counter) Helper()      {}
func (c *counter) Error(...any) { c.failures++ }
func (c *counter) Log(...any)   { c.logged++ }
