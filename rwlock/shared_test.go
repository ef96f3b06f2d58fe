package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

// sharing runs a test with clients whose readers share.
func sharing(t *testing.T, f func(a, b, c party), opts ...rwlock.Option) {
	t.Helper()
	parties(t, func(a, b, c party) {
		for _, p := range []*party{&a, &b, &c} {
			p.share(opts...)
		}
		f(a, b, c)
	})
}

func (p *party) share(opts ...rwlock.Option) {
	p.Helper()
	var err error
	p.l, err = rwlock.New(p.client, "catalogue", append(opts, rwlock.WithSharedReads())...)
	check(p.T, err)
}

// queued fails the test unless the queue has these modes.
func (p party) queued(want string) {
	p.Helper()
	synctest.Wait()
	got := ""
	for _, e := range p.svc.Snapshot(queue) {
		got += e.Mode
	}
	if got != want {
		p.Errorf("the queue is %q, want %q", got, want)
	}
}

// TestReadersOfAClientShareOneEntry: only the first and the last of them, and
// the watch, cost requests.
func TestReadersOfAClientShareOneEntry(t *testing.T) {
	sharing(t, func(a, b, _ party) {
		var all []*rwlock.Lock
		n := a.requests(func() {
			for range 20 {
				all = append(all, a.rlock())
			}
			all = append(all, a.take(a.l.TryRLock, a.Context()))
			synctest.Wait()
		})
		if n != 3 {
			t.Errorf("%d requests for 21 readers, want 3: the join, and a view of the queue that "+
				"waits for a change", n)
		}
		other := b.rlock()
		a.queued("rr")
		for _, l := range all {
			if l.Token() != all[0].Token() || l.Writer() || l.Err() != nil {
				t.Errorf("token %d, writer %v, %v", l.Token(), l.Writer(), l.Err())
			}
			before := a.svc.Snapshot(queue)
			a.unlock(l)
			if ended := context.Cause(l.Context()); !errors.Is(ended, coordinator.ErrReleased) ||
				l != all[20] && len(a.svc.Snapshot(queue)) != len(before) {
				t.Errorf("unlocked: %v", ended)
			}
			wantErr(t, l.Unlock(a.Context()), coordinator.ErrNotHeld)
		}
		a.queued("r")
		a.unlock(other)
	})
}

// TestSingleReaderCostsNoMoreWithTheOption: it has no watch.
func TestSingleReaderCostsNoMoreWithTheOption(t *testing.T) {
	sharing(t, func(a, _, _ party) {
		if n := a.requests(func() { a.unlock(a.rlock()); synctest.Wait() }); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}

// TestReaderQueuesBehindAWriterThatWasSeen, of another client or of its own,
// and the turn is passed on when its readers have left.
func TestReaderQueuesBehindAWriterThatWasSeen(t *testing.T) {
	for _, local := range []bool{true, false} {
		sharing(t, func(a, b, _ party) {
			r1, r2 := a.rlock(), a.rlock()
			writer := b
			if local {
				writer = a
			}
			w := writer.begin(writer.l.Lock)
			late, later := a.begin(a.l.RLock), a.begin(a.l.RLock)
			_, err := a.l.TryRLock(a.Context())
			wantErr(t, err, coordinator.ErrTaken)
			a.queued("rwr")
			admitted(t, "", w, late, later)
			a.unlock(r1)
			admitted(t, "", w, late, later)
			a.unlock(r2)
			admitted(t, "a", w, late, later)
			w.unlock()
			admitted(t, "abc", w, late, later)
			if late.lock.Token() != later.lock.Token() || late.lock.Token() < w.lock.Token() {
				t.Errorf("tokens %d, %d behind %d", late.lock.Token(), later.lock.Token(),
					w.lock.Token())
			}
			late.unlock()
			later.unlock()
		})
	}
}

// TestWriterOfTheSameClientIsNotOvertaken by readers that come after its call,
// whichever phase the turn is in and however slow the watch is.
func TestWriterOfTheSameClientIsNotOvertaken(t *testing.T) {
	sharing(t, func(a, b, _ party) {
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpWatchQueue {
				return memory.Fate{DelayReply: time.Hour}
			}
			return memory.Fate{}
		})
		first := b.lock()
		r1, r2 := a.begin(a.l.RLock), a.begin(a.l.RLock) // wait for an entry
		w := a.begin(a.l.Lock)
		r3 := a.begin(a.l.RLock)
		a.queued("wrwr")
		b.unlock(first)
		admitted(t, "ab", r1, r2, w, r3)
		r1.unlock()
		r2.unlock()
		admitted(t, "abc", r1, r2, w, r3)
		w.unlock()
		r3.unlock()

		// The entry of the readers is on its way when the writer calls.
		a.link.Delay(time.Millisecond, time.Millisecond)
		r1 = a.begin(a.l.RLock)
		time.Sleep(time.Microsecond) // requests arrive in the order of the calls
		w = a.begin(a.l.Lock)
		time.Sleep(time.Microsecond)
		r2 = a.begin(a.l.RLock)
		time.Sleep(10 * time.Millisecond)
		a.queued("rwr")
		admitted(t, "a", r1, w, r2)
		r1.unlock()
		time.Sleep(10 * time.Millisecond)
		admitted(t, "ab", r1, w, r2)
		w.unlock()
		time.Sleep(10 * time.Millisecond)
		r2.unlock()
	})
}

