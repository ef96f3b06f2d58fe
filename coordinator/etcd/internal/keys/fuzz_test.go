package keys

import (
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
)

// FuzzHandle: a place's handle parses back to its entry, also for other
// programs' names and for converted entries. A handle of another queue is
// refused.
func FuzzHandle(f *testing.F) {
	f.Add(someID+"-"+someID+"-x", int64(5))
	f.Add("+"+someID+"-"+someID+"-x-0000000000000001", int64(7))
	f.Add("+"+someID+"-"+someID+"-x-0000000000000009", int64(7))
	f.Add("5b1a1fda4375804", int64(1))
	f.Add("a@5", int64(-1))
	f.Add("", int64(1))
	f.Fuzz(func(t *testing.T, bare string, rev int64) {
		l, queue := New("ns"), driver.Queue("m/x")
		e := Entry{l.Queue(queue) + bare, rev}
		got, ok := l.Entry(queue, driver.Place{Key: e.Handle()})
		if ok != (rev > 0) || ok && got != e {
			t.Fatalf("%+v is parsed as %+v, %v", e, got, ok)
		}
		if !ok {
			return
		}
		if other, ok := l.Entry("m/y", driver.Place{Key: e.Handle()}); ok {
			t.Errorf("%+v is taken for %+v of another queue", e, other)
		}
		p, rank := l.Place(queue, e), l.Rank(queue, e)
		if rank <= 0 || rank > rev {
			t.Errorf("%+v has rank %d", e, rank)
		}
		// An entry without an ID is another program's, at the place that etcd
		// gave it.
		if p.ID == "" && (rank != rev || p.Mode != "") || p.ID != "" && !strings.Contains(bare, p.ID) {
			t.Errorf("%+v has rank %d and place %+v", e, rank, p)
		}
	})
}
