package mutex_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
)

const queue = driver.Queue("mutex/jobs")

// party is one client with its mutex on the world's service.
type party struct {
	*testing.T
	svc    *memory.Service
	link   *memory.Driver
	client *coordinator.Client
	m      *mutex.Mutex
}

// parties runs a test in virtual time with two clients of one service.
func parties(t *testing.T, f func(a, b party)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		a, b := join(t, svc), join(t, svc)
		f(a, b)
		for _, p := range []party{a, b} {
			if err := p.client.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
}

func join(t *testing.T, svc *memory.Service, opts ...coordinator.Option) party {
	t.Helper()
	p := party{T: t, svc: svc, link: svc.Driver()}
	var err error
	opts = append([]coordinator.Option{coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))}, opts...)
	if p.client, err = coordinator.New(p.link, opts...); err != nil {
		t.Fatal(err)
	}
	if p.m, err = mutex.New(p.client, "jobs"); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p party) lock() *mutex.Lock {
	p.Helper()
	l, err := p.m.Lock(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return l
}

func (p party) unlock(l *mutex.Lock) {
	p.Helper()
	if err := l.Unlock(p.Context()); err != nil {
		p.Error(err)
	}
}

func TestUncontendedLockAndUnlockAreOneRequestEach(t *testing.T) {
	parties(t, func(a, _ party) {
		a.unlock(a.lock()) // opens the session
		before := a.svc.Stats().Total()
		l := a.lock()
		if n := a.svc.Stats().Total() - before; n != 1 {
			a.Errorf("Lock took %d requests", n)
		}
		a.unlock(l)
		if n := a.svc.Stats().Total() - before; n != 2 {
			a.Errorf("Lock and Unlock took %d requests", n)
		}
	})
}

// TestGoroutinesOfOneClientExcludeEachOther: FIELD 26.
func TestGoroutinesOfOneClientExcludeEachOther(t *testing.T) {
	parties(t, func(a, b party) {
		a.link.Delay(3*time.Millisecond, 2*time.Millisecond)
		var wg sync.WaitGroup
		holders, grants := 0, 0 // guarded by the mutex under test: the race detector is a witness
		var last coordinator.Token
		for i := range 40 {
			p := a
			if i%4 == 0 {
				p = b
			}
			wg.Go(func() {
				for range 5 {
					l := p.lock()
					holders++
					if grants++; holders != 1 || l.Token() <= last {
						p.Errorf("%d holders, token %d after %d", holders, l.Token(), last)
					}
					last = l.Token()
					time.Sleep(time.Millisecond)
					holders--
					p.unlock(l)
				}
			})
		}
		wg.Wait()
		if grants != 200 {
			a.Errorf("%d grants", grants)
		}
	})
}

// TestReenteringCostsNoRequestAndCounts: FIELD 32: as many unlocks as locks.
func TestReenteringCostsNoRequestAndCounts(t *testing.T) {
	parties(t, func(a, b party) {
		outer := a.lock()
		before := a.svc.Stats().Total()
		inner, err := a.m.Lock(outer.Context())
		if err != nil {
			a.Fatal(err)
		}
		innermost, err := a.m.TryLock(inner.Context())
		if err != nil {
			a.Fatal(err)
		}
		if outer.Token() != inner.Token() || inner.Token() != innermost.Token() {
			a.Error("re-entering gave another token")
		}
		a.unlock(outer) // in any order
		a.unlock(innermost)
		if n := a.svc.Stats().Total() - before; n != 0 {
			a.Errorf("re-entering cost %d requests", n)
		}
		if inner.Err() != nil || inner.Context().Err() != nil {
			a.Errorf("held by the last handle, but %v", inner.Err())
		}
		if _, err := b.m.TryLock(b.Context()); !errors.Is(err, coordinator.ErrTaken) {
			a.Errorf("TryLock of another = %v", err)
		}
		a.unlock(inner)
		b.unlock(b.lock())
	})
}

func TestHandleIsUnlockedOnce(t *testing.T) {
	parties(t, func(a, b party) {
		outer := a.lock()
		inner, err := a.m.Lock(outer.Context())
		if err != nil {
			a.Fatal(err)
		}
		a.unlock(inner)
		// A second unlock of the inner handle must not release what the outer one holds.
		if err := inner.Unlock(a.Context()); !errors.Is(err, coordinator.ErrNotHeld) {
			a.Errorf("second Unlock = %v", err)
		}
		if outer.Err() != nil {
			a.Fatalf("outer: %v", outer.Err())
		}
		a.unlock(outer)
		next := b.lock()
		if err := outer.Unlock(a.Context()); !errors.Is(err, coordinator.ErrNotHeld) {
			a.Errorf("late Unlock = %v", err)
		}
		if next.Err() != nil || len(a.svc.Snapshot(queue)) != 1 {
			a.Error("a late Unlock released somebody else's hold")
		}
		b.unlock(next)
	})
}

func TestContextOfAReleasedLockDoesNotReenter(t *testing.T) {
	parties(t, func(a, _ party) {
		l := a.lock()
		a.unlock(l)
		if _, err := a.m.Lock(l.Context()); !errors.Is(err, coordinator.ErrReleased) {
			a.Errorf("Lock = %v, want the context's cause", err)
		}
		again, err := a.m.Lock(context.WithoutCancel(l.Context()))
		if err != nil || again.Token() <= l.Token() {
			a.Fatalf("Lock = %v, %v", again, err)
		}
		a.unlock(again)
	})
}

func TestHoldOfOneMutexDoesNotReenterAnother(t *testing.T) {
	parties(t, func(a, b party) {
		other, err := mutex.New(a.client, "other")
		if err != nil {
			a.Fatal(err)
		}
		l := a.lock()
		o, err := other.Lock(l.Context())
		if err != nil || o.Token() == l.Token() {
			a.Fatalf("%v, %v", o, err)
		}
		// Both holds are found from the innermost context.
		l2, err := a.m.Lock(o.Context())
		if err != nil || l2.Token() != l.Token() {
			a.Fatalf("%v, %v", l2, err)
		}
		// Another client's mutex of the same name is somebody else.
		if _, err := b.m.TryLock(o.Context()); !errors.Is(err, coordinator.ErrTaken) {
			a.Errorf("TryLock by another client with the holder's context = %v", err)
		}
		a.unlock(l2)
		a.unlock(o)
		a.unlock(l)
	})
}

// TestTryLockThatFailsSaysWhoAndLeavesNothing: FIELD 31.
func TestTryLockThatFailsSaysWhoAndLeavesNothing(t *testing.T) {
	parties(t, func(a, b party) {
		a.lock()
		b.session()
		before := a.svc.Stats()
		_, err := b.m.TryLock(b.Context())
		var taken *recipes.TakenError
		if !errors.As(err, &taken) || !errors.Is(err, coordinator.ErrTaken) {
			a.Fatalf("TryLock = %v", err)
		}
		if taken.Holder.Identity != a.client.Identity() || !strings.Contains(err.Error(), a.client.Identity()) ||
			time.Since(taken.Holder.Since) > time.Second || !taken.Holder.Holding {
			a.Errorf("TryLock says %v", err)
		}
		after := a.svc.Stats()
		if after.Entries != before.Entries || after.Watches != before.Watches || after.Wakeups != before.Wakeups {
			a.Errorf("TryLock left something: %+v, then %+v", before, after)
		}
	})
}

func (p party) session() *engine.Session {
	p.Helper()
	s, err := engine.Of(p.client).Session(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return s
}

// TestWaitBoundedByContextEndsWithItsCauseAndLeavesTheQueue: FIELD 9, 31 and 34: what ended the wait is never swallowed.
func TestWaitBoundedByContextEndsWithItsCauseAndLeavesTheQueue(t *testing.T) {
	mine := errors.New("mine")
	parties(t, func(a, b party) {
		l := a.lock()
		for _, c := range []struct {
			ctx  func() (context.Context, context.CancelFunc)
			want error
		}{
			{func() (context.Context, context.CancelFunc) { return context.WithTimeout(b.Context(), time.Second) }, context.DeadlineExceeded},
			{func() (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(b.Context(), time.Second, mine)
			}, mine},
			{func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(b.Context())
				time.AfterFunc(time.Second, func() { cancel(mine) })
				return ctx, func() { cancel(nil) }
			}, mine},
		} {
			ctx, cancel := c.ctx()
			_, err := b.m.Lock(ctx)
			if err != c.want { //nolint:errorlint // untouched means identical
				a.Errorf("Lock = %v, want %v itself", err, c.want)
			}
			cancel()
			synctest.Wait()
			if n := len(a.svc.Snapshot(queue)); n != 1 {
				a.Errorf("%d entries after the wait was given up", n)
			}
		}
		a.unlock(l)
	})
}

func TestBoundOfTheWaitDoesNotBoundTheHold(t *testing.T) {
	type key struct{}
	parties(t, func(a, _ party) {
		ctx, cancel := context.WithTimeout(context.WithValue(a.Context(), key{}, 7), time.Second)
		defer cancel()
		l, err := a.m.Lock(ctx)
		if err != nil {
			a.Fatal(err)
		}
		time.Sleep(time.Minute)
		if l.Err() != nil || l.Context().Err() != nil {
			a.Errorf("the hold ended with the bound of the wait: %v", l.Err())
		}
		if l.Context().Value(key{}) != 7 {
			a.Error("the hold's context has lost the values")
		}
		if left := time.Until(l.Deadline()); left < 5*time.Second || left > 10*time.Second {
			a.Errorf("deadline in %v", left)
		}
		a.unlock(l)
	})
}

// TestUnlockWithADeadContext: FIELD 14.
func TestUnlockWithADeadContext(t *testing.T) {
	parties(t, func(a, b party) {
		ctx, cancel := context.WithCancel(a.Context())
		l, err := a.m.Lock(ctx)
		if err != nil {
			a.Fatal(err)
		}
		cancel()
		a.link.Delay(10*time.Millisecond, 10*time.Millisecond) // else the answer may be quicker than the news that ctx is dead
		if err := l.Unlock(ctx); err != nil {
			a.Errorf("Unlock = %v", err)
		}
		b.unlock(b.lock())
	})
}

func TestLostHoldEndsBeforeTheNextIsGranted(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		var lostAt time.Time
		context.AfterFunc(l.Context(), func() { lostAt = time.Now() })
		time.Sleep(7 * time.Second)
		a.link.Cut()
		next := b.lock()
		granted := time.Now()
		synctest.Wait()
		if lostAt.IsZero() || !lostAt.Before(granted) {
			a.Errorf("told at %v, the next was granted at %v", lostAt, granted)
		}
		if err := l.Err(); !errors.Is(err, coordinator.ErrSessionLost) {
			a.Errorf("Err = %v", err)
		}
		a.link.Heal()
		if err := l.Unlock(a.Context()); !errors.Is(err, coordinator.ErrSessionLost) {
			a.Errorf("Unlock of a lost lock = %v", err)
		}
		time.Sleep(time.Minute)
		if next.Err() != nil {
			a.Errorf("the next holder was disturbed: %v", next.Err())
		}
		b.unlock(next)
		again := a.lock() // on a new session
		if again.Token() <= next.Token() {
			a.Errorf("token %d after %d", again.Token(), next.Token())
		}
		a.unlock(again)
	})
}

