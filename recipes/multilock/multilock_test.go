package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/bubble"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/semaphore"
)

// site is some services, and what was opened to them.
type site struct {
	*testing.T
	services []*memory.Service
	clients  []*coordinator.Client
}

// at runs a test in virtual time with so many services.
func at(t *testing.T, services int, f func(s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t}
		for i := range services { // with identities in this order
			svc := memory.NewService()
			session, err := svc.Driver().Open(t.Context(), time.Minute)
			if err == nil {
				_, err = session.SetRecord(t.Context(), engine.Services, fmt.Appendf(nil, "%032x", i+1), 0)
			}
			if err == nil {
				err = session.Close(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			s.services = append(s.services, svc)
		}
		f(s)
		for _, c := range s.clients {
			if err := c.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
}

// client opens a client of a service, with the link between the two.
func (s *site) client(service int) (*coordinator.Client, *memory.Driver) {
	s.Helper()
	link := s.services[service].Driver()
	c, err := coordinator.New(link, coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		s.Fatal(err)
	}
	s.clients = append(s.clients, c)
	bubble.EndIfFailed(s, link, c)
	return c, link
}

// set is the set of mutexes of the names on one client.
func (s *site) set(c *coordinator.Client, names ...string) *multilock.Set {
	s.Helper()
	var members []multilock.Member
	for _, n := range names {
		members = append(members, multilock.Mutex(c, n))
	}
	return s.must(multilock.New(members...))
}

func (s *site) must(set *multilock.Set, err error) *multilock.Set {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	return set
}

func (s *site) lock(set *multilock.Set) *multilock.Lock {
	s.Helper()
	l, err := set.Lock(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return l
}

func (s *site) unlock(l *multilock.Lock) {
	s.Helper()
	if err := l.Unlock(s.Context()); err != nil {
		s.Error(err)
	}
}

// empty checks that nobody holds or waits at any service.
func (s *site) empty() {
	s.Helper()
	synctest.Wait()
	for i, svc := range s.services {
		for _, q := range svc.Queues() {
			if entries := svc.Snapshot(q); len(entries) > 0 {
				s.Errorf("service %d has %v in %s", i, entries, q)
			}
		}
	}
}

func names(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("name-%02d", i))
	}
	return all
}

// TestSetsThatOverlapNeitherDeadlockNorOverlap: eight clients lock random sets
// of twelve names, in random order.
func TestSetsThatOverlapNeitherDeadlockNorOverlap(t *testing.T) {
	at(t, 1, func(s *site) {
		var mu sync.Mutex
		holders := make(map[string]int)
		var wg sync.WaitGroup
		for i := range 8 {
			c, link := s.client(0)
			link.Delay(time.Millisecond, time.Millisecond)
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			wg.Go(func() {
				for range 50 {
					all := names(0, 12)
					rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
					some := all[:1+rng.IntN(4)]
					err := s.set(c, some...).Do(s.Context(), func(context.Context, *multilock.Lock) error {
						mu.Lock()
						for _, n := range some {
							if holders[n]++; holders[n] > 1 {
								s.Errorf("%s has two holders", n)
							}
						}
						mu.Unlock()
						time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
						mu.Lock()
						defer mu.Unlock()
						for _, n := range some {
							holders[n]--
						}
						return nil
					})
					if err != nil {
						s.Error(err)
					}
				}
			})
		}
		wg.Wait()
		s.empty()
	})
}

// TestMembersAreAcquiredInOneOrder: a set that waits for its second name holds
// the first and not the third, whatever order it was given.
func TestMembersAreAcquiredInOneOrder(t *testing.T) {
	for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}} {
		at(t, 1, func(s *site) {
			one, _ := s.client(0)
			two, _ := s.client(0)
			b := s.lock(s.set(one, "b"))
			var got *multilock.Lock
			done := make(chan struct{})
			go func() {
				defer close(done)
				got = s.lock(s.set(two, order...))
			}()
			synctest.Wait()
			if a, err := s.set(one, "a").TryLock(s.Context()); !errors.Is(err, coordinator.ErrTaken) {
				s.Errorf("%v: a: %v", order, err)
				s.unlock(a)
			}
			if c, err := s.set(one, "c").TryLock(s.Context()); err != nil {
				s.Errorf("%v: c: %v", order, err)
			} else {
				s.unlock(c)
			}
			s.unlock(b)
			<-done
			for i, token := range got.Tokens() {
				if token <= 0 {
					s.Errorf("%v: token %v of %s", order, token, order[i])
				}
			}
			s.unlock(got)
			s.empty()
		})
	}
}

