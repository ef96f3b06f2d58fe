package etcd

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestSecondInLineWatchesItself: its watch takes in both, whichever sorts first, and what lies between them is not heeded.
func TestSecondInLineWatchesItself(t *testing.T) {
	for name, c := range map[string]struct {
		goes   []int // at once, by number in line
		passed bool
		err    error
	}{
		"the first leaves":                  {[]int{0}, true, nil},
		"the first and others leave":        {[]int{2, 0, 3}, true, nil},
		"the second is removed":             {[]int{1}, false, driver.ErrGone},
		"both are removed, the first first": {[]int{0, 1}, false, driver.ErrGone},
		"both are removed":                  {[]int{1, 0}, false, driver.ErrGone},
	} {
		for order, by := range map[string][]int{"first": {0, 5, 1, 2, 3, 4}, "last": {5, 0, 1, 2, 3, 4}} { // of who joins, by session
			t.Run(name+", the first sorts "+order, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { second(t, by, c.goes, c.passed, c.err) })
			})
		}
	}
}

func second(t *testing.T, by, goes []int, passed bool, err error) {
	f, client := newFake(t)
	var sessions []*session // whose names rise
	for range by {
		sessions = append(sessions, open(t, f, client))
	}
	q := &file{f: f, s: sessions[by[1]]}
	for _, i := range by {
		q.places = append(q.places, join(t, sessions[i], contender()).Place)
	}
	end := make(chan outcome[bool], 1)
	go func() {
		passed, err := q.s.Follow(t.Context(), line, q.places[1], q.places[0], true)
		end <- outcome[bool]{passed, err}
	}()
	synctest.Wait()
	q.remove(4, false)
	time.Sleep(2 * driver.Settle)
	synctest.Wait()
	if len(end) > 0 {
		t.Fatalf("it waits no more: %+v", <-end)
	}
	if n := q.guarded(); n > 0 {
		t.Errorf("%d watches on all entries of the session", n)
	}
	q.removeAtOnce(goes...)
	synctest.Wait()
	if len(end) == 0 {
		t.Fatal("it waits on")
	}
	if got := <-end; got.got != passed || !errors.Is(got.err, err) {
		t.Errorf("told %+v", got)
	}
	synctest.Wait()
	f.watching(t, 0, "/mutex/")
}

// TestSecondInLineLooksAtBoth: what went before the watch stood.
func TestSecondInLineLooksAtBoth(t *testing.T) {
	f, c := newFake(t)
	a, b := open(t, f, c), open(t, f, c)
	first, second := join(t, a, contender()).Place, join(t, b, contender()).Place
	check(t, a.Leave(t.Context(), line, first))
	if passed, err := b.Follow(t.Context(), line, second, first, true); !passed || err != nil {
		t.Errorf("behind one that has left: %v, %v", passed, err)
	}
	(&file{f: f, s: b, places: []driver.Place{second}}).remove(0, true)
	if passed, err := b.Follow(t.Context(), line, second, first, true); passed || !errors.Is(err, driver.ErrGone) {
		t.Errorf("removed, behind one that has left: %v, %v", passed, err)
	}
}
