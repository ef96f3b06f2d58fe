package mutex_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

const delay = 20 * time.Second

// delayed runs a test with n clients with the same lock-delay.
func delayed(t *testing.T, n int, f func(t *testing.T, all []party)) {
	t.Helper()
	parties(t, n, func(all ...party) {
		for i := range all {
			var err error
			all[i].m, err = mutex.New(all[i].client, "jobs", mutex.WithLockDelay(delay))
			check(t, err)
		}
		f(all[0].T, all)
	})
}

// expire ends the session of a party, and returns the time.
func (p party) expire() time.Time {
	p.Helper()
	p.svc.Expire(p.session().ID())
	return time.Now()
}

// waiting is a Lock in a goroutine.
type waiting struct {
	done chan struct{}
	lock *mutex.Lock
	err  error
	at   time.Time
}

func (p party) begin(ctx context.Context) *waiting {
	w := &waiting{done: make(chan struct{})}
	go func() {
		w.lock, w.err = p.m.Lock(ctx)
		w.at = time.Now()
		close(w.done)
	}()
	synctest.Wait()
	return w
}

func (w *waiting) granted(t *testing.T) *mutex.Lock {
	t.Helper()
	if <-w.done; w.err != nil {
		t.Fatal(w.err)
	}
	return w.lock
}

// TestLostHolderIsSucceededAfterTheLockDelay, and one that releases at once.
func TestLostHolderIsSucceededAfterTheLockDelay(t *testing.T) {
	delayed(t, 3, func(t *testing.T, all []party) {
		a, b, c := all[0], all[1], all[2]
		l := a.lock()
		next, last := b.begin(t.Context()), c.begin(t.Context())
		time.Sleep(time.Second)
		lost := a.expire()
		if <-l.Context().Done(); !errors.Is(l.Err(), coordinator.ErrSessionLost) {
			t.Error(l.Err())
		}
		held := next.granted(t)
		if d := next.at.Sub(lost); d != delay {
			t.Errorf("granted %v after the loss", d)
		}
		time.Sleep(time.Minute)
		released := time.Now()
		b.unlock(held)
		held = last.granted(t)
		if d := last.at.Sub(released); d != 0 {
			t.Errorf("granted %v after a release", d)
		}
		c.unlock(held)
		for range 3 {
			began := time.Now()
			a.unlock(a.lock())
			if d := time.Since(began); d != 0 {
				t.Errorf("an uncontended pair takes %v", d)
			}
		}
	})
}

// TestLockDelayOutlivesItsWaiters: the first waiter is lost, gives up, or loses
// its entry, and the second waits for the same time.
func TestLockDelayOutlivesItsWaiters(t *testing.T) {
	for name, end := range map[string]func(b party, cancel func()){
		"lost":    func(b party, _ func()) { b.expire() },
		"gave up": func(_ party, cancel func()) { cancel() },
		"removed": func(b party, _ func()) { b.svc.Remove(queue, b.svc.Snapshot(queue)[0].ID) },
		"closed":  func(b party, _ func()) { _ = b.client.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			delayed(t, 3, func(t *testing.T, all []party) {
				a, b, c := all[0], all[1], all[2]
				a.lock()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				next, last := b.begin(ctx), c.begin(t.Context())
				lost := a.expire()
				time.Sleep(delay / 2)
				end(b, cancel)
				held := last.granted(t)
				if d := last.at.Sub(lost); d < delay || d > 2*delay {
					t.Errorf("granted %v after the loss", d)
				}
				if <-next.done; next.err == nil {
					t.Error("granted, although it was lost or had given up")
				}
				c.unlock(held)
			})
		})
	}
}

// TestRemovedWaiterIsNotifiedDuringTheLockDelay, and not when it is over.
func TestRemovedWaiterIsNotifiedDuringTheLockDelay(t *testing.T) {
	delayed(t, 2, func(t *testing.T, all []party) {
		a, b := all[0], all[1]
		a.lock()
		next := b.begin(t.Context())
		a.expire()
		time.Sleep(delay / 2)
		b.svc.Remove(queue, b.svc.Snapshot(queue)[0].ID)
		removed := time.Now()
		if <-next.done; !errors.Is(next.err, coordinator.ErrRemoved) || next.at.Sub(removed) > time.Second {
			t.Errorf("%v after the removal: %v", next.at.Sub(removed), next.err)
		}
	})
}

