package recipes_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// causes may end a caller's context. In an errgroup the error of one member is
// the cause of the others' contexts, so it may be one of Baton's.
var causes = []error{
	errors.New("mine"), context.Canceled, coordinator.ErrSessionLost, coordinator.ErrUnavailable,
	coordinator.ErrRemoved, coordinator.ErrTaken, recipes.ErrOtherMode,
	&recipes.TakenError{Op: "try-lock", Name: "n"},
	&coordinator.Error{Op: "unlock", Name: "n", Err: coordinator.ErrNotHeld, Maybe: true},
}

// waited reports whether err says that a call on a name was queued, for how
// long, and ended with the cause itself.
func waited(err error, name string, queued time.Duration, cause error) bool {
	said, ok := err.(*coordinator.Error) //nolint:errorlint // itself
	if !ok || said.Name != name || said.Op == "" || said.Maybe {
		return false
	}
	wait, ok := said.Err.(*recipes.WaitError) //nolint:errorlint // itself
	same := ok && wait.Err == cause           //nolint:errorlint // itself
	return same && wait.Queued == queued && errors.Is(err, cause)
}

// TestWaitEndsWithTheCauseOfItsContextAndLeavesTheQueue, directly behind the
// holder and behind another waiter. The error says what was waited for, and how
// long.
func TestWaitEndsWithTheCauseOfItsContextAndLeavesTheQueue(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask.other(), 0)
		for _, cause := range causes {
			ctx, cancel := context.WithCancelCause(w.Context())
			waits := []*call{w.queue(ctx, ask, 1), w.queue(ctx, ask, 1)}
			time.Sleep(time.Millisecond)
			lists := w.svc.Stats().Requests[memory.OpList]
			cancel(cause)
			for _, a := range waits {
				if <-a.done; !waited(a.err, "n", time.Millisecond, cause) {
					w.Errorf("ended with %v, want a wait for 1ms that ended with %v", a.err, cause)
				}
			}
			synctest.Wait()
			w.alone(ask, h)
			if n := w.svc.Stats().Requests[memory.OpList] - lists; n != 0 ||
				w.session(1).Err() != nil {
				w.Errorf("%v: %d listings, session %v", cause, n, w.session(1).Err())
			}
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		a := w.queue(ctx, ask, 1)
		if <-a.done; !waited(a.err, "n", time.Second, context.DeadlineExceeded) ||
			!strings.HasSuffix(a.err.Error(), ` "n": after 1s in the queue: context deadline exceeded`) {
			w.Errorf("ended with %v", a.err)
		}
		w.release(h)
	})
}

// TestReadCancelledWhileWaitingSaysHowLongItWaited: the predecessor gives up,
// so the queue is read, and the caller gives up before the answer arrives.
func TestReadCancelledWhileWaitingSaysHowLongItWaited(t *testing.T) {
	worlds(t, ways(), 2, func(w place, ask way) {
		for _, cause := range causes {
			h := w.take(ask, 0)
			ahead, giveUp := context.WithCancel(w.Context())
			w.queue(ahead, ask, 0)
			ctx, cancel := context.WithCancelCause(w.Context())
			a := w.queue(ctx, ask, 1)
			read := false
			w.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
				if r.Op == memory.OpAhead && r.Driver == w.links[1] {
					read, f.DelayReply = true, time.Second
					time.AfterFunc(time.Millisecond, func() { cancel(cause) })
				}
				return f
			})
			giveUp()
			if <-a.done; !waited(a.err, "n", time.Millisecond, cause) || !read {
				w.Errorf("ended with %v, want a wait for 1ms that ended with %v; the queue was read: %v",
					a.err, cause, read)
			}
			w.svc.OnRequest(nil)
			w.release(h)
		}
	})
}