// TestTryLockOfATakenNameHoldsNothing: the error names the taken member.
func TestTryLockOfATakenNameHoldsNothing(t *testing.T) {
	at(t, 1, func(s *site) {
		one, _ := s.client(0)
		two, _ := s.client(0)
		b := s.lock(s.set(one, "b"))
		_, err := s.set(two, "c", "b", "a").TryLock(s.Context())
		if !errors.Is(err, coordinator.ErrTaken) || !strings.Contains(err.Error(), `"b"`) {
			s.Errorf("got %v", err)
		}
		s.unlock(b)
		s.empty()
		all, err := s.set(two, "c", "b", "a").TryLock(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		s.unlock(all)
	})
}

// TestCancelledWaitReleasesAll: the cause is untouched.
func TestCancelledWaitReleasesAll(t *testing.T) {
	at(t, 1, func(s *site) {
		one, _ := s.client(0)
		two, _ := s.client(0)
		b := s.lock(s.set(one, "b"))
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		_, err := s.set(two, "a", "b", "c").Lock(ctx)
		var wait *recipes.WaitError
		if !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) || wait.Queued != time.Second {
			s.Errorf("got %v", err)
		}
		s.unlock(s.lock(s.set(one, "a")))
		s.unlock(b)
		s.empty()
	})
}

// TestLossOfOneMemberEndsTheHold, and Unlock releases the other.
func TestLossOfOneMemberEndsTheHold(t *testing.T) {
	at(t, 2, func(s *site) {
		one, link := s.client(0)
		two, _ := s.client(1)
		set := s.must(multilock.New(multilock.Mutex(one, "a"), multilock.Mutex(two, "a")))
		l := s.lock(set)
		if l.Err() != nil || l.Context().Err() != nil {
			s.Fatal(l.Err())
		}
		link.Cut()
		<-l.Context().Done()
		for _, err := range []error{l.Err(), context.Cause(l.Context())} {
			if !errors.Is(err, coordinator.ErrSessionLost) || !strings.Contains(err.Error(), "mutex/a") {
				s.Errorf("got %v", err)
			}
		}
		if err := l.Unlock(s.Context()); !errors.Is(err, coordinator.ErrSessionLost) {
			s.Errorf("unlock: %v", err)
		}
		link.Heal()
		synctest.Wait()
		s.unlock(s.lock(set))
		s.empty()
	})
}

// TestLossWhileWaitingEndsTheWait: the first member is lost while the set waits
// for the second. The error says so, and nothing stays in the queue.
func TestLossWhileWaitingEndsTheWait(t *testing.T) {
	at(t, 2, func(s *site) {
		first, link := s.client(0)
		second, _ := s.client(1)
		holder, _ := s.client(1)
		set := s.must(multilock.New(multilock.Mutex(second, "a"), multilock.Mutex(first, "a")))
		taken := s.lock(s.set(holder, "a"))
		done := make(chan error)
		go func() {
			_, err := set.Lock(s.Context())
			done <- err
		}()
		synctest.Wait()
		link.Cut()
		err := <-done
		if !errors.Is(err, coordinator.ErrSessionLost) || !strings.Contains(err.Error(), "mutex/a") {
			s.Errorf("got %v", err)
		}
		link.Heal()
		time.Sleep(10 * time.Second) // the client ends the lost session after its margin
		s.unlock(taken)
		s.empty()
	})
}

// TestContextsReenter: the context of a set re-enters its members, alone and in
// another set, and that of a mutex re-enters it in a set.
func TestContextsReenter(t *testing.T) {
	at(t, 1, func(s *site) {
		c, _ := s.client(0)
		l := s.lock(s.set(c, "a", "b"))
		again, err := s.set(c, "c", "b").Lock(l.Context())
		if err != nil {
			s.Fatal(err)
		}
		if again.Tokens()[1] != l.Tokens()[1] {
			s.Errorf("tokens %v, then %v", l.Tokens(), again.Tokens())
		}
		a, err := mutex.New(c, "a")
		if err != nil {
			s.Fatal(err)
		}
		inner, err := a.Lock(again.Context()) // which has the values of l's
		if err != nil {
			s.Fatal(err)
		}
		if err := inner.Unlock(s.Context()); err != nil {
			s.Error(err)
		}
		s.unlock(again)
		s.unlock(l)
		s.empty()
	})
}