// TestLastOfTheWritersOfAClientIsNotOvertaken, though the reply to the join of
// an earlier one arrives after its own.
func TestLastOfTheWritersOfAClientIsNotOvertaken(t *testing.T) {
	sharing(t, func(a, b, _ party) {
		held := b.lock()
		fates := []memory.Fate{ // of the joins of w1, w2 and r1
			{DelayReply: 50 * time.Millisecond},
			{DelayRequest: 20 * time.Millisecond},
			{DelayReply: 100 * time.Millisecond},
		}
		a.svc.OnRequest(func(r memory.Request) (fate memory.Fate) {
			switch {
			case r.Op == memory.OpWatchQueue:
				fate.DelayReply = time.Hour
			case r.Op == memory.OpJoin && len(fates) > 0:
				fate, fates = fates[0], fates[1:]
			}
			return fate
		})
		w1, w2 := a.begin(a.l.Lock), a.begin(a.l.Lock)
		r1 := a.begin(a.l.RLock)
		time.Sleep(200 * time.Millisecond)
		r2 := a.begin(a.l.RLock)
		a.queued("wwrwr")
		b.unlock(held)
		for _, x := range []*pending{w1, r1, w2, r2} {
			x.unlock()
		}
	})
}

// TestSharedTurnOpensAgainBehindTheWriter: readers that come when the writer
// has joined share one entry behind it.
func TestSharedTurnOpensAgainBehindTheWriter(t *testing.T) {
	sharing(t, func(a, b, _ party) {
		first := b.rlock()
		w := a.begin(a.l.Lock)
		var all []*pending
		for range 5 {
			all = append(all, a.begin(a.l.RLock))
		}
		a.queued("rwr")
		b.unlock(first)
		w.unlock()
		admitted(t, "abcde", all...)
		for _, r := range all {
			r.unlock()
		}
	})
}

