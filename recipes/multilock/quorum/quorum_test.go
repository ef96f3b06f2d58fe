package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock/quorum"
)

const patience = 2 * time.Second // for a service that does not answer

// TestQuorumIsHeldEverywhereIfAllAnswer, without a wait.
func TestQuorumIsHeldEverywhereIfAllAnswer(t *testing.T) {
	within(t, 5, func(w *world) {
		p := w.caller(quorum.Majority)
		w.took(0, func() {
			l := p.lock()
			w.held(l, "xxxxx")
			if l.Held() != 5 || l.Err() != nil || l.Context().Err() != nil {
				w.Errorf("%d held, %v", l.Held(), l.Err())
			}
			w.unlock(l)
			if err := l.Err(); !errors.Is(err, coordinator.ErrReleased) || l.Held() != 0 {
				w.Errorf("%d held, %v", l.Held(), err)
			}
			if err := l.Unlock(w.Context()); !errors.Is(err, coordinator.ErrNotHeld) {
				w.Errorf("a second Unlock: %v", err)
			}
		})
		w.empty()
	})
}

// TestMinorityThatIsAwayCostsOneWait: the first call waits for it; those after
// it do not, until it is asked again.
func TestMinorityThatIsAwayCostsOneWait(t *testing.T) {
	within(t, 5, func(w *world) {
		p := w.caller(quorum.Majority)
		p.cut(0, 3)
		lock := func() {
			l := p.lock()
			w.held(l, "-xx-x")
			w.unlock(l)
		}
		w.took(patience, lock)
		for range 3 {
			w.took(0, lock)
		}
		p.heal()
		w.took(0, lock)
		time.Sleep(20 * time.Second)
		w.took(0, func() {
			l := p.lock()
			w.held(l, "xxxxx")
			w.unlock(l)
		})
		w.empty()
	})
}

// TestRestingServiceIsAskedIfItIsNeeded: by TryLock, too, after the wait for
// the one that has fallen silent since, which is then asked once more.
func TestRestingServiceIsAskedIfItIsNeeded(t *testing.T) {
	within(t, 3, func(w *world) {
		p := w.caller(quorum.Majority)
		p.cut(2)
		w.took(patience, func() { w.unlock(p.lock()) })
		p.heal()
		synctest.Wait() // a renewal is due now; the next one shows that there is no answer
		p.cut(0)
		w.took(2*patience, func() {
			l, err := p.TryLock(w.Context())
			if err != nil {
				w.Fatal(err)
			}
			w.held(l, "-xx")
			w.unlock(l)
		})
		p.heal()
		w.took(0, func() { // only the one that has not answered since still rests
			l := p.lock()
			w.held(l, "-xx")
			w.unlock(l)
		})
	})
}

// TestSuspendedSessionsAreNotAsked: a call passes over them at once, and if too
// few are left it does not join a queue, where it would delay other callers.
func TestSuspendedSessionsAreNotAsked(t *testing.T) {
	within(t, 3, func(w *world) {
		p := w.caller(quorum.Majority)
		w.unlock(p.lock())
		p.cut(0)
		time.Sleep(3 * time.Second)
		w.took(0, func() {
			l := p.lock()
			w.held(l, "-xx")
			w.unlock(l)
		})
		p.cut(1)
		time.Sleep(3 * time.Second)
		before := p.links[2].Stats().Requests[memory.OpJoin]
		w.took(0, func() {
			if _, err := p.TryLock(w.Context()); !errors.Is(err, coordinator.ErrUnavailable) {
				w.Errorf("got %v", err)
			}
		})
		if after := p.links[2].Stats().Requests[memory.OpJoin]; after != before {
			w.Error("it joined the queue of the last service")
		}
	})
}