// TestReleases: once, with a context that has ended, and the context says so.
func TestReleases(t *testing.T) {
	at(t, 1, func(s *site) {
		c, _ := s.client(0)
		l := s.lock(s.set(c, "a", "b"))
		if err := l.Unlock(l.Context()); err != nil {
			s.Error(err)
		}
		<-l.Context().Done()
		if err := context.Cause(l.Context()); !errors.Is(err, coordinator.ErrReleased) {
			s.Errorf("the context ended with %v", err)
		}
		if err := l.Err(); !errors.Is(err, coordinator.ErrReleased) {
			s.Errorf("Err: %v", err)
		}
		if err := l.Unlock(s.Context()); !errors.Is(err, coordinator.ErrNotHeld) {
			s.Errorf("a second Unlock: %v", err)
		}
		s.empty()
	})
}

// TestDoJoinsTheLossToTheErrorOfWork, and releases after a panic.
func TestDoJoinsTheLossToTheErrorOfWork(t *testing.T) {
	at(t, 1, func(s *site) {
		c, link := s.client(0)
		set, failed := s.set(c, "a", "b"), errors.New("work failed")
		err := set.Do(s.Context(), func(ctx context.Context, _ *multilock.Lock) error {
			link.Expire()
			<-ctx.Done()
			return failed
		})
		if !errors.Is(err, failed) || !errors.Is(err, coordinator.ErrSessionLost) {
			s.Errorf("got %v", err)
		}
		err = set.Do(s.Context(), func(ctx context.Context, _ *multilock.Lock) error {
			link.Expire()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, coordinator.ErrSessionLost) || strings.Count(err.Error(), "session lost") != 1 {
			s.Errorf("got %v", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = set.Do(s.Context(), func(context.Context, *multilock.Lock) error { panic("work") })
		}()
		ctx, cancel := context.WithCancel(s.Context())
		err = set.Do(ctx, func(ctx context.Context, _ *multilock.Lock) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if err != context.Canceled { //nolint:errorlint // untouched
			s.Errorf("got %v", err)
		}
		s.empty()
	})
}

// TestReadersAndPermitsShare: two sets with the same read lock and permits are
// held together, and a third that writes waits.
func TestReadersAndPermitsShare(t *testing.T) {
	at(t, 1, func(s *site) {
		set := func(side func(*coordinator.Client, string, ...recipes.Option) multilock.Member) *multilock.Set {
			c, _ := s.client(0)
			return s.must(multilock.New(multilock.Permits(c, "pool", semaphore.Set(4), 2), side(c, "catalogue")))
		}
		one, two := s.lock(set(multilock.Read)), s.lock(set(multilock.Read))
		writer := set(multilock.Write)
		if _, err := writer.TryLock(s.Context()); !errors.Is(err, coordinator.ErrTaken) {
			s.Errorf("got %v", err)
		}
		s.unlock(one)
		if _, err := writer.TryLock(s.Context()); !errors.Is(err, coordinator.ErrTaken) {
			s.Errorf("got %v", err)
		}
		s.unlock(two)
		s.unlock(s.lock(writer))
		s.empty()
	})
}

// TestContextEndsBeforeTheNextHolds: the context of a set has ended when Unlock
// returns, and when another caller is granted.
func TestContextEndsBeforeTheNextHolds(t *testing.T) {
	at(t, 1, func(s *site) {
		one, _ := s.client(0)
		two, _ := s.client(0)
		for range 50 {
			l := s.lock(s.set(one, "a", "b"))
			granted := make(chan error)
			go func() {
				next := s.lock(s.set(two, "b"))
				select {
				case <-l.Context().Done():
					granted <- nil
				default:
					granted <- errors.New("the context lives")
				}
				s.unlock(next)
			}()
			synctest.Wait()
			s.unlock(l)
			if err := <-granted; err != nil {
				s.Fatal(err)
			}
			synctest.Wait()
		}
	})
}

// TestReleaseOfSilentServicesIsBounded: three services stop answering while the
// set waits for a fourth, and the caller gives up.
func TestReleaseOfSilentServicesIsBounded(t *testing.T) {
	at(t, 4, func(s *site) {
		var members []multilock.Member
		var links []*memory.Driver
		for i := range 4 {
			c, link := s.client(i)
			members, links = append(members, multilock.Mutex(c, "a")), append(links, link)
		}
		set := s.must(multilock.New(members...))
		s.unlock(s.lock(set))
		holder, _ := s.client(3)
		taken := s.lock(s.set(holder, "a"))
		ctx, cancel := context.WithCancel(s.Context())
		done := make(chan error)
		go func() {
			_, err := set.Lock(ctx)
			done <- err
		}()
		synctest.Wait()
		for _, link := range links[:3] {
			link.Cut()
		}
		began := time.Now()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			s.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			s.Errorf("the release took %v", took)
		}
		for _, link := range links {
			link.Heal()
		}
		s.unlock(taken)
		time.Sleep(time.Minute)
		s.empty()
	})
}

// TestEndedContextSendsNothing, and the cause is untouched.
func TestEndedContextSendsNothing(t *testing.T) {
	at(t, 1, func(s *site) {
		c, link := s.client(0)
		set, cause := s.set(c, "a", "b"), errors.New("enough")
		s.unlock(s.lock(set))
		before := link.Stats()
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(cause)
		if _, err := set.Lock(ctx); err != cause { //nolint:errorlint // untouched
			s.Errorf("got %v", err)
		}
		if after := link.Stats(); after.Requests[memory.OpJoin] != before.Requests[memory.OpJoin] {
			s.Errorf("%d joins", after.Requests[memory.OpJoin]-before.Requests[memory.OpJoin])
		}
		bound, stop := context.WithTimeout(s.Context(), time.Minute)
		defer stop()
		err := set.Do(bound, func(ctx context.Context, _ *multilock.Lock) error {
			if by, ok := ctx.Deadline(); !ok || time.Until(by) > time.Minute {
				s.Error("the work does not see the deadline")
			}
			return nil
		})
		if err != nil {
			s.Error(err)
		}
	})
}

func TestWrongSetsAreRefused(t *testing.T) {
	at(t, 1, func(s *site) {
		c, _ := s.client(0)
		other, _ := s.client(0)
		a := multilock.Mutex(c, "a")
		for want, make := range map[string]func() (*multilock.Set, error){
			"without members": func() (*multilock.Set, error) { return multilock.New() },
			"mutex/a is in the set twice": func() (*multilock.Set, error) {
				return multilock.New(a, multilock.Mutex(c, "a"))
			},
			"rwlock/a is in the set twice": func() (*multilock.Set, error) {
				return multilock.New(multilock.Read(c, "a"), multilock.Write(c, "a"))
			},
			"control character": func() (*multilock.Set, error) { return multilock.New(multilock.Mutex(c, "bad\x00")) },
			"limit":             func() (*multilock.Set, error) { return multilock.New(multilock.Permits(c, "a", 0, 1)) },
			"no function of this package": func() (*multilock.Set, error) {
				return multilock.New(multilock.Member{})
			},
			"5 permits of": func() (*multilock.Set, error) { return multilock.New(multilock.Permits(c, "a", 4, 5)) },
			"0 permits of": func() (*multilock.Set, error) { return multilock.New(multilock.Permits(c, "a", 4, 0)) },
			"members 0 and 1 are both mutex/a": func() (*multilock.Set, error) {
				set := s.must(multilock.New(a, multilock.Mutex(other, "a")))
				_, err := set.Lock(s.Context())
				return nil, err
			},
			"nil work": func() (*multilock.Set, error) { return nil, s.set(c, "a").Do(s.Context(), nil) },
		} {
			_, err := make()
			if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(fmt.Sprintf("%q", err), strings.Trim(fmt.Sprintf("%q", want), `"`)) {
				s.Errorf("%q: got %v", want, err)
			}
		}
		s.empty()
	})
}
