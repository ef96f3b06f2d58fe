package rwlock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
)

// listed formats the result of Contenders: "R" and "W" hold, "r" and "w" wait.
func (p party) listed() string {
	p.Helper()
	all, err := p.l.Contenders(context.Background())
	check(p, err)
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

func TestContendersShowReadersAndWritersHoldingAndWaiting(t *testing.T) {
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