// TestRemovedEntryEndsTheHoldOnly: FIELD 12: to unlock what an operator has removed is an error that says so, and deletes nothing.
func TestRemovedEntryEndsTheHoldOnly(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		other, err := mutex.New(a.client, "other")
		if err != nil {
			a.Fatal(err)
		}
		o, err := other.Lock(a.Context())
		if err != nil {
			a.Fatal(err)
		}
		time.Sleep(time.Second)
		entry := a.svc.Snapshot(queue)[0]
		a.svc.Remove(queue, entry.Key)
		synctest.Wait()
		if cause := context.Cause(l.Context()); !errors.Is(cause, coordinator.ErrRemoved) {
			a.Errorf("cause %v", cause)
		}
		if o.Err() != nil {
			a.Errorf("the other hold of the session: %v", o.Err())
		}
		next := b.lock()
		if err := l.Unlock(a.Context()); !errors.Is(err, coordinator.ErrRemoved) {
			a.Errorf("Unlock = %v", err)
		}
		if next.Err() != nil || len(a.svc.Snapshot(queue)) != 1 {
			a.Error("Unlock of a removed hold deleted the next one")
		}
		b.unlock(next)
		a.unlock(o)
	})
}

// TestWaiterOfALostSessionReturnsAndNeverWins: FIELD 6.
func TestWaiterOfALostSessionReturnsAndNeverWins(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		got := make(chan error, 1)
		go func() {
			_, err := b.m.Lock(b.Context())
			got <- err
		}()
		synctest.Wait()
		b.svc.Expire(b.session().ID())
		synctest.Wait()
		select {
		case err := <-got:
			if !errors.Is(err, coordinator.ErrSessionLost) {
				a.Errorf("Lock = %v", err)
			}
		default:
			a.Error("the waiter did not notice the end of its session")
		}
		a.unlock(l)
		if n := len(a.svc.Snapshot(queue)); n != 0 {
			a.Errorf("%d entries", n)
		}
	})
}

