package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

func init() { proc.Register("waiters", waitersWorker) }

// waitersWorker is a process with one waiting session for each message from the
// test: url, name.
func waitersWorker(ctx context.Context, io *proc.IO, args []string) error {
	for {
		var word string
		if err := io.Recv(ctx, &word); err != nil {
			return nil //nolint:nilerr // the test is over
		}
		c, err := coordinator.Open(args[0], silent)
		if err != nil {
			return err
		}
		if _, err := c.Session(ctx); err != nil {
			return err
		}
		go func() { _, _ = aLock.ask(ctx, c, args[1]) }()
	}
}

func TestLastWaiterIsGrantedAfterOneTTLWhenAllOthersAreKilled(t *testing.T) {
	const ttl, others = 10 * time.Second, 19
	together(t, func(t *testing.T, s site) {
		name := fresh(t)("waiters")
		c := s.client(t, longTTL)
		process := proc.Start(t, "waiters", s.url(ttl), name)
		for range others {
			process.Send("one more")
		}
		aLock.queued(t, c, name, others)
		p := aLock.queue(t, c, name, others+1)
		killed := time.Now()
		process.Kill()
		p.granted().mustRelease(t) // nineteen TTLs are three minutes
		t.Logf("granted %v after the kill", p.at.Sub(killed).Round(time.Millisecond))
		aLock.queued(t, c, name, 0)
	})
}

// tokenGate is a resource that checks tokens, as promise P3 requires.
type tokenGate struct {
	mu                sync.Mutex
	highest           int64
	accepted, refused map[int64]int // writes by token
}

func newTokenGate() *tokenGate {
	return &tokenGate{accepted: map[int64]int{}, refused: map[int64]int{}}
}

func (r *tokenGate) write(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Token < r.highest {
		r.refused[e.Token]++
		return
	}
	r.highest = e.Token
	r.accepted[e.Token]++
}

func (r *tokenGate) of(token int64) (accepted, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted[token], r.refused[token]
}

// A process is stopped for longer than its TTL. Its holder sends the write that
// it had begun when it continues, and the resource refuses it. Its waiter,
// which was granted meanwhile, returns the loss. Its reader blocked the writers
// for one TTL. Its term ended before the next began.
func TestPausedProcessLosesItsHoldsAndItsLateWriteIsRefused(t *testing.T) {
	const ttl = 10 * time.Second
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c := s.client(t, longTTL)
		victim := newActor(t, s.url(ttl))
		reg := newTokenGate()
		victim.register = reg.write

		old := victim.takes(writeOn, name("holder"))
		term := victim.takes(aTerm, name("leader"))
		candidate := aTerm.queue(t, c, name("leader"), 2)
		first := aLock.take(t, c, name("waiter"))
		victim.waits(aLock, c, name("waiter"), 2)
		behind := aLock.queue(t, c, name("waiter"), 3)
		reader := aRead.take(t, c, name("reader"))
		victim.takes(aRead, name("reader"))
		writer := aWrite.queue(t, c, name("reader"), 3)
		await.Until(t, "writes of the first holder", func() bool { n, _ := reg.of(old.Token); return n > 0 })

		if err := victim.Pause(); err != nil {
			t.Fatal(err)
		}
		first.mustRelease(t) // this grants the lock to the paused waiter
		reader.mustRelease(t)
		next := aLock.take(t, c, name("holder"))
		if int64(next.token) <= old.Token {
			t.Errorf("token %d after %d", next.token, old.Token)
		}
		reg.write(event{Token: int64(next.token)})
		elected, waited, wrote := candidate.granted(), behind.granted(), writer.granted()
		if int64(elected.token) <= term.Token {
			t.Errorf("term %d after %d", elected.token, term.Token)
		}
		before, _ := reg.of(old.Token)
		if err := victim.Resume(); err != nil {
			t.Fatal(err)
		}

		for what, i := range map[string]int{"holder": 1, "leader": 1, "reader": 1} {
			if e := victim.told(name(what), i); e.What != isEnded || !e.Lost {
				t.Errorf("%s: got %+v, want the loss", what, e)
			}
		}
		if e := victim.told(name("waiter"), 0); e.What != isRefused || !e.Lost {
			t.Errorf("the waiter was got %+v, want the loss and no grant", e)
		}
		await.Until(t, "a stale write", func() bool { _, refused := reg.of(old.Token); return refused > 0 })
		after, refused := reg.of(old.Token)
		t.Logf("%d writes of the paused holder refused", refused)
		if after != before {
			// They were in the pipe when the process was stopped, so the
			// register received them before the next holder's.
			t.Errorf("%d writes of the old holder accepted after the next one's", after-before)
		}
		for what, h := range map[string]hold{"holder": next, "leader": elected, "waiter": waited, "reader": wrote} {
			if h.err() != nil {
				t.Errorf("%s: the next hold ended: %v", what, h.err())
			}
			h.mustRelease(t)
		}
		for what, w := range map[string]way{"holder": aLock, "leader": aTerm, "waiter": aLock, "reader": aRead} {
			w.queued(t, c, name(what), 0)
		}
	})
}