// TestTooFewServices: a call ends with its context, or at once if it cannot
// succeed later, and the error says why.
func TestTooFewServices(t *testing.T) {
	within(t, 3, func(w *world) {
		p := w.caller(quorum.Majority)
		p.cut(0, 1)
		w.took(5*time.Second, func() {
			ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
			defer cancel()
			_, err := p.Lock(ctx)
			if !errors.Is(err, coordinator.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("got %v", err)
			}
		})
		w.took(patience, func() {
			_, err := p.TryLock(w.Context())
			if !errors.Is(err, coordinator.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "2 of 3 members are needed, 1 are left") {
				w.Errorf("got %v", err)
			}
		})
		p.heal()
		w.unlock(p.lock())
		for _, c := range p.clients[:2] {
			if err := c.Close(w.Context()); err != nil {
				w.Error(err)
			}
		}
		w.took(0, func() {
			if _, err := p.Lock(w.Context()); !errors.Is(err, coordinator.ErrClosed) {
				w.Errorf("got %v", err)
			}
		})
		w.empty()
	})
}

// TestOneRefusalDoesNotEndTheWait for services that are away, and is counted
// once.
func TestOneRefusalDoesNotEndTheWait(t *testing.T) {
	within(t, 3, func(w *world) {
		p := w.caller(quorum.Majority)
		w.unlock(p.lock())
		refuse := func(r memory.Request) (f memory.Fate) {
			if r.Op == memory.OpJoin {
				f.Err = errors.New("no rights")
			}
			return f
		}
		w.services[0].OnRequest(refuse)
		p.cut(1)
		time.AfterFunc(6*time.Second, p.heal)
		l := p.lock()
		w.held(l, "-xx")
		w.unlock(l)
		w.services[2].OnRequest(refuse)
		if _, err := p.Lock(w.Context()); !errors.Is(err, coordinator.ErrRefused) {
			w.Errorf("got %v", err)
		}
		w.empty()
	})
}

// TestHoldOutlivesTheLossOfAMinority, and ends with the need-th member, before
// the services give it to anyone else. The error names the lost members.
func TestHoldOutlivesTheLossOfAMinority(t *testing.T) {
	within(t, 5, func(w *world) {
		p, next := w.caller(quorum.Majority), w.caller(quorum.Majority)
		l := p.lock()
		granted := make(chan *quorum.Lock)
		go func() { granted <- next.lock() }()
		p.cut(1, 4)
		time.Sleep(time.Minute)
		if l.Err() != nil || l.Held() != 3 || l.Context().Err() != nil {
			w.Fatalf("%d held, %v", l.Held(), l.Err())
		}
		if !time.Now().Before(l.Deadline()) {
			w.Error("the deadline of a live hold has passed")
		}
		p.cut(2)
		<-l.Context().Done()
		select {
		case <-granted:
			w.Error("granted before the holder was notified")
		default:
		}
		cause := context.Cause(l.Context())
		if !errors.Is(cause, coordinator.ErrSessionLost) || errors.Is(cause, coordinator.ErrTaken) ||
			!strings.Contains(cause.Error(), "3 of 5 members are needed, 2 are left") {
			w.Errorf("got %v", cause)
		}
		if l.Err() != cause || l.Deadline().After(time.Now()) { //nolint:errorlint // identity is meant
			w.Errorf("%v at %v", l.Err(), l.Deadline())
		}
		if err := l.Unlock(w.Context()); !errors.Is(err, coordinator.ErrSessionLost) {
			w.Errorf("unlock: %v", err)
		}
		w.unlock(<-granted)
		p.heal()
		time.Sleep(time.Minute)
		w.empty()
	})
}