// TestRemovedWaiterIsNotGrantedAfterItsSuccessor: the notice of its removal is
// late, and it reads the note when its successor has held and released.
func TestRemovedWaiterIsNotGrantedAfterItsSuccessor(t *testing.T) {
	delayed(t, 2, func(t *testing.T, all []party) {
		a, b := all[0], all[1]
		a.lock()
		removed, next := b.begin(t.Context()), b.begin(t.Context())
		var watches, writes atomic.Int32
		b.svc.OnRequest(func(r memory.Request) memory.Fate {
			switch {
			case r.Op == memory.OpWatch && watches.Add(1) == 1: // of the own entry
				return memory.Fate{DelayReply: time.Minute}
			case r.Op == memory.OpSetRecord && writes.Add(1) == 1: // so its delay ends later
				return memory.Fate{DelayReply: time.Second / 2}
			}
			return memory.Fate{}
		})
		a.expire()
		time.Sleep(delay / 2)
		b.svc.Remove(queue, b.svc.Snapshot(queue)[0].ID)
		b.unlock(next.granted(t))
		if <-removed.done; !errors.Is(removed.err, coordinator.ErrRemoved) {
			t.Errorf("token %d after %d: %v", removed.lock.Token(), next.lock.Token(), removed.err)
		}
	})
}

// TestTryLockDuringTheLockDelay says why it fails, and leaves nothing.
func TestTryLockDuringTheLockDelay(t *testing.T) {
	delayed(t, 2, func(t *testing.T, all []party) {
		a, b := all[0], all[1]
		a.lock()
		a.expire()
		synctest.Wait()
		_, err := b.m.TryLock(t.Context())
		var rests *recipes.TakenError
		if !errors.Is(err, coordinator.ErrTaken) || !errors.As(err, &rests) ||
			rests.Delay != delay || rests.Name != "jobs" {
			t.Errorf("TryLock: %v", err)
		}
		synctest.Wait()
		if n := len(b.svc.Snapshot(queue)); n != 0 {
			t.Errorf("%d entries left", n)
		}
		l := b.lock()
		b.unlock(l)
		l, err = b.m.TryLock(t.Context())
		check(t, err)
		b.unlock(l)
	})
}

// TestLockDelayUnderLostRequestsAndReplies: a lost holder is never succeeded
// too early, and every contender is served.
func TestLockDelayUnderLostRequestsAndReplies(t *testing.T) {
	for seed := range uint64(200) {
		delayed(t, 3, func(t *testing.T, all []party) {
			r := rand.New(rand.NewPCG(seed, 7))
			all[0].svc.OnRequest(func(q memory.Request) (f memory.Fate) {
				if q.Op == memory.OpSetRecord || q.Op == memory.OpRecord ||
					q.Op == memory.OpLeave || q.Op == memory.OpJoin {
					switch r.IntN(6) {
					case 0:
						f.DropReply = true
					case 1:
						f.DropRequest = true
					}
				}
				return f
			})
			var lost time.Time
			for range 10 {
				p := all[r.IntN(len(all))]
				l, err := p.m.Lock(t.Context())
				check(t, err)
				if d := time.Since(lost); d < delay {
					t.Errorf("seed %d: granted %v after a loss", seed, d)
				}
				if r.IntN(2) == 0 {
					p.unlock(l)
				} else {
					lost = p.expire()
				}
			}
			all[0].svc.OnRequest(nil)
		})
	}
}