// The pause is as long as an outage may last according to docs/ttl.md.
func TestProcessPausedForLessThanItsTTLKeepsItsHolds(t *testing.T) {
	const ttl = 12 * time.Second
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c := s.client(t, longTTL)
		victim := newActor(t, s.url(ttl))
		next := map[way]*pending{}
		for _, w := range alone {
			victim.takes(w, name(string(w)))
			next[w] = w.queue(t, c, name(string(w)), 2)
		}
		began := time.Now()
		if err := victim.Pause(); err != nil {
			t.Fatal(err)
		}
		await.For(t.Context(), s.survives(ttl)*9/10)
		if err := victim.Resume(); err != nil {
			t.Fatal(err)
		}
		if paused := time.Since(began); paused > s.survives(ttl) {
			servers.Skip(t, fmt.Sprintf("the pause took %v on this machine, longer than a hold has to survive", paused))
		}
		await.For(t.Context(), ttl/3) // some renewals
		for _, w := range alone {
			if next[w].over() {
				t.Errorf("%s: granted to the next waiter", w)
			}
			victim.orders(giveUp, name(string(w)))
			if e := victim.told(name(string(w)), 1); e.What != isEnded || e.Lost {
				t.Errorf("%s: got %+v, want its own release", w, e)
			}
			next[w].granted().mustRelease(t)
		}
	})
}

// The holds are released at once, although the TTL is twenty seconds, and the
// waiters return an error.
func TestCloseReleasesHoldsAndEndsWaits(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		other, leaver := s.client(t, longTTL), s.client(t, longTTL)
		var holds []hold
		var waiting, next []*pending
		for _, w := range alone {
			holds = append(holds, w.take(t, leaver, name("held "+string(w))))
			next = append(next, w.queue(t, other, name("held "+string(w)), 2))
			w.take(t, other, name("waited "+string(w)))
			waiting = append(waiting, w.queue(t, leaver, name("waited "+string(w)), 2))
		}
		began := time.Now()
		if err := leaver.Close(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		for i, w := range alone {
			if err := holds[i].err(); !errors.Is(err, coordinator.ErrClosed) {
				t.Errorf("%s: the hold ended with %v", w, err)
			}
			waiting[i].fails(coordinator.ErrClosed)
			w.queued(t, other, name("waited "+string(w)), 1)
			next[i].grantedBy(began.Add(longTTL))
		}
		t.Logf("released and acquired by others within %v", time.Since(began).Round(time.Millisecond))
	})
}

// The next waiter is admitted long before the TTL.
func TestTimedOutReleaseFinishesInTheBackground(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c, other := s.link(t, longTTL), s.client(t, longTTL)
		var holds []hold
		var next []*pending
		for _, w := range alone {
			holds = append(holds, w.take(t, c.Client, name(string(w))))
			next = append(next, w.queue(t, other, name(string(w)), 2))
		}
		c.proxy.CutUp()
		ctx := within(t, 2*time.Second)
		var wg sync.WaitGroup
		for i, w := range alone {
			wg.Go(func() {
				if err := holds[i].release(ctx); !errors.Is(err, context.DeadlineExceeded) || !coordinator.MayHaveApplied(err) {
					t.Errorf("%s: the release that timed out: %v", w, err)
				}
			})
		}
		wg.Wait()
		for i, w := range alone {
			if next[i].over() {
				t.Errorf("%s: granted while the request cannot pass: the test shows nothing", w)
			}
		}
		c.proxy.Heal()
		for i, w := range alone {
			next[i].granted().mustRelease(t)
			w.queued(t, other, name(string(w)), 0)
		}
	})
}