// TestStreamOfReadersDoesNotStarveAWriter, also if the watch is silent.
func TestStreamOfReadersDoesNotStarveAWriter(t *testing.T) {
	for _, silent := range []bool{false, true} {
		sharing(t, func(a, b, _ party) {
			if silent {
				a.svc.OnRequest(func(r memory.Request) memory.Fate {
					if r.Op == memory.OpWatchQueue {
						return memory.Fate{DelayReply: time.Hour}
					}
					return memory.Fate{}
				})
			}
			ctx, stop := context.WithCancel(context.Background())
			var readers sync.WaitGroup
			for i := range 5 {
				readers.Go(func() {
					time.Sleep(time.Duration(i) * 300 * time.Microsecond)
					for ctx.Err() == nil {
						l, err := a.l.RLock(a.Context())
						check(t, err)
						time.Sleep(time.Millisecond)
						a.unlock(l)
					}
				})
			}
			time.Sleep(time.Second + 100*time.Microsecond)
			most := 2 * time.Millisecond
			if silent {
				most = b.session().TTL()/10 + 2*time.Millisecond
			}
			began := time.Now()
			bound, cancel := context.WithTimeout(b.Context(), 2*most)
			defer cancel()
			w, err := b.l.Lock(bound)
			took := time.Since(began)
			stop()
			if err != nil || took > most {
				t.Errorf("silent %v: the writer waited for %v: %v", silent, took, err)
			}
			if err == nil {
				b.unlock(w)
			}
			readers.Wait()
		})
	}
}

// TestLossEndsAllReadersOfATurn, each with the cause, before the next writer
// holds; and each of them was reported to observers.
func TestLossEndsAllReadersOfATurn(t *testing.T) {
	var tally memory.Tally
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		a, b := join(t, svc, coordinator.WithObserver(&tally)), join(t, svc)
		a.share()
		var all []*rwlock.Lock
		var derived []context.Context
		for range 5 {
			l := a.rlock()
			ctx, cancel := context.WithCancel(l.Context())
			defer cancel()
			all, derived = append(all, l), append(derived, ctx)
		}
		early := a.rlock()
		a.unlock(early)
		a.link.Cut()
		w := b.lock()
		for i, l := range all {
			if derived[i].Err() == nil || !errors.Is(l.Err(), coordinator.ErrSessionLost) {
				t.Errorf("a reader beside a writer: %v", l.Err())
			}
			wantErr(t, l.Unlock(a.Context()), coordinator.ErrSessionLost)
		}
		b.unlock(w)
		a.link.Heal()
		a.unlock(a.rlock()) // of the next session
		for _, p := range []party{a, b} {
			check(t, p.client.Close(context.Background()))
		}
		if n, granted := tally.Count(event.Lost), tally.Count(event.Granted); n != 5 || granted != 7 {
			t.Errorf("%d lost of %d", n, granted)
		}
	})
}

// TestRemovedEntryEndsAllItsReaders: what an operator does to the entry happens
// to all of them, and the next reader has another.
func TestRemovedEntryEndsAllItsReaders(t *testing.T) {
	sharing(t, func(a, _, _ party) {
		one, two := a.rlock(), a.rlock()
		synctest.Wait()
		a.svc.Remove(queue, a.svc.Snapshot(queue)[0].Key)
		synctest.Wait()
		for _, l := range []*rwlock.Lock{one, two} {
			wantErr(t, l.Err(), coordinator.ErrRemoved)
			wantErr(t, l.Unlock(a.Context()), coordinator.ErrRemoved)
		}
		a.unlock(a.rlock())
	})
}

// TestNoReaderJoinsATurnWhileTheSessionIsSuspended: it waits for the service.
func TestNoReaderJoinsATurnWhileTheSessionIsSuspended(t *testing.T) {
	sharing(t, func(a, _, _ party) {
		one, two := a.rlock(), a.rlock()
		a.svc.Stop()
		time.Sleep(5 * time.Second)
		r := a.begin(a.l.RLock)
		admitted(t, "", r)
		a.svc.Start()
		time.Sleep(time.Second)
		admitted(t, "a", r)
		if r.lock.Token() <= one.Token() {
			t.Errorf("token %d", r.lock.Token())
		}
		a.unlock(one, two)
		r.unlock()
	})
}