// TestDeadlineIsThatOfTheNeedThLatestMember, to the nanosecond.
func TestDeadlineIsThatOfTheNeedThLatestMember(t *testing.T) {
	for _, need := range []int{3, 4, 5} {
		within(t, 5, func(w *world) {
			p := w.caller(need)
			l := p.lock()
			var ends []time.Time
			for i := range 5 {
				time.Sleep(1100 * time.Millisecond)
				p.cut(i)
				s, err := p.clients[i].Session(w.Context())
				if err != nil {
					w.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond)
				ends = append(ends, s.Deadline())
			}
			if !slices.IsSortedFunc(ends, time.Time.Compare) || ends[0].Equal(ends[4]) {
				w.Fatalf("%v", ends)
			}
			want := ends[5-need] // the need-th latest
			if got := l.Deadline(); !got.Equal(want) {
				w.Errorf("need %d: deadline %v, want %v", need, got, want)
			}
			<-l.Context().Done()
			if !time.Now().Equal(want) {
				w.Errorf("need %d: it ended at %v, want %v", need, time.Now(), want)
			}
		})
	}
}

// TestErrReadsTheClocks: before any timer runs, as after a pause.
func TestErrReadsTheClocks(t *testing.T) {
	within(t, 3, func(w *world) {
		l := w.caller(quorum.Majority).lock()
		defer func() { _ = l.Unlock(context.Background()) }()
		by := l.Deadline()
		for _, svc := range w.services {
			svc.Stop()
		}
		time.Sleep(time.Until(by))
		if l.Err() == nil {
			w.Error("held at its deadline")
		}
	})
}