func TestLockThatFindsItsSessionOverUsesANewOne(t *testing.T) {
	parties(t, func(a, _ party) {
		old := a.session().ID()
		a.link.HoldReplies() // so that the client does not hear of the expiry
		a.svc.Expire(old)
		time.AfterFunc(time.Second, a.link.Heal)
		l := a.lock()
		if id := a.session().ID(); id == old || l.Err() != nil {
			a.Errorf("session %s, then %s: %v", old, id, l.Err())
		}
		a.unlock(l)
	})
}

// TestGrantThatArrivesAfterTheSessionEndedIsNone: FIELD 5 and 6.
func TestGrantThatArrivesAfterTheSessionEndedIsNone(t *testing.T) {
	parties(t, func(a, b party) {
		b.session()
		b.link.HoldReplies()
		got := make(chan error, 1)
		go func() {
			_, err := b.m.Lock(b.Context()) // granted at the service, unheard
			got <- err
		}()
		time.Sleep(time.Minute)
		b.link.Heal()
		if err := <-got; !errors.Is(err, coordinator.ErrSessionLost) {
			a.Errorf("Lock = %v", err)
		}
		a.unlock(a.lock())
	})
}

// TestCancelledWaiterInTheMiddleKeepsTheOrder: FIELD 29.
func TestCancelledWaiterInTheMiddleKeepsTheOrder(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		ctx, cancel := context.WithCancel(b.Context())
		order := make(chan string, 3)
		var wg sync.WaitGroup
		wait := func(ctx context.Context, p party, name string) {
			wg.Go(func() {
				if w, err := p.m.Lock(ctx); err == nil {
					order <- name
					p.unlock(w)
				}
			})
			synctest.Wait()
		}
		wait(ctx, b, "cancelled")
		wait(b.Context(), b, "first")
		wait(a.Context(), a, "second")
		cancel()
		synctest.Wait()
		if len(order) != 0 {
			a.Fatal("granted while the lock is held: the predecessor left without ever holding")
		}
		a.unlock(l)
		if x, y := <-order, <-order; x != "first" || y != "second" {
			a.Errorf("order %s, %s", x, y)
		}
		wg.Wait()
	})
}