func TestDeadContextSendsNothing(t *testing.T) {
	worlds(t, every(), 1, func(w place, ask way) {
		ctx, cancel := context.WithCancelCause(w.Context())
		cancel(causes[0])
		before := w.svc.Stats().Total()
		for _, f := range []askFunc{ask.ask, ask.try} {
			if _, err := f(ctx, w.all[0]); err != causes[0] { //nolint:errorlint // untouched
				w.Errorf("error %v", err)
			}
		}
		if n := w.svc.Stats().Total() - before; n != 0 {
			w.Errorf("%d requests", n)
		}
		w.release(w.take(ask, 0)) // the client still works
	})
}

// TestBoundIncludesTheWaitForTheService, with a session and while a lost one
// cannot be replaced. Requests that arrive late leave nothing.
func TestBoundIncludesTheWaitForTheService(t *testing.T) {
	for name, away := range map[string]func(w place){
		"stopped":       func(w place) { w.svc.Stop() },
		"cut off":       func(w place) { w.links[0].Cut() },
		"deaf":          func(w place) { w.links[0].HoldReplies() },
		"requests held": func(w place) { w.links[0].HoldRequests() },
		"slow":          func(w place) { w.links[0].Delay(time.Minute, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			worlds(t, every(), 2, func(w place, ask way) {
				w.release(w.take(ask, 0))
				away(w)
				for range 2 {
					for _, f := range []askFunc{ask.ask, ask.try, ask.list} {
						ctx, cancel := context.WithTimeout(w.Context(), time.Second)
						began := time.Now()
						_, err := f(ctx, w.all[0])
						w.want("call", err, coordinator.ErrUnavailable)
						w.want("call", err, context.DeadlineExceeded)
						if took := time.Since(began); took != time.Second {
							w.Errorf("a call with a bound of a second took %v", took)
						}
						cancel()
					}
					time.Sleep(time.Minute)
				}
				w.svc.Start()
				w.links[0].Delay(0, 0)
				w.links[0].Heal()
				time.Sleep(2 * time.Minute) // for late requests
				w.release(w.taken(ask.other().try, w.Context(), 1))
				w.release(w.take(ask, 0))
			})
		})
	}
}

// TestBoundIsForTheWholeWait: it does not restart when the predecessor leaves.
func TestBoundIsForTheWholeWait(t *testing.T) {
	worlds(t, ways(), 2, func(w place, ask way) {
		h := w.take(ask, 0)
		var wg sync.WaitGroup
		for i := range 9 { // the waiters give up one after the other, the last first
			ctx, cancel := context.WithTimeout(w.Context(), time.Duration(9-i)*900*time.Millisecond)
			defer cancel()
			wg.Go(func() { _, _ = ask.ask(ctx, w.all[0]) })
			synctest.Wait()
		}
		before, began := w.svc.Stats().Wakeups, time.Now()
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		_, err := ask.ask(ctx, w.all[1])
		w.want("Acquire", err, context.DeadlineExceeded)
		if took, n := time.Since(began), w.svc.Stats().Wakeups-before; took != 5*time.Second ||
			n < 5 {
			w.Errorf("with a bound of 5s it took %v and %d wake-ups", took, n)
		}
		wg.Wait()
		w.release(h)
	})
}

// TestWaiterKeepsItsPlaceOverOutages that its session survives.
func TestWaiterKeepsItsPlaceOverOutages(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask.other(), 0)
		a := w.queue(w.Context(), ask, 1)
		places, joins := w.svc.Snapshot(ask.queue), w.svc.Stats().Requests[memory.OpJoin]
		for range 3 {
			w.svc.Stop()
			time.Sleep(4 * time.Second)
			w.svc.Start()
			time.Sleep(2 * time.Second)
			w.links[1].Reset()
			time.Sleep(time.Second)
		}
		now := w.svc.Snapshot(ask.queue)
		if len(now) != 2 || now[1].Place != places[1].Place || a.over() || h.err() != nil ||
			w.svc.Stats().Requests[memory.OpJoin] != joins {
			w.Errorf("the queue was %v, and is %v; over %v", places, now, a.over())
		}
		w.release(h)
		w.release(w.granted(a))
	})
}

