package barrier_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/barrier"
)

const queue = driver.Queue("barrier/gate")

// world is a service in virtual time.
type world struct {
	*testing.T
	svc *memory.Service
}

// inWorld fails if a session, an entry, a watch or a goroutine is left.
func inWorld(t *testing.T, f func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService()}
		t.Cleanup(func() {
			time.Sleep(time.Minute) // a session whose opening had no reply ends
			if s := w.svc.Stats(); s.Entries != 0 || s.Watches != 0 || s.Sessions != 0 {
				t.Errorf("left behind: %+v", s)
			}
		})
		f(w)
	})
}

// party is a client with its barrier.
type party struct {
	world
	link   *memory.Driver
	client *coordinator.Client
	*barrier.Barrier
}

func (w world) join() party {
	link := w.svc.Driver()
	return w.joinBy(link, link)
}

// joinBehind is join by a server that is behind.
func (w world) joinBehind(h *history) party {
	link := w.svc.Driver()
	return w.joinBy(link, lag{link, h})
}

func (w world) joinBy(link *memory.Driver, d driver.Driver) party {
	w.Helper()
	p := party{world: w, link: link}
	var err error
	p.client, err = coordinator.New(d, coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		p.Barrier, err = barrier.New(p.client, "gate")
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		w.svc.OnRequest(nil)
		w.svc.Start()
		p.link.Heal()
		if err := p.client.Close(context.Background()); err != nil {
			w.Errorf("close: %v", err)
		}
	})
	return p
}

func (p party) set() {
	p.Helper()
	if err := p.Set(p.Context()); err != nil {
		p.Fatalf("set: %v", err)
	}
}

func (p party) remove() {
	p.Helper()
	if err := p.Remove(p.Context()); err != nil {
		p.Fatalf("remove: %v", err)
	}
}

// waits starts a Wait.
func (p party) waits(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.Wait(ctx) }()
	synctest.Wait()
	return done
}

func (w world) blocked(waits ...<-chan error) {
	w.Helper()
	synctest.Wait()
	for i, c := range waits {
		select {
		case err := <-c:
			w.Errorf("wait %d returned %v", i, err)
		default:
		}
	}
}

func (w world) open(waits ...<-chan error) {
	w.Helper()
	synctest.Wait()
	for i, c := range waits {
		select {
		case err := <-c:
			if err != nil {
				w.Errorf("wait %d: %v", i, err)
			}
		default:
			w.Errorf("wait %d is blocked", i)
		}
	}
}

func TestWaitersPassWhenTheBarrierIsRemoved(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		w.open(a.waits(w.Context())) // before the first Set
		a.set()
		a.set()
		one, two := a.waits(w.Context()), b.waits(w.Context())
		w.blocked(one, two)
		b.remove()
		b.remove()
		w.open(one, two, a.waits(w.Context()))
	})
}

// TestRemoveWakesEachWaiterOnce, without a request of it.
func TestRemoveWakesEachWaiterOnce(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.set()
		var waits []<-chan error
		for range 20 {
			waits = append(waits, w.join().waits(w.Context()))
		}
		before := w.svc.Stats()
		a.set() // changes nothing
		w.blocked(waits...)
		a.remove()
		w.open(waits...)
		s := w.svc.Stats().Since(before)
		if s.Wakeups != 20 || s.Requests[memory.OpRecord] != 2 || s.Requests[memory.OpSetRecord] != 3 {
			w.Errorf("%d wake-ups, requests %v", s.Wakeups, s.Requests)
		}
	})
}

// TestRemovedAndSetAgainAtOnce: those that waited pass.
func TestRemovedAndSetAgainAtOnce(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		a.set()
		b.link.Delay(0, time.Second)
		wait := b.waits(w.Context())
		time.Sleep(5 * time.Second)
		b.link.Cut()
		a.remove()
		a.set()
		b.link.Heal()
		time.Sleep(5 * time.Second)
		w.open(wait)
		second := b.waits(w.Context())
		time.Sleep(5 * time.Second)
		w.blocked(second)
		a.remove()
		time.Sleep(5 * time.Second)
		w.open(second)
	})
}

// TestOpeningIsNoticedAfterALostSession, although the barrier is set again when
// the waiter reads it.
func TestOpeningIsNoticedAfterALostSession(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		a.set()
		wait := b.waits(w.Context())
		time.Sleep(time.Second)
		b.link.Cut()
		time.Sleep(time.Minute)
		a.remove()
		a.set()
		b.link.Heal()
		time.Sleep(time.Minute)
		w.open(wait)
	})
}

