package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/multilock/quorum"
)

// TestMemberWhoseQueueIsStuckIsPassedOver: an entry of another program, which
// never leaves, is first at one service. The first call waits for it, those
// after it do not, until it is tried again.
func TestMemberWhoseQueueIsStuckIsPassedOver(t *testing.T) {
	for at, want := range []string{"-xx", "x-x", "xx-"} {
		within(t, 3, func(w *world) {
			foreign := w.services[at].AddForeign(nightly)
			p := w.caller(quorum.Majority)
			waits := []time.Duration{patience, patience, 250 * time.Millisecond}[at]
			w.took(waits, func() {
				l := p.lock()
				w.held(l, want)
				w.unlock(l)
			})
			if at < 2 {
				w.took(0, func() { w.unlock(p.lock()) })
			}
			w.services[at].Remove(nightly, foreign.Key)
			time.Sleep(20 * time.Second)
			l := p.lock()
			w.held(l, "xxx")
			w.unlock(l)
			w.empty()
		})
	}
}

// TestDeadHolderIsPassedOver: it could not reach the first service to unlock,
// so that its entry stays there until the session ends.
func TestDeadHolderIsPassedOver(t *testing.T) {
	for dead := range 3 {
		within(t, 3, func(w *world) {
			w.ttl = time.Minute
			holder, next := w.caller(quorum.Majority), w.callerNamed("next", quorum.Majority)
			l := holder.lock()
			holder.cut(dead)
			if err := l.Unlock(w.Context()); err != nil {
				w.Errorf("unlock: %v", err)
			}
			began := time.Now()
			l = next.lock()
			if took := time.Since(began); took > 3*time.Second {
				w.Errorf("service %d: the next holder waited for %v", dead, took)
			}
			w.unlock(l)
			holder.heal()
		})
	}
}

// TestWaitersOfAQuorumWithoutAStuckMember wait in the queue of another one, and
// are granted at once, in order.
func TestWaitersOfAQuorumWithoutAStuckMember(t *testing.T) {
	within(t, 3, func(w *world) {
		w.services[0].AddForeign(nightly)
		l := w.callerNamed("first", quorum.Majority).lock()
		granted := make(chan string)
		var released sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			p := w.callerNamed(name, quorum.Majority)
			released.Go(func() {
				l := p.lock()
				granted <- name
				w.unlock(l)
			})
			time.Sleep(3 * patience)
		}
		w.unlock(l)
		w.took(0, func() {
			for _, want := range []string{"a", "b", "c"} {
				if got := <-granted; got != want {
					w.Errorf("granted to %s, want %s", got, want)
				}
			}
		})
		released.Wait()
	})
}

// TestWaitersOfALongHoldKeepTheirPlaces at all members, and send few requests.
func TestWaitersOfALongHoldKeepTheirPlaces(t *testing.T) {
	within(t, 3, func(w *world) {
		l := w.callerNamed("holder", quorum.Majority).lock()
		granted := make(chan string)
		var all []*caller
		for _, name := range []string{"a", "b", "c"} {
			p := w.callerNamed(name, quorum.Majority)
			all = append(all, p)
			go func() {
				l := p.lock()
				w.held(l, "xxx")
				granted <- name
				w.unlock(l)
			}()
			if time.Sleep(time.Second); name == "b" { // the last has no time to go on
				time.Sleep(10 * time.Minute)
			}
		}
		for _, p := range all {
			requests := 0
			for _, link := range p.links {
				s := link.Stats()
				requests += s.Total() - s.Requests[memory.OpRenew]
			}
			if requests > 200 { // some 23 trials
				w.Errorf("%d requests in ten minutes", requests)
			}
		}
		w.unlock(l)
		w.took(0, func() {
			for _, want := range []string{"a", "b", "c"} {
				if got := <-granted; got != want {
					w.Errorf("granted to %s, want %s", got, want)
				}
			}
		})
		w.empty()
	})
}

