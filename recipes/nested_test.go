package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// outerLosses are ways to lose the hold that party a has of the queue.
func outerLosses() map[error]func(w world) {
	return map[error]func(w world){
		coordinator.ErrRemoved: func(w world) { w.svc.Remove(name, w.svc.Snapshot(name)[0].Key) },
		coordinator.ErrSessionLost: func(w world) {
			w.a.link.Cut()
			time.Sleep(time.Minute)
			w.a.link.Heal()
		},
		coordinator.ErrClosed: func(w world) { _ = w.a.client.Close(context.Background()) },
	}
}

// inner is a hold of party b that was taken with the context of another.
type inner interface {
	Context() context.Context
	Err() error
}

// nestable are ways to take an inner hold on a client.
func nestable(t *testing.T, c *coordinator.Client) map[string]func(ctx context.Context) (
	inner, func(context.Context) error,
) {
	m, err := mutex.New(c, "inner")
	check(t, err)
	long, err := mutex.New(c, "inner", mutex.WithMaxHold(24*time.Hour))
	check(t, err)
	retains, err := mutex.New(c, "inner", mutex.WithRetain(time.Millisecond))
	check(t, err)
	l, err := rwlock.New(c, "inner")
	check(t, err)
	s, err := semaphore.New(c, "inner", 3)
	check(t, err)
	set, err := multilock.New(multilock.Mutex(c, "x"), multilock.Write(c, "y"))
	check(t, err)
	return map[string]func(ctx context.Context) (inner, func(context.Context) error){
		"mutex":                     taking(t, m.Lock, (*mutex.Lock).Unlock),
		"mutex with a longest hold": taking(t, long.Lock, (*mutex.Lock).Unlock),
		"mutex that is retained":    taking(t, retains.Lock, (*mutex.Lock).Unlock),
		"writer":                    taking(t, l.Lock, (*rwlock.Lock).Unlock),
		"reader":                    taking(t, l.RLock, (*rwlock.Lock).Unlock),
		"set":                       taking(t, set.Lock, (*multilock.Lock).Unlock),
		"permits": taking(t, func(ctx context.Context) (*semaphore.Permit, error) {
			return s.Acquire(ctx, 2)
		}, (*semaphore.Permit).Release),
	}
}

func taking[H inner](
	t *testing.T, take func(context.Context) (H, error), release func(H, context.Context) error,
) func(context.Context) (inner, func(context.Context) error) {
	return func(ctx context.Context) (inner, func(context.Context) error) {
		h, err := take(ctx)
		check(t, err)
		return h, func(ctx context.Context) error { return release(h, ctx) }
	}
}

// TestInnerContextEndsWhenTheOuterHoldIsLost, in each recipe, with the cause of
// the loss, and so do those derived from it. The inner hold stays until it is
// released, except that of a set.
func TestInnerContextEndsWhenTheOuterHoldIsLost(t *testing.T) {
	for want, lose := range outerLosses() {
		for how := range nestable(t, unused(t)) {
			for what, of := range map[string]func(*recipes.Hold) context.Context{
				"hold": (*recipes.Hold).Context, "work": under,
			} {
				inWorld(t, func(w world) {
					outer := w.hold(w.a, w.Context(), write)
					time.Sleep(time.Minute) // it watches its entry
					h, release := nestable(t, w.b.client)[how](of(outer))
					derived, cancel := context.WithCancel(h.Context())
					defer cancel()
					check(w, derived.Err())
					lose(w)
					<-derived.Done()
					if err := context.Cause(derived); !errors.Is(err, want) {
						w.Errorf("%s, %s: %v, want %v", how, what, err, want)
					}
					if err := h.Err(); err != nil && how != "set" {
						w.Errorf("%s, %s: the inner hold: %v", how, what, err)
					}
					if err := release(context.Background()); err != nil && how != "set" {
						w.Error(err)
					}
					_ = outer.Release(context.Background())
				})
			}
		}
	}
}

// under returns the context of work under a hold.
func under(h *recipes.Hold) context.Context {
	ctx, _ := h.Under(context.Background())
	return ctx
}

// TestInnerContextOutlivesTheReleaseOfTheOuterHold, and that of one handle of
// it. Then a loss of those further out still ends it.
func TestInnerContextOutlivesTheReleaseOfTheOuterHold(t *testing.T) {
	inWorld(t, func(w world) {
		outmost := w.hold(w.a, w.Context(), write)
		time.Sleep(time.Minute)
		middle, err := newQueue(w, w.b, "middle").Acquire(outmost.Context(), write)
		check(w, err)
		again, err := newQueue(w, w.b, "middle").Acquire(middle.Context(), write)
		check(w, err)
		inmost, err := newQueue(w, w.b, "inmost").Acquire(again.Context(), write)
		check(w, err)
		w.release(again)
		check(w, inmost.Context().Err())
		w.release(middle)
		time.Sleep(time.Minute)
		check(w, inmost.Context().Err())
		w.svc.Remove(name, w.svc.Snapshot(name)[0].Key)
		<-inmost.Context().Done()
		wantErr(w.T, context.Cause(inmost.Context()), coordinator.ErrRemoved)
		check(w, inmost.Err())
		w.release(inmost)
		wantErr(w.T, outmost.Release(w.Context()), coordinator.ErrRemoved)
	})
}

