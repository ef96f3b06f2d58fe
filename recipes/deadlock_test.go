package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// table is some services with parties that may wait for each other.
type table struct {
	*testing.T
	services []*memory.Service
	parties  []*diner
}

// diner is a party with a client of each service.
type diner struct {
	*testing.T
	clients []*coordinator.Client
	log     *book

	mu     sync.Mutex
	events []event.Event // of deadlocks
	at     []time.Time
}

// dine runs a test with so many services and parties in virtual time.
func dine(t *testing.T, services, parties int, f func(*table)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		all := &table{T: t}
		for range services {
			all.services = append(all.services, memory.NewService())
		}
		for i := range parties {
			d := &diner{T: t, log: &book{}}
			for _, svc := range all.services {
				link := svc.Driver()
				c, err := coordinator.New(link, coordinator.WithIdentity(fmt.Sprint("party-", i)),
					coordinator.WithLogger(slog.New(slog.NewTextHandler(d.log, nil))),
					coordinator.WithObserver(event.DirectFunc(d.observe)))
				check(t, err)
				endWithTest(t, link, c)
				d.clients = append(d.clients, c)
			}
			all.parties = append(all.parties, d)
		}
		f(all)
		for _, d := range all.parties {
			for _, c := range d.clients {
				check(t, c.Close(context.Background()))
			}
		}
		for _, svc := range all.services {
			if st := svc.Stats(); st.Entries != 0 || st.Watches != 0 {
				t.Errorf("left at the service: %+v", st)
			}
		}
	})
}

func (d *diner) observe(e event.Event) {
	if e.Kind == event.Deadlocked {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events, d.at = append(d.events, e), append(d.at, time.Now())
	}
}

// reports returns how many deadlocks were reported to the party.
func (d *diner) reports() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.events)
}

// mutex is the mutex of a name at a service.
func (d *diner) mutex(service int, name string, opts ...mutex.Option) *mutex.Mutex {
	d.Helper()
	m, err := mutex.New(d.clients[service], name, opts...)
	check(d, err)
	return m
}

func (d *diner) lock(ctx context.Context, m *mutex.Mutex) *mutex.Lock {
	d.Helper()
	l, err := m.Lock(ctx)
	check(d, err)
	return l
}

// ring makes each party hold a name and wait for that of the next one, one
// after the other with a pause. The names are at the services in turn.
func (all *table) ring(ctx context.Context, pause time.Duration, opts ...mutex.Option) (calls []<-chan error) {
	all.Helper()
	n := len(all.parties)
	locks := make([]*mutex.Lock, n)
	at := func(p *diner, i int) *mutex.Mutex {
		return p.mutex(i%len(all.services), fmt.Sprint("fork-", i), opts...)
	}
	for i, p := range all.parties {
		locks[i] = p.lock(ctx, at(p, i))
	}
	for i, p := range all.parties {
		calls = append(calls, start(func() error {
			l, err := at(p, (i+1)%n).Lock(merged{ctx, locks[i].Context()})
			if err == nil {
				err = l.Unlock(context.Background())
			}
			return errors.Join(err, locks[i].Unlock(context.Background()))
		}))
		time.Sleep(pause)
	}
	return calls
}

