package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// markers returns the handoff markers at the service.
func (f *fake) markers() (found []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.kvs {
		if keys.IsMarker(key) {
			found = append(found, key)
		}
	}
	return found
}

// TestRepeatedJoinKeepsItsPlace: the reply to the first request was lost, and
// another contender has joined since.
func TestRepeatedJoinKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		x := contender()
		f.loseReply()
		if _, err := s.Join(t.Context(), queue, x); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		behind := join(t, s, contender())
		x.Again = true
		own := join(t, s, x)
		if own.Token >= behind.Token || own.First || !slices.Equal(ids(t, s), []string{x.ID, behind.Place.ID}) {
			t.Errorf("joined again with %+v before %+v: %v", own, behind, ids(t, s))
		}
	})
}

// TestRepeatedJoinFindsItsConvertedEntry: a contender has one entry.
func TestRepeatedJoinFindsItsConvertedEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		x := contender()
		own := join(t, s, x)
		to, err := s.Convert(t.Context(), queue, own, "r", nil)
		check(t, err)
		x.Again = true
		if again := join(t, s, x); again.Place != to || again.Token != own.Token {
			t.Errorf("joined again with %+v, want %+v", again, to)
		}
		if n := len(ids(t, s)); n != 1 {
			t.Errorf("%d entries", n)
		}
	})
}

// TestForgetRemovesAConvertedEntry, and a view has one entry of it before.
func TestForgetRemovesAConvertedEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		own := join(t, s, contender())
		to, err := s.Convert(t.Context(), queue, own, "r", nil)
		check(t, err)
		me := join(t, s, contender())
		if v := ahead(t, s, me.Place); !slices.Equal(v.Ahead, []driver.Place{to}) {
			t.Errorf("ahead: %+v", v)
		}
		check(t, s.Forget(t.Context(), queue, own.Place.ID))
		if v := ahead(t, s, me.Place); len(v.Ahead) != 0 {
			t.Errorf("ahead: %+v", v)
		}
	})
}

// TestOnlyItsSessionRemovesAnEntry is L2.
func TestOnlyItsSessionRemovesAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s, other := open(t, f, c), open(t, f, c)
		own := join(t, s, contender())
		if err := other.Leave(t.Context(), queue, own.Place); !errors.Is(err, driver.ErrGone) {
			t.Errorf("got %v", err)
		}
		if n := len(ids(t, s)); n != 1 {
			t.Errorf("%d entries", n)
		}
	})
}

// TestWatchOfAnEarlierLifeEndsAtOnce: the contender has left, and its name is
// in use again.
func TestWatchOfAnEarlierLifeEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		x := contender()
		old := join(t, s, x).Place
		check(t, s.Leave(t.Context(), queue, old))
		now := join(t, s, x).Place
		for name, places := range map[string][]driver.Place{"alone": {old}, "with the next life": {old, now}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := s.Watch(ctx, queue, places...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	})
}

// TestHandoffLeavesNoMarkerThatStays: that of a converted entry would be taken
// for an entry, and
// one on an external lease outlives the session.
func TestHandoffLeavesNoMarkerThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		alone, own := join(t, s, follower()), join(t, s, follower())
		join(t, s, follower())
		check(t, s.Leave(t.Context(), queue, alone.Place)) // no tail key has named it
		to, err := s.Convert(t.Context(), queue, own, "r", nil)
		check(t, err)
		check(t, s.Pass(t.Context(), queue, to))
		if left := f.markers(); len(left) != 0 {
			t.Errorf("a converted entry has left %v", left)
		}

		x := openExternal(t, c)
		alone, first := join(t, x, follower()), join(t, x, follower())
		join(t, x, follower())
		check(t, x.Leave(t.Context(), queue, alone.Place))
		check(t, x.Capabilities().Handoff.Pass(t.Context(), queue, first.Place))
		if left := f.markers(); len(left) != 0 {
			t.Errorf("on an external lease: %v", left)
		}
		check(t, x.Close(t.Context()))
	})
}

// TestLeftOverMarkerGoesWithWhoHasReadIt: its follower has not removed it.
func TestLeftOverMarkerGoesWithWhoHasReadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		leaveMarker(t, f, c, s, contender(), true)
		left := len(f.markers())
		own := join(t, s, follower())
		ahead(t, s, own.Place)
		check(t, s.Leave(t.Context(), queue, own.Place))
		if n := len(f.markers()); left == 0 || n != 0 {
			t.Errorf("%d markers before, %d after", left, n)
		}
	})
}

// TestQueueWatchShowsNoMarkers: a handoff is a departure and nothing else.
func TestQueueWatchShowsNoMarkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		alone, first, second := join(t, s, follower()), join(t, s, follower()), join(t, s, follower())
		check(t, s.Leave(t.Context(), queue, alone.Place)) // no tail key has named it
		ctx, cancel := context.WithCancel(t.Context())
		var view []driver.Place
		end := inBackground(func() error {
			return s.WatchQueue(ctx, queue, func(places []driver.Place) bool { view = places; return true })
		})
		check(t, s.Pass(t.Context(), queue, first.Place))
		synctest.Wait()
		if !slices.Equal(view, []driver.Place{second.Place}) || len(f.markers()) != 1 {
			t.Errorf("shown: %+v, markers: %v", view, f.markers())
		}
		cancel()
		<-end
	})
}

// TestNextHeadIsReadWhenTheKnownOneHasLeft: the first entry is read alone while
// it exists.
func TestNextHeadIsReadWhenTheKnownOneHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s, other := open(t, f, c), open(t, f, c)
		first, second := join(t, other, contender()), join(t, other, contender())
		for _, want := range []driver.Joined{first, second} {
			heads, err := s.List(t.Context(), queue, 1)
			if check(t, err); len(heads) != 1 || heads[0].Place != want.Place {
				t.Errorf("got %+v, want %+v", heads, want)
			}
			check(t, other.Leave(t.Context(), queue, want.Place))
		}
	})
}
