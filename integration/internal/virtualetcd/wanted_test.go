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
		r := must(l.RLock(t.Context()))
		wanted := make(chan error, 1)
		go func() { wanted <- r.Wanted(t.Context()) }()
		reader := must(o.RLock(t.Context()))
		time.Sleep(time.Second)
		link.Cut()
		link.Reset()
		written := make(chan *rwlock.Lock, 1)
		go func() { written <- must(o.Lock(t.Context())) }()
		time.Sleep(time.Second)
		if err := w.Compact(); err != nil {
			t.Error(err)
		}
		if len(wanted) != 0 {
			t.Errorf("Wanted returned %v without a writer in view", <-wanted)
		}
		link.Heal()
		if err := errors.Join(<-wanted, r.Err(), r.Unlock(t.Context()), reader.Unlock(t.Context()),
			(<-written).Unlock(t.Context())); err != nil {
			t.Error(err)
		}
		if err := r.Wanted(t.Context()); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("after the release: %v", err)
		}
	})
}