// TestReleaseWakesOneOfAThousand: FIELD 29.
func TestReleaseWakesOneOfAThousand(t *testing.T) {
	parties(t, func(a, b party) {
		const n = 1000
		l := a.lock()
		var wg sync.WaitGroup
		served := 0
		var last coordinator.Token
		for i := range n {
			p := a
			if i%2 == 0 {
				p = b
			}
			wg.Go(func() {
				w := p.lock()
				served++
				if w.Token() <= last {
					p.Errorf("token %d after %d", w.Token(), last)
				}
				last = w.Token()
				p.unlock(w)
			})
			synctest.Wait()
		}
		before := a.svc.Stats()
		a.unlock(l)
		wg.Wait()
		if wakeups := a.svc.Stats().Wakeups - before.Wakeups; served != n || wakeups != n {
			a.Errorf("%d served with %d wake-ups", served, wakeups)
		}
	})
}

func TestContendersAreListedInOrder(t *testing.T) {
	parties(t, func(a, b party) {
		if list, err := a.m.Contenders(a.Context()); err != nil || len(list) != 0 {
			a.Errorf("nobody: %v, %v", list, err)
		}
		m, err := mutex.New(a.client, "jobs", mutex.WithIdentity("alice"), mutex.WithPayload([]byte("batch 7")))
		if err != nil {
			a.Fatal(err)
		}
		l, err := m.Lock(a.Context())
		if err != nil {
			a.Fatal(err)
		}
		time.Sleep(time.Minute)
		var wg sync.WaitGroup
		wg.Go(func() { b.unlock(b.lock()) })
		synctest.Wait()
		list, err := b.m.Contenders(b.Context())
		if err != nil || len(list) != 2 {
			a.Fatalf("%v, %v", list, err)
		}
		h, w := list[0], list[1]
		if h.Identity != "alice" || !bytes.Equal(h.Payload, []byte("batch 7")) || !h.Holding || h.Token != l.Token() ||
			h.Session != a.session().ID() || time.Since(h.Since) != time.Minute {
			a.Errorf("holder is listed as %+v", h)
		}
		if w.Identity != b.client.Identity() || w.Holding || w.Token <= h.Token || time.Since(w.Since) != 0 {
			a.Errorf("waiter is listed as %+v", w)
		}
		a.unlock(l)
		wg.Wait()
	})
}