func newQueue(w world, p party, name string, opts ...recipes.Option) *recipes.Queue {
	q, err := recipes.NewQueue(p.client, "test", name, opts...)
	check(w, err)
	return q
}

// TestReentryEndsWithTheHoldInWhichItWasTaken: a lock, another within it, and
// the first one again within that. When the one between is lost, only the
// context of the re-entry ends; when the first is, all do.
func TestReentryEndsWithTheHoldInWhichItWasTaken(t *testing.T) {
	inWorld(t, func(w world) {
		between := newQueue(w, w.b, "between")
		first := w.hold(w.a, w.Context(), write)
		b, err := between.Acquire(first.Context(), write)
		check(w, err)
		again := w.hold(w.a, b.Context(), write)
		time.Sleep(time.Minute)
		w.svc.Remove("test/between", w.svc.Snapshot("test/between")[0].Key)
		<-again.Context().Done()
		wantErr(w.T, context.Cause(again.Context()), coordinator.ErrRemoved)
		check(w, first.Context().Err())
		check(w, again.Err())
		w.release(again)
		wantErr(w.T, b.Release(w.Context()), coordinator.ErrRemoved)

		b, err = between.Acquire(first.Context(), write)
		check(w, err)
		again = w.hold(w.a, b.Context(), write)
		w.svc.Remove(name, w.svc.Snapshot(name)[0].Key)
		for _, ctx := range []context.Context{first.Context(), b.Context(), again.Context()} {
			<-ctx.Done()
			wantErr(w.T, context.Cause(ctx), coordinator.ErrRemoved)
		}
		w.release(b)
		wantErr(w.T, again.Release(w.Context()), coordinator.ErrRemoved)
		wantErr(w.T, first.Release(w.Context()), coordinator.ErrRemoved)
	})
}

// TestInnerContextEndsAfterTheLongestHoldOfTheOuter, which is still held.
func TestInnerContextEndsAfterTheLongestHoldOfTheOuter(t *testing.T) {
	inWorld(t, func(w world) {
		outer, err := newQueue(w, w.a, "outer", recipes.WithMaxHold(time.Hour)).Acquire(w.Context(), write)
		check(w, err)
		h := w.hold(w.b, outer.Context(), write)
		time.Sleep(time.Hour)
		<-h.Context().Done()
		wantErr(w.T, context.Cause(h.Context()), recipes.ErrHeldTooLong)
		w.release(h)
		w.release(outer)
	})
}

// TestInnerContextEndsWhenAnOuterSetIsLost.
func TestInnerContextEndsWhenAnOuterSetIsLost(t *testing.T) {
	inWorld(t, func(w world) {
		set, err := multilock.New(multilock.Mutex(w.a.client, "x"), multilock.Mutex(w.a.client, "y"))
		check(w, err)
		err = set.Do(w.Context(), func(ctx context.Context, l *multilock.Lock) error {
			time.Sleep(time.Minute)
			for _, ctx := range []context.Context{ctx, l.Context()} {
				h := w.hold(w.b, ctx, read)
				defer w.release(h)
				defer func() { wantErr(w.T, context.Cause(h.Context()), coordinator.ErrRemoved) }()
			}
			w.svc.Remove("mutex/y", w.svc.Snapshot("mutex/y")[0].Key)
			synctest.Wait()
			return nil
		})
		wantErr(w.T, err, coordinator.ErrRemoved)
	})
}

// TestInnerContextEndsBeforeTheOuterEntryLeaves: that of work under the inner
// hold, on another client, of a lock and of a set.
func TestInnerContextEndsBeforeTheOuterEntryLeaves(t *testing.T) {
	for how := range nestable(t, unused(t)) {
		inWorld(t, func(w world) {
			outer := w.hold(w.a, w.Context(), write)
			h, release := nestable(t, w.b.client)[how](outer.Context())
			derived, cancel := context.WithCancel(h.Context())
			defer cancel()
			judged := false
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Op == memory.OpClose && !judged {
					judged = true
					select {
					case <-derived.Done():
					default:
						w.Errorf("%s: the outer session ends while the inner context is alive", how)
					}
				}
				return memory.Fate{}
			})
			_ = w.a.client.Close(context.Background())
			w.svc.OnRequest(nil)
			if !judged {
				w.Error("nothing was judged")
			}
			_ = release(context.Background())
		})
	}
}
