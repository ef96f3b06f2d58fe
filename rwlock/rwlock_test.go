package rwlock_test

import (
	"testing"

	"github.com/baton-go/baton/coordinator"
)

func TestReadersShareAndWritersExclude(t *testing.T) {
	parties(t, func(a, b, c party) {
		r1, r2, r3 := a.rlock(), b.rlock(), b.rlock() // two of one client
		w := c.begin(c.l.Lock)
		admitted(t, "", w)
		a.unlock(r2, r1)
		admitted(t, "", w)
		a.unlock(r3)
		admitted(t, "a", w)
		reader, writer := a.begin(a.l.RLock), b.begin(b.l.Lock)
		admitted(t, "", reader, writer)
		w.unlock()
		admitted(t, "a", reader, writer)
		reader.unlock()
		admitted(t, "ab", reader, writer)
		writer.unlock()
	})
}

// TestWhoComesFirstIsServedFirst: readers do not pass a writer that waits, or writers would starve; nor do
// writers pass readers.
func TestWhoComesFirstIsServedFirst(t *testing.T) {
	parties(t, func(a, b, c party) {
		first := a.begin(a.l.RLock)
		w1 := b.begin(b.l.Lock)
		r1, r2 := c.begin(c.l.RLock), a.begin(a.l.RLock)
		w2 := c.begin(c.l.Lock)
		r3 := b.begin(b.l.RLock)
		all := []*pending{first, w1, r1, r2, w2, r3}
		admitted(t, "a", all...)
		first.unlock()
		admitted(t, "ab", all...)
		w1.unlock()
		admitted(t, "abcd", all...)
		r2.unlock()
		admitted(t, "abcd", all...)
		r1.unlock()
		admitted(t, "abcde", all...)
		w2.unlock()
		admitted(t, "abcdef", all...)
		r3.unlock()
		last := coordinator.Token(0)
		for _, g := range all {
			if g.lock.Token() <= last {
				t.Errorf("token %d after %d", g.lock.Token(), last)
			}
			last = g.lock.Token()
		}
	})
}

// TestReadersBetweenWritersAreServed is FIELD 48: a reader between two writers must not stop the queue.
func TestReadersBetweenWritersAreServed(t *testing.T) {
	parties(t, func(a, b, c party) {
		var all []*pending
		for i := range 21 {
			p := []party{a, b, c}[i%3]
			all = append(all, p.begin(p.kind(i%2 == 0, false)))
		}
		for i, g := range all {
			if !g.granted() || i+1 < len(all) && all[i+1].granted() {
				t.Fatalf("contender %d does not have it alone", i)
			}
			g.unlock()
		}
	})
}