func TestDeadHolderIsSucceededWithinTheTTL(t *testing.T) {
	parties(t, func(a, b party) {
		a.lock()
		time.Sleep(33 * time.Second)
		a.link.Cut() // as good as dead
		began := time.Now()
		b.unlock(b.lock())
		if took := time.Since(began); took > coordinator.DefaultTTL {
			a.Errorf("succeeded after %v", took)
		}
		a.link.Reset()
		a.link.Heal()
	})
}

func TestCloseHandsOverAtOnce(t *testing.T) {
	parties(t, func(a, b party) {
		l := a.lock()
		waiting := make(chan error, 1)
		go func() {
			_, err := a.m.Lock(a.Context())
			waiting <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := a.client.Close(a.Context()); err != nil {
			a.Error(err)
		}
		b.unlock(b.lock())
		if took := time.Since(began); took != 0 {
			a.Errorf("the next holder waited %v", took)
		}
		if err := <-waiting; !errors.Is(err, coordinator.ErrClosed) {
			a.Errorf("waiter got %v", err)
		}
		if !errors.Is(context.Cause(l.Context()), coordinator.ErrClosed) {
			a.Errorf("cause %v", context.Cause(l.Context()))
		}
		if err := l.Unlock(a.Context()); !errors.Is(err, coordinator.ErrClosed) {
			a.Errorf("Unlock after Close = %v", err)
		}
	})
}

func TestBadInputIsRefusedAtConstruction(t *testing.T) {
	parties(t, func(a, _ party) {
		for rule, build := range map[string]func() (*mutex.Mutex, error){
			"nil client":    func() (*mutex.Mutex, error) { return mutex.New(nil, "jobs") },
			"name is empty": func() (*mutex.Mutex, error) { return mutex.New(a.client, "") },
			"\"a//b\"":      func() (*mutex.Mutex, error) { return mutex.New(a.client, "a//b") },
			"nil option":    func() (*mutex.Mutex, error) { return mutex.New(a.client, "jobs", nil) },
			"4097 bytes": func() (*mutex.Mutex, error) {
				return mutex.New(a.client, "jobs", mutex.WithPayload(make([]byte, 4097)))
			},
			"control": func() (*mutex.Mutex, error) { return mutex.New(a.client, "jobs", mutex.WithIdentity("a\x00")) },
			"256 bytes; 1 to ": func() (*mutex.Mutex, error) {
				return mutex.New(a.client, "jobs", mutex.WithIdentity(strings.Repeat("x", 256)))
			},
		} {
			if _, err := build(); !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), rule) {
				a.Errorf("New = %v, want ErrInvalid with %q", err, rule)
			}
		}
	})
}
