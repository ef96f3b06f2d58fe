package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// bell is a function as a bell.
type bell func()

func (f bell) Ring() { f() }

// TestAlarmsAreCalledWhenTheyAreDueUnlessStopped: whatever was set before or taken back.
func TestAlarmsAreCalledWhenTheyAreDueUnlessStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = time.Second
		q := newAlarms(after)
		began := time.Now()
		calls := make(chan time.Duration, 10)
		set := func() *Alarm {
			a := new(Alarm)
			q.add(a, bell(func() { calls <- time.Since(began) }))
			return a
		}
		first := set()
		time.Sleep(300 * time.Millisecond)
		set()
		stopped := set()
		first.Stop() // the timer is armed for it, and has to be armed again
		time.Sleep(900 * time.Millisecond)
		set()
		stopped.Stop()
		time.Sleep(10 * time.Second) // the timer is not armed any more
		set()
		last := set()
		time.Sleep(2 * time.Second)
		last.Stop() // called already
		first.Stop()
		synctest.Wait()
		close(calls)
		var called []time.Duration
		for at := range calls {
			called = append(called, at)
		}
		ms := time.Millisecond
		if want := []time.Duration{1300 * ms, 2200 * ms, 12200 * ms, 12200 * ms}; !slices.Equal(called, want) {
			t.Errorf("called after %v; want %v", called, want)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.armed {
			t.Error("the timer is armed for nothing")
		}
	})
}