// TestBarrierStaysSetWhenSessionsEnd, and waiters go on waiting.
func TestBarrierStaysSetWhenSessionsEnd(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		a.set()
		wait := b.waits(w.Context())
		a.link.Expire()
		b.link.Expire()
		time.Sleep(time.Minute)
		w.blocked(wait)
		a.remove()
		w.open(wait)
	})
}

// TestCancelledWaiter leaves no watch after the next change.
func TestCancelledWaiter(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.set()
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(w.Context())
		wait := a.waits(ctx)
		cancel(cause)
		if err := <-wait; err != cause { //nolint:errorlint // unchanged
			w.Errorf("got %v", err)
		}
		synctest.Wait()
		if s := w.svc.Stats(); s.Watches != 0 || s.Entries != 0 {
			w.Errorf("left behind: %+v", s)
		}
		ctx, stop := context.WithTimeout(w.Context(), time.Second)
		defer stop()
		a.link.Cut()
		began := time.Now()
		for _, err := range []error{a.Set(ctx), a.Remove(ctx), a.Wait(ctx)} {
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
				w.Errorf("%v after %v", err, time.Since(began))
			}
		}
	})
}

// TestLostRepliesOfChanges: the call returns when the barrier has been in the
// wanted state, also if another client has changed it since.
func TestLostRepliesOfChanges(t *testing.T) {
	for _, lost := range []memory.Fate{{DropReply: true}, {DropRequest: true}} {
		for others := range 3 {
			inWorld(t, func(w world) {
				a, b := w.join(), w.join()
				a.set()
				w.svc.OnRequest(nth(2, memory.OpSetRecord, lost))
				done := make(chan struct{})
				go func() { defer close(done); a.remove() }()
				synctest.Wait()
				for range others {
					b.remove()
					b.set()
				}
				<-done
				if lost.DropReply && others > 0 != (a.state() == "set") || others == 0 && a.state() != "open" {
					w.Errorf("%+v, %d changes since: %s", lost, others, a.state())
				}
			})
		}
	}
}

// nth gives a fate to the nth request of an operation. The first SetRecord of a
// change is that of LatestRecord.
func nth(n int32, op memory.Op, fate memory.Fate) func(memory.Request) memory.Fate {
	var seen atomic.Int32
	return func(r memory.Request) memory.Fate {
		if r.Op == op && seen.Add(1) == n {
			return fate
		}
		return memory.Fate{}
	}
}

func (p party) state() string {
	ctx, cancel := context.WithTimeout(p.Context(), time.Second)
	defer cancel()
	if p.Wait(ctx) != nil {
		return "set"
	}
	return "open"
}

// TestErrorOfAChangeSaysWhetherItMayBeApplied.
func TestErrorOfAChangeSaysWhetherItMayBeApplied(t *testing.T) {
	for _, c := range []struct {
		nth   int32
		op    memory.Op
		maybe bool
	}{{1, memory.OpSetRecord, false}, {1, memory.OpRecord, false}, {2, memory.OpSetRecord, true}} {
		inWorld(t, func(w world) {
			a := w.join()
			a.set()
			w.svc.OnRequest(nth(c.nth, c.op, memory.Fate{DelayReply: time.Minute}))
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			defer cancel()
			if err := a.Remove(ctx); err == nil || coordinator.MayHaveApplied(err) != c.maybe {
				w.Errorf("%s %d: %v", c.op, c.nth, err)
			}
		})
	}
}

func TestForeignRecordIsNamed(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		s, err := w.svc.Driver().Open(w.Context(), time.Minute)
		if err == nil {
			_, err = s.SetRecord(w.Context(), queue, []byte(`{"limit":4}`), 0)
		}
		if err == nil {
			err = s.Close(w.Context())
		}
		if err != nil {
			w.Fatal(err)
		}
		for _, err := range []error{a.Set(w.Context()), a.Remove(w.Context()), a.Wait(w.Context())} {
			if !errors.Is(err, coordinator.ErrRefused) || !strings.Contains(err.Error(), `{\"limit\":4}`) {
				w.Errorf("got %v", err)
			}
		}
		w.svc.RemoveRecord(queue)
		a.set()
		wait := a.waits(w.Context())
		w.svc.RemoveRecord(queue) // opens it
		w.open(wait)
	})
}

// TestChangeThatIsOvertakenAgainAndAgainPauses: a service that refuses each
// write at once gets few requests.
func TestChangeThatIsOvertakenAgainAndAgainPauses(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		w.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Op == memory.OpSetRecord {
				f.Err = driver.ErrStale
			}
			return f
		})
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		before := w.svc.Stats()
		if err := a.Set(ctx); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("got %v", err)
		}
		if n := w.svc.Stats().Since(before).Requests[memory.OpRecord]; n < 20 || n > 300 {
			w.Errorf("%d attempts in a minute", n)
		}
		w.svc.OnRequest(nil)
	})
}