// TestTryLockOfATakenQuorum: of many at once one succeeds, and the others leave
// nothing.
func TestTryLockOfATakenQuorum(t *testing.T) {
	within(t, 5, func(w *world) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var got []*quorum.Lock
		for i := range 8 {
			p := w.caller(quorum.Majority)
			w.unlock(p.lock())
			for _, link := range p.links {
				link.Delay(time.Duration(i)*time.Microsecond, time.Millisecond)
			}
			wg.Go(func() {
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
				l, err := p.TryLock(w.Context())
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					got = append(got, l)
				} else if !errors.Is(err, coordinator.ErrTaken) || errors.Is(err, coordinator.ErrUnavailable) {
					w.Error(err)
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			w.Fatalf("%d of 8 hold", len(got))
		}
		w.held(got[0], "xxxxx")
		w.unlock(got[0])
		w.empty()
	})
}

// TestTryLockWithALockDelay: it has time for the requests after the join. After
// the loss of a holder it does not wait for the delay.
func TestTryLockWithALockDelay(t *testing.T) {
	within(t, 3, func(w *world) {
		p := w.caller(quorum.Majority, recipes.WithLockDelay(time.Minute))
		for _, link := range p.links {
			link.Delay(time.Millisecond, time.Millisecond)
		}
		l, err := p.TryLock(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		w.held(l, "xxx")
		for _, link := range p.links {
			link.Expire()
		}
		<-l.Context().Done()
		if _, err := p.TryLock(w.Context()); !errors.Is(err, coordinator.ErrTaken) {
			w.Errorf("got %v", err)
		}
		_ = l.Unlock(w.Context())
		time.Sleep(time.Second) // it is removed in the background
		began := time.Now()
		w.unlock(p.lock()) // two members, one after the other
		if took := time.Since(began); took < 115*time.Second || took > 122*time.Second {
			w.Errorf("a lock-delay of a minute took %v", took)
		}
		time.Sleep(time.Second)
		w.empty()
	})
}

// TestMemberLostBeforeTheGrantHasNoToken: another caller may have held it since
// with a greater token. Then the resource would refuse the holder.
func TestMemberLostBeforeTheGrantHasNoToken(t *testing.T) {
	within(t, 3, func(w *world) {
		first, p := w.caller(quorum.Majority), w.caller(quorum.Majority)
		first.cut(0)
		taken := first.lock() // the second and third
		got := make(chan *quorum.Lock)
		go func() { got <- p.lock() }()
		time.Sleep(time.Second)
		p.links[0].Expire()
		time.Sleep(time.Second)
		w.unlock(taken)
		l := <-got
		w.held(l, "-xx")
		if l.Held() != 2 {
			w.Errorf("%d held", l.Held())
		}
		p.links[1].Expire() // after the grant
		<-l.Context().Done()
		if slices.Contains(w.tokens(l)[1:], 0) {
			w.Errorf("tokens %v after a loss", w.tokens(l))
		}
		_ = l.Unlock(w.Context())
		first.heal()
		time.Sleep(time.Minute)
		w.empty()
	})
}

// TestCallersOfDifferentMinoritiesDoNotDeadlock: each reaches three of the five
// services, no two of them the same.
func TestCallersOfDifferentMinoritiesDoNotDeadlock(t *testing.T) {
	within(t, 5, func(w *world) {
		var live sync.Map
		var wg sync.WaitGroup
		for _, away := range [][]int{{0, 1}, {0, 2}, {1, 2}, {1, 4}, {3, 4}, {2, 3}, {0, 4}} {
			p := w.caller(quorum.Majority)
			for _, link := range p.links {
				link.Delay(time.Millisecond, time.Millisecond)
			}
			w.unlock(p.lock()) // so that only its sessions, and not its calls, notice the cut
			p.cut(away...)
			wg.Go(func() {
				for range 20 {
					l := p.lock()
					live.Range(func(other, _ any) bool {
						if other.(*quorum.Lock).Err() == nil {
							w.Error("two holders")
						}
						return true
					})
					live.Store(l, nil)
					time.Sleep(3 * time.Millisecond)
					live.Delete(l)
					w.unlock(l)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		w.empty()
	})
}

// TestMembersAreAcquiredInOneOrder: by the identity of the service, whatever
// order the clients are given in.
func TestMembersAreAcquiredInOneOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		within(t, 3, func(w *world) {
			p, holder := w.caller(quorum.Majority), w.caller(quorum.Majority)
			p.reorder(quorum.Majority, order)
			holder.cut(0)
			taken := holder.lock() // and waits for the second
			got := make(chan *quorum.Lock)
			go func() { got <- p.lock() }()
			time.Sleep(time.Second)
			for i, want := range []int{1, 2, 1} { // contenders
				if entries := w.services[i].Snapshot(nightly); len(entries) != want {
					w.Errorf("%v: service %d has %d contenders, want %d", order, i, len(entries), want)
				}
			}
			w.unlock(taken)
			l := <-got
			if slices.Contains(w.tokens(l), 0) {
				w.Errorf("%v: tokens %v", order, w.tokens(l))
			}
			w.unlock(l)
			holder.heal()
			time.Sleep(time.Second)
			w.empty()
		})
	}
}

// TestNoMemberIsWaitedForLongOnceEnoughAreHeld: a member that another caller
// holds is left out, unless it is released at that moment.
func TestNoMemberIsWaitedForLongOnceEnoughAreHeld(t *testing.T) {
	within(t, 3, func(w *world) {
		p, minority := w.caller(quorum.Majority), w.caller(quorum.Majority)
		minority.cut(0, 1)
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		m, err := mutex.New(minority.clients[2], "nightly")
		if err != nil {
			w.Fatal(err)
		}
		last, err := m.Lock(ctx)
		if err != nil {
			w.Fatal(err)
		}
		w.took(250*time.Millisecond, func() {
			l := p.lock()
			w.held(l, "xx-")
			w.unlock(l)
		})
		w.took(0, func() { // the service has answered
			l, err := p.TryLock(ctx)
			if err != nil {
				w.Fatal(err)
			}
			w.held(l, "xx-")
			w.unlock(l)
		})
		time.AfterFunc(200*time.Millisecond, func() { _ = last.Unlock(ctx) })
		w.took(200*time.Millisecond, func() {
			l := p.lock()
			w.held(l, "xxx")
			w.unlock(l)
		})
		w.empty()
	})
}

// TestWaitersAreGrantedInOrder: each keeps its place, longer than a service has
// to answer.
func TestWaitersAreGrantedInOrder(t *testing.T) {
	within(t, 3, func(w *world) {
		l := w.caller(quorum.Majority).lock()
		granted := make(chan int)
		for i := range 4 {
			p := w.caller(quorum.Majority)
			go func() {
				l := p.lock()
				granted <- i
				w.unlock(l)
			}()
			time.Sleep(3 * patience)
		}
		w.unlock(l)
		w.took(0, func() {
			for want := range 4 {
				if got := <-granted; got != want {
					w.Errorf("waiter %d was granted as number %d", got, want)
				}
			}
		})
		w.empty()
	})
}

// TestLossIsNotThatOfAMemberNeverHeld: the error does not say that a service
// was away at the grant.
func TestLossIsNotThatOfAMemberNeverHeld(t *testing.T) {
	within(t, 3, func(w *world) {
		p := w.caller(quorum.Majority)
		p.cut(0)
		l := p.lock()
		p.links[1].Expire()
		<-l.Context().Done()
		err := l.Unlock(w.Context())
		if !errors.Is(err, coordinator.ErrSessionLost) || errors.Is(err, coordinator.ErrUnavailable) {
			w.Errorf("got %v", err)
		}
	})
}

// TestWaitEndsWithItsContext: with its cause, and nothing stays at any member.
func TestWaitEndsWithItsContext(t *testing.T) {
	within(t, 3, func(w *world) {
		l, p := w.caller(quorum.Majority).lock(), w.caller(quorum.Majority)
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, enough)
		defer cancel()
		w.took(time.Second, func() {
			if _, err := p.Lock(ctx); !errors.Is(err, enough) {
				w.Errorf("got %v", err)
			}
		})
		before := p.links[0].Stats().Requests[memory.OpJoin]
		if _, err := p.Lock(ctx); !errors.Is(err, enough) {
			w.Errorf("got %v", err)
		}
		if after := p.links[0].Stats().Requests[memory.OpJoin]; after != before {
			w.Error("a call with an ended context has joined a queue")
		}
		w.unlock(l)
		w.empty()
	})
}

// TestWaiterPassesAMemberThatFallsSilent: it waits in the queue of the first
// member when it loses that service. It gets the others.
func TestWaiterPassesAMemberThatFallsSilent(t *testing.T) {
	within(t, 3, func(w *world) {
		first, p := w.caller(quorum.Majority), w.caller(quorum.Majority)
		other, err := mutex.New(first.clients[0], "nightly")
		if err != nil {
			w.Fatal(err)
		}
		only, err := other.Lock(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { p.cut(0) })
		l := p.lock()
		w.held(l, "-xx")
		w.unlock(l)
		if err := only.Unlock(w.Context()); err != nil {
			w.Error(err)
		}
		p.heal()
		time.Sleep(time.Minute)
		w.empty()
	})
}

// TestLostRepliesLeaveNothing: the replies to joins are lost or late, and the
// caller gives up, or holds elsewhere.
func TestLostRepliesLeaveNothing(t *testing.T) {
	for services := range 4 {
		within(t, 3, func(w *world) {
			p := w.caller(quorum.Majority)
			w.unlock(p.lock())
			for _, link := range p.links[:services] {
				link.HoldReplies()
			}
			ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
			defer cancel()
			l, err := p.Lock(ctx)
			if (err == nil) != (services < 2) {
				w.Errorf("%d services: %v", services, err)
			}
			if err == nil {
				w.held(l, []string{"xxx", "-xx"}[services])
				w.unlock(l)
			}
			p.heal()
			time.Sleep(time.Second) // long before the sessions end
			w.empty()
		})
	}
}

// TestUnlockIsBounded: it waits two seconds for a service that does not answer,
// and fails only if nobody else can hold the quorum yet. What it could not
// release ends with the session.
func TestUnlockIsBounded(t *testing.T) {
	for away, want := range []error{nil, nil, coordinator.ErrUnavailable} {
		for _, heals := range []bool{true, false} {
			within(t, 3, func(w *world) {
				p, next := w.caller(quorum.Majority), w.caller(quorum.Majority)
				l := p.lock()
				p.cut([]int{2, 1}[:away]...)
				w.took([]time.Duration{0, patience, patience}[away], func() {
					err := l.Unlock(w.Context())
					if !errors.Is(err, want) || want != nil && !coordinator.MayHaveApplied(err) {
						w.Errorf("%d away: %v", away, err)
					}
				})
				if heals {
					p.heal()
				}
				time.Sleep(12 * time.Second)
				w.empty()
				w.unlock(next.lock())
			})
		}
	}
}

// TestReentry: a context re-enters what the hold has, and waits for nothing
// else. A mutex of the name at one service is re-entered, too.
func TestReentry(t *testing.T) {
	within(t, 3, func(w *world) {
		p, minority := w.caller(quorum.Majority), w.caller(quorum.Majority)
		p.cut(0)
		l := p.lock()
		p.heal()
		minority.cut(2)
		// It holds the first and waits for the second, which is p's.
		waiting := make(chan *quorum.Lock)
		go func() { waiting <- minority.lock() }()
		time.Sleep(3 * patience)
		for _, q := range []*quorum.Quorum{p.Quorum, w.quorum(2, p.clients)} {
			inner, err := q.Lock(l.Context())
			if err != nil {
				w.Fatal(err)
			}
			if !slices.Equal(inner.Sequencers(), l.Sequencers()) {
				w.Errorf("%v, then %v", l.Sequencers(), inner.Sequencers())
			}
			m, err := mutex.New(p.clients[1], "nightly")
			if err != nil {
				w.Fatal(err)
			}
			one, err := m.TryLock(inner.Context())
			if err != nil {
				w.Fatal(err)
			}
			if err := one.Unlock(w.Context()); err != nil {
				w.Error(err)
			}
			w.unlock(inner)
		}
		if _, err := w.quorum(3, p.clients).Lock(l.Context()); !errors.Is(err, coordinator.ErrNotHeld) {
			w.Errorf("re-entry with a greater need: %v", err)
		}
		w.held(l, "-xx")
		w.unlock(l)
		w.unlock(<-waiting)
		w.took(0, func() { w.unlock(p.lock()) })
		again, err := p.Lock(context.WithoutCancel(l.Context())) // released: it is acquired
		if err != nil {
			w.Fatal(err)
		}
		w.unlock(again)
		w.empty()
	})
}

// TestQuorumWithoutReentryWaits for the hold in the caller's context, as a
// mutex does, and gets tokens of its own.
func TestQuorumWithoutReentryWaits(t *testing.T) {
	within(t, 3, func(w *world) {
		p := w.caller(quorum.Majority, recipes.WithoutReentry())
		l := p.lock()
		if _, err := p.TryLock(l.Context()); !errors.Is(err, coordinator.ErrTaken) {
			w.Errorf("TryLock: %v", err)
		}
		next := make(chan error, 1)
		go func() { // received below
			inner, err := p.Lock(context.WithoutCancel(l.Context()))
			if err == nil {
				if slices.Equal(w.tokens(inner), w.tokens(l)) {
					w.Error("it has the tokens of the hold")
				}
				err = inner.Unlock(w.Context())
			}
			next <- err
		}()
		time.Sleep(time.Minute)
		if len(next) > 0 {
			w.Error("it did not wait")
		}
		w.unlock(l)
		w.took(0, func() {
			if err := <-next; err != nil {
				w.Error(err)
			}
		})
		w.empty()
	})
}

// TestLostHoldIsNotReentered, although some of its members are still held.
func TestLostHoldIsNotReentered(t *testing.T) {
	within(t, 3, func(w *world) {
		p := w.caller(quorum.Majority)
		l := p.lock()
		p.cut(0, 1)
		<-l.Context().Done()
		p.heal()
		_, err := p.Lock(context.WithoutCancel(l.Context()))
		if !errors.Is(err, coordinator.ErrSessionLost) {
			w.Errorf("got %v", err)
		}
		_ = l.Unlock(w.Context())
		w.unlock(p.lock())
		w.empty()
	})
}

// TestNextHolderHasAGreaterTokenOfASharedMember: whichever minority is away, a
// resource that compares all tokens refuses each earlier holder.
func TestNextHolderHasAGreaterTokenOfASharedMember(t *testing.T) {
	within(t, 5, func(w *world) {
		var granted [][]coordinator.Token
		for i := range 5 {
			for j := range i {
				p := w.caller(quorum.Majority)
				p.cut(i, j)
				l := p.lock()
				granted = append(granted, w.tokens(l))
				w.unlock(l)
			}
		}
		for n, later := range granted {
			for _, earlier := range granted[:n] {
				greater := 0
				for i := range 5 {
					if earlier[i] > 0 && later[i] > 0 {
						if greater++; later[i] <= earlier[i] {
							w.Errorf("%v, then %v", earlier, later)
						}
					}
				}
				if greater == 0 {
					w.Errorf("%v and %v share no member", earlier, later)
				}
			}
		}
	})
}

// TestDoReportsTheLoss, joined with the error of the work, and releases.
func TestDoReportsTheLoss(t *testing.T) {
	within(t, 3, func(w *world) {
		p, failed := w.caller(quorum.Majority), errors.New("work failed")
		err := p.Do(w.Context(), func(ctx context.Context, _ *quorum.Lock) error {
			p.cut(0)
			time.Sleep(time.Minute)
			return ctx.Err()
		})
		if err != nil {
			w.Errorf("a minority was lost: %v", err)
		}
		err = p.Do(w.Context(), func(ctx context.Context, _ *quorum.Lock) error {
			p.cut(1)
			<-ctx.Done()
			return failed
		})
		if !errors.Is(err, failed) || !errors.Is(err, coordinator.ErrSessionLost) {
			w.Errorf("got %v", err)
		}
		p.heal()
		time.Sleep(time.Minute)
		w.empty()
	})
}

// TestLongHoldEnds: WithMaxHold is an option of the members.
func TestLongHoldEnds(t *testing.T) {
	within(t, 3, func(w *world) {
		p := w.caller(quorum.Majority, recipes.WithMaxHold(time.Minute))
		l := p.lock()
		w.took(time.Minute, func() { <-l.Context().Done() })
		if err := l.Err(); !errors.Is(err, recipes.ErrHeldTooLong) {
			w.Errorf("got %v", err)
		}
		if err := l.Unlock(w.Context()); !errors.Is(err, recipes.ErrHeldTooLong) {
			w.Errorf("unlock: %v", err)
		}
		w.empty()
	})
}

// TestUnlockReportsALossThatNobodyHadNoticed: an operator has just removed two
// entries. If it was one, the hold was good until the end.
func TestUnlockReportsALossThatNobodyHadNoticed(t *testing.T) {
	for removed, want := range []error{nil, nil, coordinator.ErrNotHeld} {
		within(t, 3, func(w *world) {
			l := w.caller(quorum.Majority).lock()
			for _, svc := range w.services[:removed] {
				svc.Remove(nightly, svc.Snapshot(nightly)[0].Key)
			}
			if err := l.Unlock(w.Context()); !errors.Is(err, want) || want == nil && err != nil {
				w.Errorf("%d removed: %v", removed, err)
			}
			w.empty()
		})
	}
}

func TestWrongQuorumsAreRefused(t *testing.T) {
	within(t, 5, func(w *world) {
		all := w.caller(quorum.Majority).clients
		again := w.caller(quorum.Majority).clients
		for want, make := range map[string]func() (*quorum.Quorum, error){
			"need 1 of 0 services: want a majority, 1 to 1": func() (*quorum.Quorum, error) { return quorum.New(nil, "a", 0) },
			"need 2 of 5 services: want a majority, 3":      func() (*quorum.Quorum, error) { return quorum.New(all, "a", 2) },
			"need 2 of 4 services: want a majority, 3":      func() (*quorum.Quorum, error) { return quorum.New(all[:4], "a", 2) },
			"need 6 of 5 services":                          func() (*quorum.Quorum, error) { return quorum.New(all, "a", 6) },
			"need -1 of 5 services":                         func() (*quorum.Quorum, error) { return quorum.New(all, "a", -1) },
			"client 1, memory://, is given twice":           func() (*quorum.Quorum, error) { return quorum.New([]*coordinator.Client{all[0], all[0]}, "a", 0) },
			"nil client":                                    func() (*quorum.Quorum, error) { return quorum.New([]*coordinator.Client{nil}, "a", 0) },
			"control character":                             func() (*quorum.Quorum, error) { return quorum.New(all, "a\x00", 0) },
			"error for deadlocks":                           func() (*quorum.Quorum, error) { return quorum.New(all, "a", 0, recipes.WithDeadlockError()) },
			"retention of 1s":                               func() (*quorum.Quorum, error) { return quorum.New(all, "a", 0, recipes.WithRetain(time.Second)) },
			"clients 0 and 2 are of one service": func() (*quorum.Quorum, error) {
				_, err := w.quorum(0, []*coordinator.Client{all[0], all[1], again[0]}).Lock(w.Context())
				return nil, err
			},
			"nil work": func() (*quorum.Quorum, error) { return nil, w.quorum(0, all).Do(w.Context(), nil) },
		} {
			_, err := make()
			if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
				w.Errorf("%q: got %v", want, err)
			}
		}
		synctest.Wait()
		w.empty()
	})
}

// TestGateRefusesEarlierHolders, although each process names the services in
// another order and other minorities are away.
func TestGateRefusesEarlierHolders(t *testing.T) {
	within(t, 3, func(w *world) {
		gate, err := fence.NewQuorumGate(fence.Scope{}, 3)
		if err != nil {
			w.Fatal(err)
		}
		var stale [][]fence.Sequencer
		for n, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {1, 0, 2}} {
			p := w.caller(quorum.Majority)
			p.reorder(quorum.Majority, order)
			if n > 0 {
				p.cut(n % 3)
			}
			l := p.lock()
			if err := gate.Check(w.Context(), l.Sequencers()); err != nil {
				w.Errorf("%v: the holder is refused: %v", order, err)
			}
			for _, shown := range stale {
				if err := gate.Check(w.Context(), shown); !errors.Is(err, fence.ErrStale) {
					w.Errorf("%v: an earlier holder: %v", order, err)
				}
			}
			stale = append(stale, l.Sequencers())
			w.unlock(l)
			p.heal()
		}
	})
}

// TestLongestHoldCountsFromTheGrantOfTheQuorum, not from that of a member.
func TestLongestHoldCountsFromTheGrantOfTheQuorum(t *testing.T) {
	within(t, 3, func(w *world) {
		blocks, p := w.caller(quorum.Majority), w.caller(quorum.Majority, recipes.WithMaxHold(time.Minute))
		blocks.cut(0)
		taken := blocks.lock() // the second and third
		time.AfterFunc(5*time.Minute, func() { _ = taken.Unlock(context.Background()) })
		l := p.lock() // the first, and then waits
		w.took(time.Minute, func() { <-l.Context().Done() })
		if err := l.Err(); !errors.Is(err, recipes.ErrHeldTooLong) {
			w.Errorf("got %v", err)
		}
		_ = l.Unlock(w.Context())
		blocks.heal()
		time.Sleep(time.Minute)
		w.empty()
	})
}