// TestClientsOfACallerMayHaveDifferentIdentities: waiters recognize its hold at
// all services, and keep their places.
func TestClientsOfACallerMayHaveDifferentIdentities(t *testing.T) {
	within(t, 3, func(w *world) {
		caller := func(name string) *quorum.Quorum {
			var clients []*coordinator.Client
			for i, svc := range w.services {
				c, err := coordinator.New(svc.Driver(), coordinator.WithIdentity(fmt.Sprintf("%s of %d", name, i)),
					coordinator.WithLogger(slog.New(slog.DiscardHandler)))
				if err != nil {
					t.Fatal(err)
				}
				clients, w.clients = append(clients, c), append(w.clients, c)
			}
			return w.quorum(quorum.Majority, clients)
		}
		lock := func(name string) *quorum.Lock {
			l, err := caller(name).Lock(w.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.held(l, "xxx")
			return l
		}
		l := lock("holder")
		time.AfterFunc(time.Minute, func() { w.unlock(l) })
		w.took(time.Minute, func() { w.unlock(lock("next")) })
		w.empty()
	})
}

// TestErrorNamesTheMemberThatIsStuck, if too few others are left.
func TestErrorNamesTheMemberThatIsStuck(t *testing.T) {
	within(t, 3, func(w *world) {
		foreign := w.services[1].AddForeign(nightly)
		w.services[2].AddForeign(nightly)
		p := w.caller(quorum.Majority)
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		_, err := p.Lock(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, coordinator.ErrUnavailable) ||
			!strings.Contains(err.Error(), `lock "nightly": memory://: waited for 10s for the first in the queue, "`+foreign.Key) {
			w.Errorf("got %v", err)
		}
	})
}

// TestWaiterAsksServicesThatWereSilent: one service does not answer, and an
// entry of another program is first at another one, for ever. When the first
// one is back, there is a quorum without the second.
func TestWaiterAsksServicesThatWereSilent(t *testing.T) {
	for silent := range 3 {
		for stuck := range 3 {
			if silent == stuck {
				continue
			}
			within(t, 3, func(w *world) {
				foreign := w.services[stuck].AddForeign(nightly)
				p := w.caller(quorum.Majority)
				p.cut(silent)
				granted := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
					defer cancel()
					l, err := p.Lock(ctx)
					if err == nil {
						err = l.Unlock(ctx)
					}
					granted <- err
				}()
				time.Sleep(time.Minute)
				select {
				case err := <-granted:
					w.Errorf("granted by one service: %v", err)
				default:
				}
				p.heal()
				began := time.Now()
				err := <-granted
				if took := time.Since(began); err != nil || took > 45*time.Second {
					w.Errorf("silent %d, stuck %d: granted %v after the service was back, error %v",
						silent, stuck, took, err)
				}
				w.services[stuck].Remove(nightly, foreign.Key)
				time.Sleep(time.Second)
				w.empty()
			})
		}
	}
}

// TestCallThatEndsDuringATrialIsBounded: it may have to release the members of
// the trial and the earlier ones, and none of them answers.
func TestCallThatEndsDuringATrialIsBounded(t *testing.T) {
	for _, limit := range []time.Duration{
		3 * time.Second, // while it asks whether the first member has moved
		5 * time.Second, // while it releases the members of the trial
	} {
		within(t, 3, func(w *world) {
			stuck, err := mutex.New(w.caller(quorum.Majority).clients[1], "nightly")
			if err != nil {
				w.Fatal(err)
			}
			if _, err := stuck.Lock(w.Context()); err != nil {
				w.Fatal(err)
			}
			p := w.caller(quorum.Majority)
			for _, link := range p.links {
				link.Delay(10*time.Millisecond, 10*time.Millisecond)
			}
			ctx, cancel := context.WithTimeout(w.Context(), limit)
			defer cancel()
			go func() { // ends before the call
				for len(w.services[2].Snapshot(nightly)) == 0 {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(11 * time.Millisecond) // the trial has it
				p.cut(0, 1, 2)
			}()
			w.took(limit+patience, func() {
				if _, err := p.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
					w.Errorf("got %v", err)
				}
			})
			p.heal()
			time.Sleep(time.Second)
			if n := len(w.services[0].Snapshot(nightly)) + len(w.services[2].Snapshot(nightly)); n > 0 {
				w.Errorf("%d entries are left", n)
			}
		})
	}
}