// TestWaiterThatLeavesPromotesNoOther: however it leaves, the contenders behind
// keep their order.
func TestWaiterThatLeavesPromotesNoOther(t *testing.T) {
	for name, goes := range map[string]func(w place, queue driver.Queue, cancel func()){
		"gives up": func(_ place, _ driver.Queue, cancel func()) { cancel() },
		"dies":     func(w place, _ driver.Queue, _ func()) { w.svc.Expire(w.session(1).ID()) },
		"removed": func(w place, queue driver.Queue, _ func()) {
			w.svc.Remove(queue, w.svc.Snapshot(queue)[1].Key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			worlds(t, ways(), 4, func(w place, ask way) {
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				h := w.take(ask, 0)
				gone := w.queue(ctx, ask, 1)
				behind := []*call{w.queue(w.Context(), ask, 2), w.queue(w.Context(), ask, 3)}
				goes(w, ask.queue, cancel)
				time.Sleep(time.Second)
				for i, a := range behind {
					for _, b := range behind[i:] {
						if b.over() {
							w.Error("a waiter was promoted")
						}
					}
					w.release(h)
					next := w.granted(a)
					if next.token <= h.token {
						w.Errorf("token %d after %d", next.token, h.token)
					}
					h = next
				}
				w.release(h)
				if <-gone.done; gone.err == nil {
					w.Error("it was granted")
				}
			})
		})
	}
}

// TestAttemptThatFindsItsSessionOverUsesANewOne: the client has not noticed the
// end of its session.
func TestAttemptThatFindsItsSessionOverUsesANewOne(t *testing.T) {
	worlds(t, every(), 1, func(w place, ask way) {
		for _, f := range []askFunc{ask.ask, ask.try} {
			old := w.session(0).ID()
			w.links[0].HoldReplies()
			w.svc.Expire(old)
			time.AfterFunc(time.Second, w.links[0].Heal)
			h := w.taken(f, w.Context(), 0)
			if h.session == old || h.err() != nil {
				w.Errorf("session %s, then %s: %v", old, h.session, h.err())
			}
			w.release(h)
		}
	})
}

// TestGrantThatArrivesAfterTheSessionEndedIsNone: the service's answer arrives
// too late.
func TestGrantThatArrivesAfterTheSessionEndedIsNone(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		w.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Driver == w.links[1] && r.Op == memory.OpJoin {
				f.DelayReply = time.Minute
			}
			f.DropRequest = r.Driver == w.links[1] && r.Op == memory.OpRenew
			return f
		})
		a := w.queue(w.Context(), ask, 1)
		if <-a.done; !lost(a.err) {
			w.Errorf("ended with %v", a.err)
		}
		w.svc.OnRequest(nil)
		w.release(w.take(ask.other(), 0))
	})
}

// TestCleanUpOfOneAttemptSparesTheNext, although it is late.
func TestCleanUpOfOneAttemptSparesTheNext(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		w.release(w.take(ask, 0))
		w.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			switch r.Op {
			case memory.OpJoin:
				f.DelayReply = 2 * time.Second
			case memory.OpForget:
				f.DelayRequest = 2 * time.Second
			}
			return f
		})
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err := ask.ask(ctx, w.all[0])
		w.want("given up", err, coordinator.ErrUnavailable)
		h := w.take(ask, 0)
		time.Sleep(time.Minute)
		w.alone(ask, h)
		w.release(h)
		w.release(w.take(ask, 1))
	})
}

// TestCleanUpOfARemovedEntryEnds: an entry that is gone is removed only once.
func TestCleanUpOfARemovedEntryEnds(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask.other(), 0)
		ctx, cancel := context.WithCancel(w.Context())
		a := w.queue(ctx, ask, 1)
		w.svc.Remove(ask.queue, w.svc.Snapshot(ask.queue)[1].Key)
		cancel()
		<-a.done
		time.Sleep(time.Minute)
		if n := w.svc.Stats().Requests[memory.OpLeave]; n != 1 {
			w.Errorf("%d requests to leave", n)
		}
		w.release(h)
	})
}

