package virtualetcd_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/rwlock"
)

// TestReaderLearnsOfAWriterBeyondAnOutage: the connection breaks, and the
// revisions that its watch has missed are compacted away. Readers do not end
// the wait.
func TestReaderLearnsOfAWriterBeyondAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		c, link := w.client("")
		other, _ := w.client("")
		l, o := must(rwlock.New(w.baton(c), "n")), must(rwlock.New(w.baton(other), "n"))
		r := must(l.RLock(w.t.Context()))
		wanted := make(chan error, 1)
		go func() { wanted <- r.Wanted(w.t.Context()) }()
		reader := must(o.RLock(w.t.Context()))
		time.Sleep(time.Second)
		link.Cut()
		link.Reset()
		written := make(chan *rwlock.Lock, 1)
		go func() { written <- must(o.Lock(w.t.Context())) }()
		time.Sleep(time.Second)
		if err := w.Compact(); err != nil {
			w.t.Error(err)
		}
		if len(wanted) != 0 {
			w.t.Errorf("Wanted returned %v without a writer in view", <-wanted)
		}
		link.Heal()
		if err := errors.Join(<-wanted, r.Err(), r.Unlock(w.t.Context()), reader.Unlock(w.t.Context()),
			(<-written).Unlock(w.t.Context())); err != nil {
			w.t.Error(err)
		}
		if err := r.Wanted(w.t.Context()); !errors.Is(err, coordinator.ErrReleased) {
			w.t.Errorf("after the release: %v", err)
		}
	})
}
