package rwlock_test

import (
	"errors"
	"testing"
)

// TestOneThatGivesUpMakesWayForThoseBehind: a waiting writer for readers, a waiting reader for a writer.
func TestOneThatGivesUpMakesWayForThoseBehind(t *testing.T) {
	parties(t, func(a, b, c party) {
		r := a.rlock()
		w := b.begin(b.l.Lock)
		r1, r2, w2 := c.begin(c.l.RLock), b.begin(b.l.RLock), a.begin(a.l.Lock)
		w.cancel(errors.New("given up"))
		admitted(t, "ab", r1, r2, w2)
		a.unlock(r)
		r1.unlock()
		r2.unlock()
		admitted(t, "abc", r1, r2, w2)

		r1 = b.begin(b.l.RLock)
		w = c.begin(c.l.Lock)
		r1.cancel(errors.New("given up"))
		admitted(t, "", w) // the one ahead left without ever holding
		w2.unlock()
		admitted(t, "a", w)
		w.unlock()
	})
}