// TestReaderThatBeganTheJoinGivesUpAlone: the entry belongs to all that wait,
// and leaves with the last of them. Each gets its own cause, and how long it
// has waited.
func TestReaderThatBeganTheJoinGivesUpAlone(t *testing.T) {
	sharing(t, func(a, b, _ party) {
		w := b.lock()
		first, second := a.begin(a.l.RLock), a.begin(a.l.RLock)
		a.queued("wr")
		place := a.svc.Snapshot(queue)[1].Place
		why := errors.New("given up")
		time.Sleep(time.Second)
		first.cancel(why)
		<-first.done
		wantErr(t, first.err, why)
		const said = `baton: read-lock "catalogue": after 1s in the queue: given up`
		if first.err.Error() != said {
			t.Errorf("error %q, want %q", first.err, said)
		}
		a.queued("wr")
		if all := a.svc.Snapshot(queue); len(all) != 2 || all[1].Place != place {
			t.Errorf("the others have another place: %v", all)
		}
		second.cancel(why)
		<-second.done
		wantErr(t, second.err, why)
		if second.err.Error() != said {
			t.Errorf("error %q, want %q", second.err, said)
		}
		a.queued("w")
		third := a.begin(a.l.RLock)
		b.unlock(w)
		admitted(t, "a", third)
		third.unlock()
	})
}

// TestReadersSayWhetherTheServiceAnswers, whether they are the last or not.
func TestReadersSayWhetherTheServiceAnswers(t *testing.T) {
	sharing(t, func(a, _, _ party) {
		a.link.HoldRequests()
		var all []*pending
		for i := range 2 {
			g := &pending{T: t, done: make(chan struct{})}
			ctx, cancel := context.WithTimeout(a.Context(), time.Duration(i+1)*time.Second)
			defer cancel()
			go func() { g.lock, g.err = a.l.RLock(ctx); close(g.done) }()
			all = append(all, g)
		}
		for _, g := range all {
			<-g.done
			wantErr(t, g.err, coordinator.ErrUnavailable, context.DeadlineExceeded)
		}
		a.link.Heal()
	})
}

func TestReadersOfAClosedClientGetErrClosed(t *testing.T) {
	sharing(t, func(a, b, _ party) {
		one, two := a.rlock(), a.rlock()
		w := b.begin(b.l.Lock)
		waiting := a.begin(a.l.RLock)
		check(t, a.client.Close(a.Context()))
		<-waiting.done
		wantErr(t, waiting.err, coordinator.ErrClosed)
		_, err := a.l.RLock(a.Context())
		wantErr(t, err, coordinator.ErrClosed)
		for _, l := range []*rwlock.Lock{one, two} {
			wantErr(t, l.Unlock(a.Context()), coordinator.ErrClosed)
		}
		w.unlock()
	})
}

// TestSharedReaderIsReenteredAndNotUpgraded, as a reader with an entry of its
// own, also while others share the entry.
func TestSharedReaderIsReenteredAndNotUpgraded(t *testing.T) {
	sharing(t, func(a, b, _ party) {
		one, two := a.rlock(), a.rlock()
		w := b.begin(b.l.Lock) // re-entry must not queue behind it
		again := a.take(a.l.RLock, two.Context())
		for _, take := range []take{a.l.Lock, a.l.TryLock} {
			_, err := take(two.Context())
			wantErr(t, err, rwlock.ErrUpgrade)
		}
		a.unlock(two)
		wantErr(t, again.Err())
		wantErr(t, again.Context().Err())
		a.unlock(one, again)
		admitted(t, "a", w)
		// A downgraded writer has its entry alone.
		r := b.take(b.l.RLock, w.lock.Context())
		w.unlock()
		other := b.rlock()
		b.queued("rr")
		b.unlock(r, other)
	})
}