// TestRefusedAttemptIsNotRepeated: only an unavailable service is waited for.
func TestRefusedAttemptIsNotRepeated(t *testing.T) {
	worlds(t, ways(), 1, func(w place, ask way) {
		w.release(w.take(ask, 0))
		for _, op := range []memory.Op{memory.OpJoin, memory.OpAhead, memory.OpWatch} {
			foreign := w.svc.AddForeign(ask.queue) // so that the queue is read and watched
			before, began := w.svc.Stats().Requests[op], time.Now()
			w.svc.OnRequest(inOrder(op, memory.Fate{Err: refusal}))
			_, err := ask.ask(w.Context(), w.all[0])
			w.want(string(op), err, coordinator.ErrRefused)
			if n := w.svc.Stats().Requests[op] - before; n != 1 || time.Since(began) != 0 {
				w.Errorf("%s: %d requests in %v", op, n, time.Since(began))
			}
			synctest.Wait()
			w.svc.Remove(ask.queue, foreign.Key)
			if n := len(w.svc.Snapshot(ask.queue)); n != 0 {
				w.Errorf("%s: %d left in the queue", op, n)
			}
			w.svc.OnRequest(nil)
		}
	})
}

// TestForeignEntryIsWaitedFor: an entry of another program is never overtaken.
func TestForeignEntryIsWaitedFor(t *testing.T) {
	worlds(t, every(), 1, func(w place, ask way) {
		foreign := w.svc.AddForeign(ask.queue)
		_, err := ask.try(w.Context(), w.all[0])
		w.want("try", err, coordinator.ErrTaken)
		began := time.Now()
		time.AfterFunc(time.Minute, func() { w.svc.Remove(ask.queue, foreign.Key) })
		w.release(w.take(ask, 0))
		if took := time.Since(began); took != time.Minute {
			w.Errorf("granted after %v", took)
		}
	})
}

func TestTryThatFailsNamesTheHolderAndLeavesNothing(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask.other(), 0)
		before := w.svc.Stats()
		_, err := ask.try(w.Context(), w.all[1])
		var taken *recipes.TakenError
		if !errors.As(err, &taken) || !errors.Is(err, coordinator.ErrTaken) {
			w.Fatalf("try: %v", err)
		}
		who := w.all[0].Identity()
		if c := taken.Holder; c.Identity != who || !strings.Contains(err.Error(), who) ||
			c.Token != h.token || !c.Holding || time.Since(c.Since) > time.Second {
			w.Errorf("try: %v, with %+v", err, c)
		}
		after := w.svc.Stats()
		if after.Entries != before.Entries || after.Watches != before.Watches ||
			after.Wakeups != before.Wakeups {
			w.Errorf("try left something: %+v, then %+v", before, after)
		}
		w.release(h)
	})
}

func TestTryDoesNotWaitForTheNameOfTheHolder(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask.other(), 0)
		w.svc.OnRequest(inOrder(memory.OpList, memory.Fate{DropRequest: true}))
		began := time.Now()
		_, err := ask.try(w.Context(), w.all[1])
		w.want("try", err, coordinator.ErrTaken)
		if took := time.Since(began); took > 2*time.Second {
			w.Errorf("took %v", took)
		}
		w.release(h)
	})
}

// TestListingOutlivesALostSession: a listing holds nothing, so another session
// repeats it.
func TestListingOutlivesALostSession(t *testing.T) {
	worlds(t, every(), 2, func(w place, ask way) {
		h := w.take(ask, 0)
		w.links[1].Delay(0, time.Second) // the end is not noticed before the answer
		w.svc.Expire(w.session(1).ID())
		if _, err := ask.list(w.Context(), w.all[1]); err != nil {
			w.Errorf("listing: %v", err)
		}
		w.links[1].Delay(0, 0)
		w.release(h)
	})
}