func TestLockDelayIsChecked(t *testing.T) {
	delayed(t, 1, func(t *testing.T, all []party) {
		c, errs := all[0].client, map[string]error{}
		for _, d := range []time.Duration{0, -1, time.Microsecond, recipes.MaxLockDelay + 1} {
			_, errs[fmt.Sprint("mutex, ", d)] = mutex.New(c, "jobs", mutex.WithLockDelay(d))
			_, errs[fmt.Sprint("election, ", d)] = election.New(c, "jobs", election.WithLockDelay(d))
		}
		_, errs["rwlock"] = rwlock.New(c, "jobs", recipes.WithLockDelay(delay))
		_, errs["semaphore"] = semaphore.New(c, "jobs", 1, recipes.WithLockDelay(delay))
		for what, err := range errs {
			if !errors.Is(err, coordinator.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestForeignNoteIsNamed: a foreign record at the name is not overwritten.
func TestForeignNoteIsNamed(t *testing.T) {
	delayed(t, 1, func(t *testing.T, all []party) {
		_, err := all[0].session().SetRecord(t.Context(), queue, []byte("mine"), 0)
		check(t, err)
		if _, err := all[0].m.Lock(t.Context()); !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("Lock: %v", err)
		}
	})
}

func TestElectionHasALockDelay(t *testing.T) {
	delayed(t, 2, func(t *testing.T, all []party) {
		var lost time.Time
		for _, p := range all {
			e, err := election.New(p.client, "office", election.WithLockDelay(delay))
			check(t, err)
			_, err = e.Campaign(t.Context(), nil)
			check(t, err)
			if d := time.Since(lost); d != delay && !lost.IsZero() {
				t.Errorf("elected %v after the loss", d)
			}
			lost = p.expire()
		}
	})
}

// TestAttemptsThatEndTooSoonAddUp: a contender that tries, or waits for less
// than the lock-delay, gets the lock when the delay has passed.
func TestAttemptsThatEndTooSoonAddUp(t *testing.T) {
	delayed(t, 2, func(t *testing.T, all []party) {
		a, b := all[0], all[1]
		for _, step := range []time.Duration{0, delay / 3} {
			a.lock()
			lost := a.expire()
			synctest.Wait()
			for {
				ctx, cancel := context.WithTimeout(b.Context(), step)
				take := b.m.TryLock
				if step > 0 {
					take = b.m.Lock
				} else {
					ctx = b.Context()
				}
				l, err := take(ctx)
				cancel()
				if err == nil {
					if d := time.Since(lost); d < delay || d > 2*delay {
						t.Errorf("granted %v after the loss, in steps of %v", d, step)
					}
					b.unlock(l)
					break
				}
				if time.Since(lost) > 10*delay {
					t.Fatalf("in steps of %v never: %v", step, err)
				}
				time.Sleep(time.Second)
			}
		}
	})
}

// TestLiveHolderIsNotMistakenForALostOne: an attempt whose session has ended
// reads the note of a live holder. Later attempts must not count from then.
func TestLiveHolderIsNotMistakenForALostOne(t *testing.T) {
	delayed(t, 2, func(t *testing.T, all []party) {
		a, b := all[0], all[1]
		for range 3 {
			l := a.lock()
			if _, err := b.m.TryLock(b.Context()); !errors.Is(err, coordinator.ErrTaken) {
				t.Fatal(err)
			}
			time.Sleep(2 * delay) // for which a holds
			if l.Err() != nil {
				t.Fatal(l.Err())
			}
			lost := a.expire()
			b.unlock(b.lock())
			if d := time.Since(lost); d < delay {
				t.Errorf("granted %v after the loss", d)
			}
		}
	})
}

// newcomer is a process that has just begun.
func newcomer(p party) party {
	p.Helper()
	p = join(p.T, p.svc)
	var err error
	p.m, err = mutex.New(p.client, "jobs", mutex.WithLockDelay(delay))
	check(p, err)
	return p
}

// attempts has a new process attempt the lock in each step, until it is
// granted, and returns how long after the loss that is.
func attempts(p party, lost time.Time, step time.Duration, between func(p party)) time.Duration {
	p.Helper()
	for time.Since(lost) < time.Hour {
		next := newcomer(p)
		take, ctx, cancel := next.m.TryLock, p.Context(), func() {}
		if step > 0 {
			take = next.m.Lock
			ctx, cancel = context.WithTimeout(ctx, step)
		}
		l, err := take(ctx)
		cancel()
		if err == nil {
			after := time.Since(lost)
			next.unlock(l)
			check(p, next.client.Close(p.Context()))
			return after
		}
		check(p, next.client.Close(p.Context()))
		between(p)
		time.Sleep(time.Second)
	}
	p.Errorf("not granted within an hour, in steps of %v", step)
	return time.Since(lost)
}

// TestLockDelayPassesForProcessesThatGiveUp: of several processes none lives as
// long as the delay.
func TestLockDelayPassesForProcessesThatGiveUp(t *testing.T) {
	for _, step := range []time.Duration{0, 50 * time.Millisecond, delay / 3} {
		delayed(t, 1, func(t *testing.T, all []party) {
			a := all[0]
			for range 2 {
				a.lock()
				lost := a.expire()
				synctest.Wait()
				if after := attempts(a, lost, step, func(party) {}); after < delay ||
					after > delay+time.Minute+delay/3+2*time.Second {
					t.Errorf("granted %v after the loss, in steps of %v", after, step)
				}
			}
		})
	}
}

// TestLockDelayIsNotShorterWhereClocksDiffer, by up to a minute, and ends if
// the clock that saw the loss is wrong.
func TestLockDelayIsNotShorterWhereClocksDiffer(t *testing.T) {
	for skew, longest := range map[time.Duration]time.Duration{
		-time.Minute:      delay + 2*time.Second,
		time.Minute:       delay + 2*time.Minute + 2*time.Second,
		10000 * time.Hour: delay + time.Minute + 3*time.Second,
	} {
		delayed(t, 1, func(t *testing.T, all []party) {
			a := all[0]
			a.lock()
			lost := a.expire()
			synctest.Wait()
			var once sync.Once
			after := attempts(a, lost, 0, func(p party) {
				once.Do(func() { // the first process has written when it saw the loss
					var note map[string]any
					r := p.svc.Record(queue)
					check(p, json.Unmarshal(r.Value, &note))
					note["seen_ms"] = time.Now().Add(skew).UnixMilli()
					value, err := json.Marshal(note)
					check(p, err)
					_, err = p.session().SetRecord(p.Context(), queue, value, r.Version)
					check(p, err)
				})
			})
			if after < delay || after > longest {
				t.Errorf("clock differs by %v: granted %v after the loss", skew, after)
			}
		})
	}
}

// TestCancelledLockLeavesNoNote: a Lock that is cancelled while it writes its
// note has not held, so the next contender need not wait. The request may be
// applied later.
func TestCancelledLockLeavesNoNote(t *testing.T) {
	for name, fate := range map[string]memory.Fate{
		"no reply":          {DelayReply: time.Second},
		"the reply is lost": {DropReply: true},
		"applied late":      {DelayRequest: 3 * time.Second},
	} {
		for _, used := range []bool{false, true} {
			delayed(t, 2, func(t *testing.T, all []party) {
				a, b := all[0], all[1]
				if used {
					b.unlock(b.lock())
				}
				a.session()
				ctx, cancel := context.WithTimeout(a.Context(), 55*time.Millisecond)
				defer cancel()
				var once sync.Once
				a.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
					if r.Op == memory.OpSetRecord && r.Driver == a.link {
						once.Do(func() { f = fate })
						if fate.DropReply {
							cancel()
						}
					}
					return f
				})
				l, err := a.m.Lock(ctx)
				if err == nil {
					t.Fatalf("%s: granted: %v", name, l.Token())
				}
				began := time.Now()
				b.unlock(b.lock())
				time.Sleep(5 * time.Second) // the late request arrives
				b.unlock(b.lock())
				if d := time.Since(began); d > 8*time.Second {
					t.Errorf("%s, used %v: the next holders waited %v", name, used, d-5*time.Second)
				}
			})
		}
	}
}

// TestLockDelayIsRoundedUp: the note has it in milliseconds.
func TestLockDelayIsRoundedUp(t *testing.T) {
	delayed(t, 2, func(t *testing.T, all []party) {
		const short = 1900 * time.Microsecond
		a, b := all[0], all[1]
		for _, p := range []*party{&a, &b} {
			var err error
			p.m, err = mutex.New(p.client, "jobs", mutex.WithLockDelay(short))
			check(t, err)
		}
		a.lock()
		lost := a.expire()
		b.unlock(b.lock())
		if d := time.Since(lost); d < short {
			t.Errorf("granted %v after the loss", d)
		}
	})
}

// TestLogSaysNothingOfAReleaseWhoseReplyWasLost: the note was cleared, so the
// next holder does not wait, and no line says that it does.
func TestLogSaysNothingOfAReleaseWhoseReplyWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		svc := memory.NewService()
		c, err := coordinator.New(svc.Driver(),
			coordinator.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		check(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		m, err := mutex.New(c, "jobs", mutex.WithLockDelay(delay))
		check(t, err)
		l, err := m.Lock(t.Context())
		check(t, err)
		svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{DropReply: true}))
		check(t, l.Unlock(t.Context()))
		l, err = m.TryLock(t.Context())
		check(t, err)
		check(t, l.Unlock(t.Context()))
		check(t, c.Close(t.Context()))
		if lines.Len() > 0 {
			t.Errorf("logged: %s", &lines)
		}
	})
}