// Calls are cancelled after random times: before the join, during it, and while
// the grant is on its way. Whatever a call returned, it leaves no entry.
func TestCancellationAtAnyMomentLeavesNothing(t *testing.T) {
	const rounds = 40
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c := s.client(t, longTTL)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		for _, w := range []way{aLock, aWrite, aRead, aTerm, twoOf} {
			n, granted := name(string(w)), 0
			for range rounds {
				ahead := w
				switch w {
				case aRead:
					ahead = aWrite
				case twoOf:
					ahead = allOf
				}
				first := ahead.take(t, c, n)
				ctx, cancel := context.WithCancel(context.Background())
				p := w.begin(ctx, t, c, n)
				time.AfterFunc(time.Duration(r.IntN(10000))*time.Microsecond, cancel)
				await.For(ctx, time.Duration(r.IntN(4000))*time.Microsecond)
				first.mustRelease(t)
				<-p.done
				switch {
				case p.err == nil:
					granted++
					p.hold.mustRelease(t)
				case !errors.Is(p.err, context.Canceled):
					t.Errorf("%s: %v", w, p.err)
				}
				cancel()
			}
			t.Logf("%s: %d of %d granted", w, granted, rounds)
			w.queued(t, c, n, 0)
			w.take(t, c, n).mustRelease(t)
		}
	})
}

// An identity is for people to read.
func TestProcessesWithTheSameIdentityExcludeEachOther(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c := s.client(t, longTTL)
		url := s.url(longTTL) + "&identity=replica"
		a, b := newActor(t, url), newActor(t, url)
		for _, w := range alone {
			n := name(string(w))
			one := a.takes(w, n)
			b.waits(w, c, n, 2)
			a.orders(giveUp, n)
			two := b.told(n, 0)
			if two.What != isGranted || two.Token <= one.Token || two.Session == one.Session {
				t.Errorf("%s: %+v, then %+v", w, one, two)
			}
			w.queued(t, c, n, 1) // the first process's release does not affect the second
		}
	})
}

func TestPanicReleases(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c, ctx := s.client(t, longTTL), await.Context(t)
		boom := func(context.Context, *rwlock.Lock) error { panic("boom") }
		for w, do := range map[way]func(n string) error{
			aLock: func(n string) error {
				return newMutex(t, c, n).Do(ctx, func(context.Context, *mutex.Lock) error { panic("boom") })
			},
			aWrite: func(n string) error { return newRWLock(t, c, n).Do(ctx, boom) },
			aRead:  func(n string) error { return newRWLock(t, c, n).RDo(ctx, boom) },
			twoOf: func(n string) error {
				return newSemaphore(t, c, n, permits).Do(ctx, 2, func(context.Context, *semaphore.Permit) error { panic("boom") })
			},
			aTerm: func(n string) error {
				return newElection(t, c, n).Run(ctx, func(context.Context, *election.Term) error { panic("boom") })
			},
		} {
			n := name(string(w))
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: the panic did not propagate", w)
					}
				}()
				_ = do(n)
			}()
			w.queued(t, c, n, 0)
		}
	})
}

// They need no connections or sessions of their own, and leave nothing behind.
func TestManyGoroutinesShareOneSession(t *testing.T) {
	const n = 300
	run := func(t *testing.T, s site) {
		t.Parallel()
		name := servers.Name(t)
		c := s.meter(t, longTTL)
		m := newMutex(t, c.Client, name)
		session, err := c.Session(within(t, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		inside, most := 0, 0
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				l, err := m.Lock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				inside++ // only the lock protects it
				most = max(most, inside)
				if l.Session() != session.ID() {
					t.Errorf("session %s beside %s", l.Session(), session.ID())
				}
				inside--
				if err := l.Unlock(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most != 1 {
			t.Errorf("%d inside at once", most)
		}
		if left := inQueue(t, m); left != 0 {
			t.Errorf("%d left in the queue", left)
		}
		if watches := c.watches(); watches > 3*n { // a long hold watches its own entry, and a new connection sets watches again
			t.Errorf("%d watches for %d waiters", watches, n)
		}
		if requests := c.requests(); requests > 20*n {
			t.Errorf("%d requests for %d locks", requests, n)
		}
		t.Logf("%d requests, %d watches", c.requests(), c.watches())
	}
	t.Run("etcd", func(t *testing.T) { run(t, site{"etcd", servers.Etcd(t).Endpoints()}) })
	t.Run("zookeeper", func(t *testing.T) { run(t, site{"zk", servers.ZooKeeper(t).Endpoints()}) })
}
