package recipes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// listed returns the contenders of a queue of kind "test".
func listed(w world, p party, name string) []recipes.Contender {
	w.Helper()
	all, err := newQueue(w, p, name).List(w.Context(), func(string) recipes.Rule { return recipes.Exclusive })
	check(w, err)
	return all
}

// queuesOf returns the queues of holds, with the service of each that has one.
func queuesOf(under []recipes.OuterHold) string {
	var all []string
	for _, o := range under {
		all = append(all, strings.TrimSpace(string(o.Queue)+" "+o.Service))
	}
	return strings.Join(all, ", ")
}

// TestEntryShowsTheHoldsOfItsContext, the innermost first, each once, with the
// service if it is of another client: while it waits and while it holds. Those
// that are over are not shown.
func TestEntryShowsTheHoldsOfItsContext(t *testing.T) {
	inWorld(t, func(w world) {
		outer := w.hold(w.a, w.Context(), write)
		again := w.hold(w.a, outer.Context(), write)
		l, err := rwlock.New(w.b.client, "stock")
		check(w, err)
		reads, err := l.RLock(again.Context())
		check(w, err)
		s, err := semaphore.New(w.b.client, "pool", 3)
		check(w, err)
		over, err := s.Acquire(reads.Context(), 1)
		check(w, err)
		permit, err := s.Acquire(over.Context(), 2)
		check(w, err)
		check(w, over.Release(w.Context()))

		blocks, err := newQueue(w, w.a, "inner").Acquire(w.Context(), write)
		check(w, err)
		var inner *recipes.Hold
		waits := start(func() (err error) {
			inner, err = newQueue(w, w.b, "inner").Acquire(permit.Context(), write)
			return err
		})
		synctest.Wait()
		const want = "semaphore/pool, rwlock/stock, test/queue memory://"
		for _, holds := range []bool{false, true} {
			if holds {
				w.release(blocks)
				check(w, <-waits)
			}
			all := listed(w, w.a, "inner")
			last := all[len(all)-1]
			if got := queuesOf(last.Under); got != want || last.UnderLeftOut != 0 || last.Holding != holds {
				w.Errorf("holds %v: under %s, want %s", holds, got, want)
			}
			if first := last.Under[2]; first.Token != outer.Token() || first.ID != outer.ID() {
				w.Errorf("the outermost hold is %+v, want token %d", first, outer.Token())
			}
		}
		w.release(inner)
		check(w, permit.Release(w.Context()))
		check(w, reads.Unlock(w.Context()))
		w.release(again)
		w.release(outer)
	})
}

// TestWaitingSetShowsTheMembersThatItHolds, and in its context all of them.
func TestWaitingSetShowsTheMembersThatItHolds(t *testing.T) {
	inWorld(t, func(w world) {
		outer := w.hold(w.b, w.Context(), write)
		blocks, err := newMutexOf(w, w.a, "b").Lock(w.Context())
		check(w, err)
		set, err := multilock.New(multilock.Mutex(w.b.client, "b"), multilock.Mutex(w.b.client, "a"))
		check(w, err)
		var got *multilock.Lock
		waits := start(func() (err error) { got, err = set.Lock(outer.Context()); return err })
		synctest.Wait()
		all, err := newMutexOf(w, w.a, "b").Contenders(w.Context())
		check(w, err)
		if under := queuesOf(all[1].Under); under != "mutex/a, test/queue" {
			w.Errorf("the set waits under %s", under)
		}
		check(w, blocks.Unlock(w.Context()))
		check(w, <-waits)
		inner, err := newMutexOf(w, w.b, "c").Lock(got.Context())
		check(w, err)
		all, err = newMutexOf(w, w.a, "c").Contenders(w.Context())
		check(w, err)
		if under := queuesOf(all[0].Under); under != "mutex/b, mutex/a, test/queue" {
			w.Errorf("taken under %s", under)
		}
		check(w, inner.Unlock(w.Context()))
		check(w, got.Unlock(w.Context()))
		w.release(outer)
	})
}

func newMutexOf(w world, p party, name string, opts ...mutex.Option) *mutex.Mutex {
	w.Helper()
	m, err := mutex.New(p.client, name, opts...)
	check(w, err)
	return m
}

// TestEntryShowsEightOuterHoldsAtMost, the innermost, and how many it leaves
// out. The longest names fit.
func TestEntryShowsEightOuterHoldsAtMost(t *testing.T) {
	inWorld(t, func(w world) {
		ctx := w.Context()
		var all []*recipes.Hold
		for i := range 10 {
			name := fmt.Sprint(i, strings.Repeat("\u00e9", 127))
			h, err := newQueue(w, w.a, name).Acquire(ctx, write)
			check(w, err)
			all, ctx = append(all, h), h.Context()
		}
		h, err := newQueue(w, w.b, "inner", recipes.WithPayload(make([]byte, recipes.MaxPayload))).Acquire(ctx, write)
		check(w, err)
		c := listed(w, w.a, "inner")[0]
		if len(c.Under) != 8 || c.UnderLeftOut != 2 || c.Under[0].Token != all[9].Token() {
			w.Errorf("shows %d holds, %d left out, the first with token %d", len(c.Under), c.UnderLeftOut,
				c.Under[0].Token)
		}
		w.release(h)
		for _, h := range all {
			w.release(h)
		}
	})
}

// TestNestedLockCostsNoRequestMore: one to lock, one to unlock, and one
// that does not nest stores what it stored before.
func TestNestedLockCostsNoRequestMore(t *testing.T) {
	inWorld(t, func(w world) {
		outer := w.hold(w.a, w.Context(), write)
		w.session(w.b)
		q := newQueue(w, w.b, "inner")
		for nested, ctx := range map[bool]context.Context{false: w.Context(), true: outer.Context()} {
			before := w.svc.Stats().Total()
			h, err := q.Acquire(ctx, write)
			check(w, err)
			e := w.svc.Snapshot("test/inner")[0]
			w.release(h)
			if n := w.svc.Stats().Total() - before; n != 2 {
				w.Errorf("nested %v: %d requests", nested, n)
			}
			var value map[string]any
			check(w, json.Unmarshal(e.Value, &value))
			if _, shows := value["nest"]; shows != nested {
				w.Errorf("nested %v: the entry is %s", nested, e.Value)
			}
		}
		w.release(outer)
	})
}

// TestOuterHoldsOfAnotherProgramAreChecked: anyone who may write to the queue
// chooses them. What Baton would not have written is not shown.
func TestOuterHoldsOfAnotherProgramAreChecked(t *testing.T) {
	inWorld(t, func(w world) {
		holds := []map[string]any{
			{"queue": "mutex/a", "id": "1", "token": 3},
			{"queue": "mutex/a b", "id": "1", "token": 3},
			{"queue": "mutex/a", "id": "", "token": 3},
			{"queue": "mutex/a", "id": "1", "token": -3},
			{"queue": "mutex/a", "id": "1", "token": 3, "service": strings.Repeat("x", 256)},
		}
		for range 10 {
			holds = append(holds, holds[0])
		}
		value, err := json.Marshal(map[string]any{"identity": "them", "since": time.Now(),
			"nest": map[string]any{"under": holds, "left_out": -1, "waits": "a later word"}})
		check(w, err)
		s := w.session(w.b)
		_, err = s.Join(w.Context(), name, driver.Contender{ID: s.NewID(false), Mode: "w", Value: value})
		check(w, err)
		c := listed(w, w.a, "queue")[0]
		if len(c.Under) != 8 || c.UnderLeftOut != 0 || c.Identity != "them" {
			w.Errorf("shows %+v", c)
		}
	})
}