// TestEachSharedReaderHasItsOwnTimeLimit.
func TestEachSharedReaderHasItsOwnTimeLimit(t *testing.T) {
	sharing(t, func(a, _, _ party) {
		one := a.rlock()
		time.Sleep(600 * time.Millisecond)
		two := a.rlock()
		time.Sleep(600 * time.Millisecond)
		if one.Context().Err() == nil || two.Context().Err() != nil || one.Err() != nil {
			t.Errorf("contexts %v, %v; %v", one.Context().Err(), two.Context().Err(), one.Err())
		}
		a.unlock(one, two)
	}, rwlock.WithMaxHold(time.Second))
}

// plain is a driver whose sessions cannot watch a queue.
type plain struct{ *memory.Driver }

func (d plain) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return plainSession{s}, err
}

type plainSession struct{ driver.Session }

func (s plainSession) Capabilities() driver.Capabilities {
	c := s.Session.Capabilities()
	c.QueueWatcher = nil
	return c
}

// TestServiceWithoutAQueueWatchIgnoresTheOption.
func TestServiceWithoutAQueueWatchIgnoresTheOption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		a := party{T: t, svc: svc}
		var err error
		a.client, err = coordinator.New(plain{svc.Driver()}, quiet)
		check(t, err)
		a.share()
		one, two := a.rlock(), a.rlock()
		a.queued("rr")
		a.unlock(one, two)
		check(t, a.client.Close(context.Background()))
	})
}

// TestReadersGiveUpAtAnyMoment, at the moments at which turns are joined,
// admitted, closed, passed on and lost, and the links are slow. No reader holds
// beside a writer, each call gets its own cause or the lock, and nothing is
// left.
func TestReadersGiveUpAtAnyMoment(t *testing.T) {
	const unit = 100 * time.Microsecond
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 9))
		sharing(t, func(a, b, c party) {
			for i, p := range []party{a, b, c} {
				p.link.Delay(time.Duration(i+1)*unit, unit)
			}
			var mu sync.Mutex
			readers, writers := 0, 0
			var wg sync.WaitGroup
			call := func(p party, writer, try bool, after, patience, work time.Duration) {
				time.Sleep(after)
				own := fmt.Errorf("cause of %v", after)
				ctx, cancel := context.WithTimeoutCause(a.Context(), patience, own)
				defer cancel()
				l, err := p.kind(writer, try)(ctx)
				if err != nil {
					if !errors.Is(err, own) && !errors.Is(err, coordinator.ErrTaken) &&
						!errors.Is(err, coordinator.ErrSessionLost) {
						t.Errorf("seed %d: %v after %v", seed, err, after)
					}
					return
				}
				mine := &readers
				if writer {
					mine = &writers
				}
				mu.Lock()
				if *mine++; l.Err() == nil && (writers > 1 || writers > 0 && readers > 0) {
					t.Errorf("seed %d: %d readers and %d writers", seed, readers, writers)
				}
				mu.Unlock()
				select {
				case <-time.After(work):
				case <-l.Context().Done():
				}
				mu.Lock()
				*mine--
				mu.Unlock()
				if err := l.Unlock(context.Background()); err != nil &&
					!errors.Is(err, coordinator.ErrSessionLost) {
					t.Errorf("seed %d: unlock: %v", seed, err)
				}
			}
			for range 80 {
				p := []party{a, a, b, c}[random.IntN(4)]
				writer, try := random.IntN(5) == 0, random.IntN(8) == 0
				after, patience := unit*time.Duration(random.IntN(100)), unit*time.Duration(1+random.IntN(16))
				work := unit * time.Duration(random.IntN(6))
				wg.Go(func() { call(p, writer, try, after, patience, work) })
			}
			if seed%4 == 0 {
				time.Sleep(unit * time.Duration(random.IntN(100)))
				for _, s := range a.svc.Sessions() {
					a.svc.Expire(s)
				}
			}
			wg.Wait()
			for _, p := range []party{a, b, c} {
				p.unlock(p.rlock())
				p.unlock(p.lock())
			}
			time.Sleep(time.Minute) // for sessions whose opening was cancelled
		})
	}
}