// ended waits for calls that were cancelled. The holds that the first ones
// release may be granted to the others.
func ended(t *testing.T, calls []<-chan error) {
	t.Helper()
	for _, call := range calls {
		if err := <-call; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestDeadlockIsReportedByEachOfItsParties within 12 seconds, once, to the log
// and to observers, with the names, identities and tokens of all: of two and of
// four parties, at one service and over two.
func TestDeadlockIsReportedByEachOfItsParties(t *testing.T) {
	for _, services := range []int{1, 2} {
		for _, parties := range []int{2, 4} {
			dine(t, services, parties, func(all *table) {
				ctx, cancel := context.WithCancel(all.Context())
				calls := all.ring(ctx, 300*time.Millisecond)
				closed := time.Now().Add(-300 * time.Millisecond)
				time.Sleep(2 * time.Minute)
				for i, p := range all.parties {
					if n := p.reports(); n != 1 {
						all.Fatalf("%d services, %d parties: party %d got %d reports", services, parties, i, n)
					}
					if late := p.at[0].Sub(closed); late > 12*time.Second {
						all.Errorf("party %d was notified %v after the cycle was closed", i, late)
					}
					all.judge(p.events[0], i)
					if n := strings.Count(p.log.String(), "level=WARN msg=\"baton: deadlock"); n != 1 {
						all.Errorf("party %d logged it %d times:\n%s", i, n, p.log)
					}
				}
				cancel()
				ended(t, calls)
			})
		}
	}
}

// judge checks the report of a ring to a party, which begins with that.
func (all *table) judge(e event.Event, party int) {
	all.Helper()
	var found *recipes.DeadlockError
	n := len(all.parties)
	if !errors.As(e.Err, &found) || len(found.Parties) != n || !errors.Is(e.Err, recipes.ErrDeadlock) {
		all.Fatalf("%d parties: reported %v", n, e.Err)
	}
	for k, p := range found.Parties {
		i := (party + k) % n
		waits := driver.Queue(fmt.Sprint("mutex/fork-", (i+1)%n))
		holds := driver.Queue(fmt.Sprint("mutex/fork-", i))
		entries := all.services[(i+1)%n%len(all.services)].Snapshot(waits)
		own := all.services[i%len(all.services)].Snapshot(holds)
		if p.Identity != fmt.Sprint("party-", i) || p.Queue != waits || p.Token != entries[1].Token ||
			p.Holds.Queue != holds || p.Holds.Token != own[0].Token {
			all.Errorf("reported to party %d as the party after %d: %+v", party, k, p)
		}
		for _, part := range []string{p.Identity, string(waits), string(holds)} {
			if !strings.Contains(e.Err.Error(), part) {
				all.Errorf("the text lacks %q: %v", part, e.Err)
			}
		}
	}
	if e.Op != "lock" || e.Queue != found.Parties[0].Queue || e.Token != found.Parties[0].Token ||
		e.Duration < 10*time.Second {
		all.Errorf("the event is %+v", e)
	}
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.String()
}

// quietFor checks that nothing is reported to anyone.
func (all *table) quietFor(d time.Duration, what string) {
	all.Helper()
	time.Sleep(d)
	for i, p := range all.parties {
		if n := p.reports(); n != 0 {
			all.Errorf("%s: party %d got %v", what, i, p.events[0].Err)
		}
	}
}

// TestChainThatIsNoCycleIsNotReported: a holder that does not wait, one whose
// call has another context, a hold that was released, a party behind the cycle.
func TestChainThatIsNoCycleIsNotReported(t *testing.T) {
	for what, first := range map[string]func(p *diner, l *mutex.Lock) context.Context{
		"does not wait":   nil,
		"another context": func(p *diner, _ *mutex.Lock) context.Context { return p.Context() },
		"a released hold": func(p *diner, l *mutex.Lock) context.Context { p.relock(l); return l.Context() },
		"another name's hold": func(p *diner, l *mutex.Lock) context.Context {
			return p.lock(p.Context(), p.mutex(0, "elsewhere")).Context()
		},
	} {
		dine(t, 1, 2, func(all *table) {
			a, b := all.parties[0], all.parties[1]
			held := a.lock(a.Context(), a.mutex(0, "a"))
			theirs := b.lock(b.Context(), b.mutex(0, "b"))
			ctx, cancel := context.WithCancel(all.Context())
			var calls []<-chan error
			wait := func(ctx context.Context, m *mutex.Mutex) {
				calls = append(calls, start(func() error { _, err := m.Lock(ctx); return err }))
			}
			if first != nil {
				under := context.WithoutCancel(first(a, held))
				wait(merged{ctx, under}, a.mutex(0, "b"))
			}
			wait(merged{ctx, theirs.Context()}, b.mutex(0, "a"))
			all.quietFor(3*time.Minute, what)
			cancel()
			ended(t, calls)
		})
	}
}

// merged ends with one context and has the values of another.
type merged struct {
	context.Context
	values context.Context
}

func (m merged) Value(key any) any {
	if v := m.Context.Value(key); v != nil {
		return v
	}
	return m.values.Value(key)
}

// relock releases a lock, and takes the name again without its context.
func (d *diner) relock(l *mutex.Lock) {
	d.Helper()
	check(d, l.Unlock(d.Context()))
	d.lock(d.Context(), d.mutex(0, "a"))
}

// TestDeadlockOfOthersIsNotThatOfAContenderBehind, which is no part of it.
func TestDeadlockOfOthersIsNotThatOfAContenderBehind(t *testing.T) {
	dine(t, 1, 2, func(all *table) {
		ctx, cancel := context.WithCancel(all.Context())
		calls := all.ring(ctx, 0)
		link := all.services[0].Driver()
		c, err := coordinator.New(link, quiet,
			coordinator.WithObserver(event.DirectFunc(func(e event.Event) {
				if e.Kind == event.Deadlocked {
					all.Errorf("reported to one that is behind: %v", e.Err)
				}
			})))
		check(t, err)
		endWithTest(t, link, c)
		third := &diner{T: all.T, clients: []*coordinator.Client{c}}
		own := third.lock(all.Context(), third.mutex(0, "own"))
		calls = append(calls, start(func() error {
			_, err := third.mutex(0, "fork-0").Lock(merged{ctx, own.Context()})
			return err
		}))
		time.Sleep(3 * time.Minute)
		cancel()
		ended(t, calls)
		check(t, c.Close(context.Background()))
	})
}

// taker takes a name on a client, for the tests of recipes in a cycle.
type taker func(c *coordinator.Client, ctx context.Context) (inner, error)

func takers() map[string]taker {
	return map[string]taker{
		"reader": func(c *coordinator.Client, ctx context.Context) (inner, error) {
			l, _ := rwlock.New(c, "n")
			return l.RLock(ctx)
		},
		"writer": func(c *coordinator.Client, ctx context.Context) (inner, error) {
			l, _ := rwlock.New(c, "n")
			return l.Lock(ctx)
		},
		"candidate": func(c *coordinator.Client, ctx context.Context) (inner, error) {
			e, _ := election.New(c, "n")
			return e.Campaign(ctx, nil)
		},
		"set": func(c *coordinator.Client, ctx context.Context) (inner, error) {
			s, _ := multilock.New(multilock.Mutex(c, "a-first"), multilock.Mutex(c, "n"))
			return s.Lock(ctx)
		},
		"permits": func(c *coordinator.Client, ctx context.Context) (inner, error) {
			s, _ := semaphore.New(c, "n", 2)
			return s.Acquire(ctx, 2)
		},
	}
}

// TestDeadlocksOfRecipes: party 0 holds n in one way and waits for a mutex,
// whose holder waits for n in another way. Readers do not wait for readers; the
// waits for permits are not known.
func TestDeadlocksOfRecipes(t *testing.T) {
	for _, c := range []struct {
		holds, waits string
		reported     bool
	}{
		{"reader", "writer", true}, {"writer", "reader", true}, {"writer", "writer", true},
		{"candidate", "candidate", true}, {"set", "set", true}, {"permits", "permits", false},
	} {
		dine(t, 1, 2, func(all *table) {
			a, b := all.parties[0], all.parties[1]
			held, err := takers()[c.holds](a.clients[0], all.Context())
			check(t, err)
			other := b.lock(all.Context(), b.mutex(0, "m"))
			ctx, cancel := context.WithCancel(all.Context())
			calls := []<-chan error{
				start(func() error { _, err := a.mutex(0, "m").Lock(merged{ctx, held.Context()}); return err }),
				start(func() error { _, err := takers()[c.waits](b.clients[0], merged{ctx, other.Context()}); return err }),
			}
			time.Sleep(12 * time.Second)
			for i, p := range all.parties {
				if n := p.reports(); (n == 1) != c.reported {
					t.Errorf("%s, %s: party %d got %d reports", c.holds, c.waits, i, n)
				}
			}
			cancel()
			ended(t, calls)
		})
	}
}

// TestReaderBehindAWaitingWriterIsInTheDeadlock: the reader waits for the
// writer, which waits for the reader that holds. Without the writer it waits
// for nobody.
func TestReaderBehindAWaitingWriterIsInTheDeadlock(t *testing.T) {
	dine(t, 1, 3, func(all *table) {
		a, b, c := all.parties[0], all.parties[1], all.parties[2]
		lock := func(p *diner) *rwlock.RWLock { l, err := rwlock.New(p.clients[0], "n"); check(t, err); return l }
		reads, err := lock(a).RLock(all.Context())
		check(t, err)
		m := b.lock(all.Context(), b.mutex(0, "m"))
		ctx, cancel := context.WithCancel(all.Context())
		calls := []<-chan error{
			start(func() error { _, err := a.mutex(0, "m").Lock(merged{ctx, reads.Context()}); return err }),
		}
		time.Sleep(time.Second)
		calls = append(calls, start(func() error { _, err := lock(c).Lock(ctx); return err }))
		time.Sleep(time.Second)
		calls = append(calls, start(func() error { _, err := lock(b).RLock(merged{ctx, m.Context()}); return err }))
		time.Sleep(12 * time.Second)
		if a.reports() != 1 || b.reports() != 1 || c.reports() != 0 {
			t.Errorf("reports: %d, %d, %d", a.reports(), b.reports(), c.reports())
		}
		cancel()
		ended(t, calls)
	})
}

// TestYoungestOfADeadlockGivesUp within 12 seconds, and no other, if all have
// the option: of two and of four, at one service and over two. Each of them
// reports it before. The others are granted what they wait for.
func TestYoungestOfADeadlockGivesUp(t *testing.T) {
	for _, services := range []int{1, 2} {
		for _, parties := range []int{2, 4} {
			dine(t, services, parties, func(all *table) {
				calls := all.ring(all.Context(), 300*time.Millisecond, mutex.WithDeadlockError())
				closed := time.Now().Add(-300 * time.Millisecond)
				for i, call := range calls {
					err := <-call
					var wait *recipes.WaitError
					var said *coordinator.Error
					youngest := i == parties-1
					if youngest != errors.Is(err, recipes.ErrDeadlock) || !youngest && err != nil {
						all.Errorf("%d services, %d parties: party %d: %v", services, parties, i, err)
					}
					if youngest && (!errors.As(err, &wait) || !errors.As(err, &said) || said.Op != "lock" ||
						said.Name != "fork-0" || wait.Queued < 10*time.Second) {
						all.Errorf("the error is %#v", err)
					}
					if n := all.parties[i].reports(); n != 1 {
						all.Errorf("party %d reported %d times", i, n)
					}
				}
				if took := time.Since(closed); took > 12*time.Second {
					all.Errorf("resolved after %v", took)
				}
			})
		}
	}
}

// unlocker is a hold of a mutex or a read-write lock.
type unlocker interface {
	inner
	Unlock(context.Context) error
}

// TestSecondDeadlockOfAContenderIsResolvedSoonAfterTheFirst: a writer waits for
// two readers in two deadlocks. It is the second to give up in the one that it
// finds first, and the first in the other, which it finds when a reader has
// given up.
func TestSecondDeadlockOfAContenderIsResolvedSoonAfterTheFirst(t *testing.T) {
	dine(t, 1, 4, func(all *table) {
		type take = func(context.Context) (unlocker, error)
		locks := func(i int, name string, opts ...mutex.Option) take {
			m := all.parties[i].mutex(0, name, opts...)
			return func(ctx context.Context) (unlocker, error) { return m.Lock(ctx) }
		}
		shares := func(i int) *rwlock.RWLock {
			l, err := rwlock.New(all.parties[i].clients[0], "n", rwlock.WithDeadlockError())
			check(t, err)
			return l
		}
		reads := func(i int) take {
			return func(ctx context.Context) (unlocker, error) { return shares(i).RLock(ctx) }
		}
		writes := func(ctx context.Context) (unlocker, error) { return shares(2).Lock(ctx) }
		give := mutex.WithDeadlockError()
		ctx, cancel := context.WithTimeout(all.Context(), 5*time.Minute)
		defer cancel()
		var held []unlocker
		for i, take := range []take{locks(0, "b"), reads(1), locks(2, "a"), reads(3)} {
			l, err := take(ctx)
			check(all.parties[i], err)
			held = append(held, l)
		}
		var calls []<-chan error
		var ended [4]time.Time
		for i, take := range []take{locks(0, "a"), locks(1, "b"), writes, locks(3, "a", give)} {
			calls = append(calls, start(func() error {
				l, err := take(merged{ctx, held[i].Context()})
				if ended[i] = time.Now(); err == nil {
					err = l.Unlock(context.Background())
				}
				return errors.Join(err, held[i].Unlock(context.Background()))
			}))
			time.Sleep(time.Second)
		}
		for i, call := range calls {
			if err := <-call; i < 2 && err != nil || i >= 2 && !errors.Is(err, recipes.ErrDeadlock) {
				all.Errorf("party %d: %v", i, err)
			}
		}
		if later := ended[2].Sub(ended[3]); later <= 0 || later > 15*time.Second {
			all.Errorf("the second deadlock was resolved %v after the first one", later)
		}
	})
}

// TestOnlyContendersWithTheOptionGiveUp: of the others it is another one that
// does; if none has it, none.
func TestOnlyContendersWithTheOptionGiveUp(t *testing.T) {
	for _, chosen := range []int{-1, 0, 1, 2} {
		dine(t, 1, 3, func(all *table) {
			ctx, cancel := context.WithCancel(all.Context())
			var calls []<-chan error
			var locks []*mutex.Lock
			for i, p := range all.parties {
				locks = append(locks, p.lock(ctx, p.mutex(0, fmt.Sprint("fork-", i))))
			}
			for i, p := range all.parties {
				var opts []mutex.Option
				if i == chosen {
					opts = append(opts, mutex.WithDeadlockError())
				}
				calls = append(calls, start(func() error {
					_, err := p.mutex(0, fmt.Sprint("fork-", (i+1)%3), opts...).Lock(merged{ctx, locks[i].Context()})
					return err
				}))
				time.Sleep(300 * time.Millisecond)
			}
			time.Sleep(12 * time.Second)
			for i, call := range calls {
				select {
				case err := <-call:
					if i != chosen || !errors.Is(err, recipes.ErrDeadlock) {
						all.Errorf("%d may give up; party %d: %v", chosen, i, err)
					}
					calls[i] = start(func() error { return nil })
				default:
					if i == chosen {
						all.Errorf("party %d did not give up", i)
					}
				}
			}
			cancel()
			ended(t, calls)
		})
	}
}

// TestRecipesWithoutTheErrorForDeadlocksRefuseIt.
func TestRecipesWithoutTheErrorForDeadlocksRefuseIt(t *testing.T) {
	dine(t, 1, 1, func(all *table) {
		c := all.parties[0].clients[0]
		_, ofElection := election.New(c, "n", recipes.WithDeadlockError())
		_, ofSemaphore := semaphore.New(c, "n", 1, recipes.WithDeadlockError())
		_, ofGroup := group.New(c, "n", recipes.WithDeadlockError())
		for _, err := range []error{ofElection, ofSemaphore, ofGroup} {
			wantErr(t, err, coordinator.ErrInvalid)
		}
		_, err := rwlock.New(c, "n", rwlock.WithDeadlockError())
		check(t, err)
	})
}

// TestCycleThatEndsBetweenTheReadsIsNotReported: a party gives up after the
// first read, and waits again before the second.
func TestCycleThatEndsBetweenTheReadsIsNotReported(t *testing.T) {
	dine(t, 2, 2, func(all *table) {
		ctx, cancel := context.WithCancel(all.Context())
		calls := all.ring(ctx, 0)
		time.Sleep(10*time.Second + 250*time.Millisecond)
		cancel() // it was seen, and not confirmed
		ended(t, calls)
		ctx, cancel = context.WithCancel(all.Context())
		calls = all.ring(ctx, 0)
		all.quietFor(10*time.Second, "ended")
		cancel()
		ended(t, calls)
	})
}

// TestSearchesAreBounded: a contender whose hold nobody waits for lists one
// queue in each search: after 10, 20, 40, … seconds, and then every 320
// seconds. One that holds nothing lists none, and one that waits for less than
// ten seconds neither.
func TestSearchesAreBounded(t *testing.T) {
	for holds, want := range map[bool]int{false: 0, true: 8} {
		dine(t, 1, 2, func(all *table) {
			a, b := all.parties[0], all.parties[1]
			theirs := b.lock(all.Context(), b.mutex(0, "b"))
			own := a.lock(all.Context(), a.mutex(0, "a"))
			ctx, cancel := context.WithCancel(all.Context())
			under := ctx
			if holds {
				under = merged{ctx, own.Context()}
			}
			calls := []<-chan error{start(func() error { _, err := a.mutex(0, "b").Lock(under); return err })}
			time.Sleep(9 * time.Second)
			lists := func() int { return all.services[0].Stats().Requests[memory.OpList] }
			before := lists()
			time.Sleep(21 * time.Minute)
			if n := lists() - before; n != want {
				t.Errorf("holds %v: %d listings in 21 minutes, want %d", holds, n, want)
			}
			cancel()
			ended(t, calls)
			check(t, theirs.Unlock(all.Context()))
			check(t, own.Unlock(all.Context()))
		})
	}
}

// TestSearchReadsSixteenQueuesAtMost: behind a hold wait many that hold
// something, for each of which many wait.
func TestSearchReadsSixteenQueuesAtMost(t *testing.T) {
	dine(t, 1, 3, func(all *table) {
		a, b, c := all.parties[0], all.parties[1], all.parties[2]
		own, theirs := a.lock(all.Context(), a.mutex(0, "a")), b.lock(all.Context(), b.mutex(0, "b"))
		ctx, cancel := context.WithCancel(all.Context())
		var calls []<-chan error
		for i := range 30 {
			l := c.lock(all.Context(), c.mutex(0, fmt.Sprint("c", i)))
			calls = append(calls, start(func() error {
				_, err := c.mutex(0, "a").Lock(merged{ctx, l.Context()})
				return err
			}))
		}
		time.Sleep(5 * time.Second)
		calls = append(calls, start(func() error {
			_, err := a.mutex(0, "b").Lock(merged{ctx, own.Context()})
			return err
		}))
		time.Sleep(9 * time.Second) // those of c have searched once
		before := all.services[0].Stats().Requests[memory.OpList]
		time.Sleep(2 * time.Second)
		if n := all.services[0].Stats().Requests[memory.OpList] - before; n != 16 {
			t.Errorf("%d listings, want 16", n)
		}
		cancel()
		ended(t, calls)
		check(t, theirs.Unlock(all.Context()))
	})
}

// TestReadsOfTheConfirmationAreFresh: before each service is read again, it is
// sent a write of no version, so that it shows no state from before the first
// reads. If the service refuses that, nothing is confirmed.
func TestReadsOfTheConfirmationAreFresh(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		dine(t, 2, 2, func(all *table) {
			ctx, cancel := context.WithCancel(all.Context())
			calls := all.ring(ctx, 0)
			time.Sleep(10*time.Second + 250*time.Millisecond) // after the first reads
			var mu sync.Mutex
			var sent []string
			for _, svc := range all.services {
				svc.OnRequest(func(r memory.Request) (f memory.Fate) {
					mu.Lock()
					defer mu.Unlock()
					if r.Op == memory.OpSetRecord || r.Op == memory.OpList {
						sent = append(sent, string(r.Op))
					}
					if r.Op == memory.OpSetRecord && refuses {
						f.Err = driver.ErrRefused
					}
					return f
				})
			}
			time.Sleep(time.Second / 2)
			mu.Lock()
			got := strings.Join(sent, " ")
			mu.Unlock()
			write, list := string(memory.OpSetRecord)+" ", string(memory.OpList)+" "
			// of two parties, at the same time
			if n := strings.Count(got+" ", write); !refuses && (n != 4 || strings.Count(got+" ", list) != 4 ||
				!strings.HasPrefix(got+" ", write+write) || !strings.HasSuffix(got+" ", list+list)) {
				t.Errorf("the confirmation sent %s", got)
			}
			if n := all.parties[0].reports() + all.parties[1].reports(); refuses != (n == 0) {
				t.Errorf("refused %v: %d reports", refuses, n)
			}
			for _, svc := range all.services {
				svc.OnRequest(nil)
			}
			cancel()
			ended(t, calls)
		})
	}
}
