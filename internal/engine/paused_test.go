package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
)

// unlocker is a lock of any kind.
type unlocker interface{ Unlock(context.Context) error }

// TestCallAfterAPauseGetsNoLossFromBefore it: the process has stood still since
// a call of it began to wait, until after the end of the session. That call is
// notified of the loss. One that comes now waits on the next session, also if
// the two share an entry, and if the first gives up. In the events the entry
// has one end.
func TestCallAfterAPauseGetsNoLossFromBefore(t *testing.T) {
	reads := func(c *coordinator.Client, opts ...rwlock.Option) func(context.Context) (unlocker, error) {
		l, err := rwlock.New(c, "n", opts...)
		check(t, err)
		return func(ctx context.Context) (unlocker, error) { return l.RLock(ctx) }
	}
	writes := func(c *coordinator.Client, opts ...mutex.Option) func(context.Context) (unlocker, error) {
		m, err := mutex.New(c, "n", opts...)
		check(t, err)
		return func(ctx context.Context) (unlocker, error) { return m.Lock(ctx) }
	}
	for what, lock := range map[string]func(*coordinator.Client) func(context.Context) (unlocker, error){
		"mutex":   func(c *coordinator.Client) func(context.Context) (unlocker, error) { return writes(c) },
		"readers": func(c *coordinator.Client) func(context.Context) (unlocker, error) { return reads(c) },
		"kept turns": func(c *coordinator.Client) func(context.Context) (unlocker, error) {
			return writes(c, mutex.WithRetain(time.Millisecond))
		},
		"shared reads": func(c *coordinator.Client) func(context.Context) (unlocker, error) {
			return reads(c, rwlock.WithSharedReads())
		},
	} {
		for _, leaves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the first gives up: %t", what, leaves), func(t *testing.T) {
				tally := new(memory.Tally)
				within(t, func(w world) { w.callAfterAPause(lock, leaves) }, frozen, coordinator.WithObserver(tally))
				joined, ended := 0, 0
				for _, e := range tally.Events() {
					switch {
					case e.Kind == event.Joined:
						joined++
					case e.Kind == event.Granted, e.Kind == event.NotGranted && e.Token != 0:
						ended++
					}
				}
				if joined != 2 || ended != 2 {
					t.Errorf("%d entries, %d ends", joined, ended)
				}
			})
		}
	}
}

func (w world) callAfterAPause(lock func(*coordinator.Client) func(context.Context) (unlocker, error), leaves bool) {
	other, _ := w.another()
	l, err := rwlock.New(other, "n")
	check(w, err)
	writer, err := l.Lock(w.Context())
	check(w, err)
	m, err := mutex.New(other, "n")
	check(w, err)
	holder, err := m.Lock(w.Context())
	check(w, err)

	s, call := w.session(), lock(w.client)
	first, cancel := context.WithCancel(context.Background())
	defer cancel()
	early := make(chan error, 1)
	go func() { _, err := call(first); early <- err }()
	synctest.Wait()
	w.link.Cut()
	s.StopAlarm()
	time.Sleep(time.Until(s.Deadline()))
	free := make(chan error, 1)
	go func() {
		time.Sleep(time.Second)
		if leaves {
			cancel()
		}
		time.Sleep(time.Second)
		w.link.Reset()
		w.link.Heal()
		time.Sleep(time.Second)
		free <- errors.Join(writer.Unlock(context.Background()), holder.Unlock(context.Background()))
	}()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	h, err := call(ctx)
	check(w, err)
	check(w, h.Unlock(ctx))
	// The clock may be read, and the session ended, before the first call gives
	// up.
	if err := <-early; !errors.Is(err, coordinator.ErrSessionLost) && !(leaves && errors.Is(err, context.Canceled)) {
		w.Errorf("the call from before the pause: %v", err)
	}
	check(w, <-free)
	check(w, other.Close(context.Background()))
}
