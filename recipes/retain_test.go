package recipes_test

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
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

var exclusive, try = recipes.Request{Op: "lock", Mode: "x"}, recipes.Request{Op: "try-lock", Mode: "x", Try: true}

const retained = 10 * time.Second

// retaining runs a test with two clients, both of which keep their turns.
func retaining(t *testing.T, f func(w world), opts ...coordinator.Option) {
	t.Helper()
	inWorld(t, func(w world) {
		w.a.queue, w.b.queue = w.retain(w.a), w.retain(w.b)
		f(w)
	}, opts...)
}

func (w world) retain(p party, opts ...recipes.Option) *recipes.Queue {
	w.Helper()
	q, err := recipes.NewQueue(p.client, "test", "queue",
		append([]recipes.Option{recipes.WithRetain(retained)}, opts...)...)
	check(w, err)
	return q
}

// once acquires and releases, and returns the token.
func (w world) once(p party) coordinator.Token {
	w.Helper()
	h := w.hold(p, w.Context(), exclusive)
	w.release(h)
	return h.Token()
}

// waiter is a goroutine that acquires, works, and releases.
type waiter struct {
	hold  *recipes.Hold
	err   error
	began time.Time
	at    time.Duration // when it was granted, after that
	when  time.Time
	done  chan struct{}
}

// queued starts one, and waits until all goroutines are blocked.
//
//nolint:revive // the party first
func (w world) queued(p party, ctx context.Context, work time.Duration) *waiter {
	x := &waiter{done: make(chan struct{}), began: time.Now()}
	go func() {
		defer close(x.done)
		if x.hold, x.err = p.queue.Acquire(ctx, exclusive); x.err == nil {
			x.when = time.Now()
			x.at = x.when.Sub(x.began)
			time.Sleep(work)
			w.release(x.hold)
		}
	}()
	synctest.Wait()
	return x
}

func (w world) entries(want int) {
	w.Helper()
	if got := w.svc.Stats().Entries; got != want {
		w.Errorf("%d entries, want %d", got, want)
	}
}

func TestRelockOfAKeptTurnSendsNoRequest(t *testing.T) {
	retaining(t, func(w world) {
		first := w.once(w.a)
		synctest.Wait()
		before := w.svc.Stats()
		for range 100 {
			if token := w.once(w.a); token != first {
				w.Fatalf("token %d after %d", token, first)
			}
		}
		synctest.Wait()
		if n := w.svc.Stats().Since(before).Total(); n != 0 {
			w.Errorf("100 locks sent %d requests", n)
		}
		w.entries(1)
	})
}

func TestSingleShortHoldCostsNoWatch(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.a, w.Context(), exclusive)
		synctest.Wait()
		if n := w.svc.Stats().Watches; n != 0 {
			w.Errorf("%d watches", n)
		}
		w.release(h)
	})
}

func TestKeptTurnIsPassedOnAtOnce(t *testing.T) {
	retaining(t, func(w world) {
		first := w.once(w.a)
		began := time.Now()
		if token := w.once(w.b); token <= first || time.Since(began) != 0 {
			w.Errorf("token %d after %d, after %v", token, first, time.Since(began))
		}
	})
}

func TestKeptTurnEndsAfterItsTime(t *testing.T) {
	retaining(t, func(w world) {
		w.once(w.a)
		time.Sleep(retained - 1)
		w.once(w.a) // the time begins anew
		time.Sleep(retained - 1)
		synctest.Wait()
		w.entries(1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		w.entries(0)
	})
}

// TestCallersOfAProcessTakeTurnsInOrder, under one entry.
func TestCallersOfAProcessTakeTurnsInOrder(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.a, w.Context(), exclusive)
		var all []*waiter
		for range 5 {
			all = append(all, w.queued(w.a, w.Context(), time.Millisecond))
		}
		w.entries(1)
		w.release(h)
		for i, x := range all {
			<-x.done
			if want := time.Duration(i) * time.Millisecond; x.err != nil || x.at != want || x.hold.Token() != h.Token() {
				w.Errorf("%d: at %v, want %v: %v", i, x.at, want, x.err)
			}
		}
	})
}

// TestNobodyIsOvertakenByLaterCallers: once another client waits, callers that
// come join the queue behind it.
func TestNobodyIsOvertakenByLaterCallers(t *testing.T) {
	retaining(t, func(w world) {
		w.once(w.a)
		h := w.hold(w.a, w.Context(), exclusive)
		early := w.queued(w.a, w.Context(), time.Millisecond)
		other := w.queued(w.b, w.Context(), time.Millisecond)
		late := w.queued(w.a, w.Context(), time.Millisecond)
		w.release(h)
		<-late.done
		if early.at != 0 || other.at != time.Millisecond || late.at != 2*time.Millisecond {
			w.Errorf("granted at %v, %v, %v", early.at, other.at, late.at)
		}
	})
}

// TestLineIsServedForALimitedTime after another client was seen: for 10 ms or
// two holds. The rest of the local queue keeps its order, in front of later
// callers.
func TestLineIsServedForALimitedTime(t *testing.T) {
	for _, c := range []struct{ work, want time.Duration }{
		{time.Millisecond, 10 * time.Millisecond},
		{12 * time.Millisecond, 24 * time.Millisecond},
	} {
		retaining(t, func(w world) {
			w.once(w.a)
			h := w.hold(w.a, w.Context(), exclusive)
			var waiting []*waiter
			for range 20 {
				waiting = append(waiting, w.queued(w.a, w.Context(), c.work))
			}
			time.Sleep(c.work)
			w.release(h) // so the watch is there
			other := w.queued(w.b, w.Context(), c.work)
			waiting = append(waiting, w.queued(w.a, w.Context(), c.work))
			for i, x := range waiting {
				<-x.done
				if x.err != nil || i > 0 && !x.when.After(waiting[i-1].when) {
					w.Errorf("%d: out of order: %v", i, x.err)
				}
			}
			if other.at != c.want {
				w.Errorf("holds of %v: the other client waited for %v, want %v", c.work, other.at, c.want)
			}
			if last := waiting[20].hold.Token(); last < other.hold.Token() {
				w.Errorf("tokens %d and %d", last, other.hold.Token())
			}
		})
	}
}

// TestContenderThatJoinsAtAnyMomentIsSeen: a client joins while the other's
// turn is being won, handed over, released, kept or passed on.
func TestContenderThatJoinsAtAnyMomentIsSeen(t *testing.T) {
	for at := range 40 {
		retaining(t, func(w world) {
			const unit = 100 * time.Microsecond
			w.a.link.Delay(3*unit, 2*unit)
			w.b.link.Delay(2*unit, 3*unit)
			for range 2 {
				w.queued(w.a, w.Context(), 4*unit)
			}
			time.Sleep(time.Duration(at) * unit)
			b := w.queued(w.b, w.Context(), 0)
			time.Sleep(20 * time.Millisecond)
			select {
			case <-b.done:
			default:
				w.Errorf("%d: the other client waits on", at)
				<-b.done
			}
		})
	}
}

// TestNamesThatBounceAreNotKept: a turn that is asked back before a second
// caller had it is kept again only after a pause, which doubles.
func TestNamesThatBounceAreNotKept(t *testing.T) {
	retaining(t, func(w world) {
		w.b.queue, _ = recipes.NewQueue(w.b.client, "test", "queue")
		kept := func() bool {
			w.once(w.a)
			synctest.Wait()
			return w.svc.Stats().Entries > 0
		}
		const firstPause = 30 * time.Second
		for _, pause := range []time.Duration{firstPause, time.Minute, 2 * time.Minute,
			4 * time.Minute, 8 * time.Minute, 8 * time.Minute} {
			if !kept() {
				w.Fatalf("before the pause of %v: not kept", pause)
			}
			w.once(w.b)
			if kept() {
				w.Errorf("kept right after it was asked back")
			}
			time.Sleep(pause - 1)
			if kept() {
				w.Errorf("kept before the end of the pause of %v", pause)
			}
			time.Sleep(time.Nanosecond)
		}
		w.once(w.a) // now it pays, and the pause begins anew
		w.once(w.a)
		w.once(w.b)
		if !kept() {
			w.Error("a turn that has paid is not kept")
		}
		w.once(w.b)
		time.Sleep(firstPause)
		if !kept() {
			w.Errorf("not kept %v after it was asked back", firstPause)
		}
	})
}

// TestCallerThatBeganTheJoinGivesUpAlone: the join is for all callers.
func TestCallerThatBeganTheJoinGivesUpAlone(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.b, w.Context(), exclusive)
		ctx, cancel := context.WithCancelCause(w.Context())
		leader, second := w.queued(w.a, ctx, 0), w.queued(w.a, w.Context(), 0)
		w.entries(2)
		place := w.svc.Snapshot(name)[1].Place
		why := errors.New("given up")
		cancel(why)
		<-leader.done
		synctest.Wait()
		if !errors.Is(leader.err, why) || w.svc.Snapshot(name)[1].Place != place {
			w.Errorf("error %v", leader.err)
		}
		w.release(h)
		if <-second.done; second.err != nil {
			w.Error(second.err)
		}
	})
}

func TestLastCallerThatGivesUpLeavesNothing(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.b, w.Context(), exclusive)
		ctx, cancel := context.WithCancel(w.Context())
		one, two := w.queued(w.a, ctx, 0), w.queued(w.a, ctx, 0)
		cancel()
		<-one.done
		<-two.done
		wantErr(w.T, one.err, context.Canceled)
		wantErr(w.T, two.err, context.Canceled)
		synctest.Wait()
		w.entries(1)
		next := w.queued(w.a, w.Context(), 0) // is not given the end of the others
		w.release(h)
		if <-next.done; next.err != nil {
			w.Error(next.err)
		}
	})
}

// TestCallersSayWhetherTheServiceAnswers, whether they are the last or not.
func TestCallersSayWhetherTheServiceAnswers(t *testing.T) {
	retaining(t, func(w world) {
		w.a.link.HoldRequests()
		one := w.queued(w.a, w.bounded(time.Second), 0)
		two := w.queued(w.a, w.bounded(2*time.Second), 0)
		<-one.done
		<-two.done
		for _, x := range []*waiter{one, two} {
			wantErr(w.T, x.err, coordinator.ErrUnavailable, context.DeadlineExceeded)
		}
		w.a.link.Deliver()
	})
}

// TestCallerOfALineGivesUp while another one holds, or gets the turn at that
// moment.
func TestCallerOfALineGivesUp(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.a, w.Context(), exclusive)
		gone := w.queued(w.a, w.bounded(time.Second), 0)
		next := w.queued(w.a, w.Context(), 0)
		<-gone.done
		wantErr(w.T, gone.err, context.DeadlineExceeded)
		same := w.queued(w.a, w.bounded(time.Second), 0)
		time.Sleep(time.Second)
		w.release(h)
		<-next.done
		<-same.done
		w.once(w.a)
	})
}

func TestTryOfAnotherClientGetsAnIdleTurn(t *testing.T) {
	for _, option := range []bool{true, false} {
		retaining(t, func(w world) {
			if !option {
				w.b.queue, _ = recipes.NewQueue(w.b.client, "test", "queue")
			}
			w.a.link.Delay(time.Millisecond, time.Millisecond)
			w.once(w.a)
			w.release(w.hold(w.b, w.Context(), try))
		})
	}
}

// TestTryOfAnotherClientGivesUpSoon if the turn is in use, and leaves nothing.
func TestTryOfAnotherClientGivesUpSoon(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.a, w.Context(), exclusive)
		began := time.Now()
		_, err := w.b.queue.Acquire(w.Context(), try)
		var taken *recipes.TakenError
		if !errors.As(err, &taken) || !taken.Holder.Retains || taken.Holder.Token != h.Token() {
			w.Errorf("error %v", err)
		}
		if d := time.Since(began); d != 100*time.Millisecond {
			w.Errorf("it waited for %v", d)
		}
		synctest.Wait()
		w.entries(1)
		_, err = w.a.queue.Acquire(w.Context(), try) // of this client: no request
		if d := time.Since(began); !errors.As(err, &taken) || d != 100*time.Millisecond || taken.Holder.Token != h.Token() {
			w.Errorf("own: %v after %v", err, d)
		}
		w.release(h)
		w.release(w.hold(w.a, w.Context(), try))
	})
}

func TestTryDoesNotAskBehindAnother(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.a, w.Context(), exclusive)
		other := w.queued(w.b, w.Context(), 0)
		began := time.Now()
		q, err := recipes.NewQueue(w.b.client, "test", "queue")
		check(w, err)
		_, err = q.Acquire(w.Context(), try)
		wantErr(w.T, err, coordinator.ErrTaken)
		if time.Since(began) != 0 {
			w.Error("it waited")
		}
		w.release(h)
		<-other.done
	})
}

func TestContextOfAReleasedGrantDoesNotReenterALaterOne(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.a, w.Context(), exclusive)
		w.release(h)
		if h.Context().Err() == nil || !errors.Is(h.Err(), coordinator.ErrReleased) {
			w.Error("the hold lasts")
		}
		later := w.hold(w.a, w.Context(), exclusive)
		ctx, cancel := context.WithTimeout(context.WithValue(w.Context(), dummy{}, 1), time.Second)
		defer cancel()
		if key, value, ok := recipes.Carried(h.Context()); ok {
			ctx = context.WithValue(ctx, key, value)
		}
		_, err := w.a.queue.Acquire(ctx, exclusive)
		wantErr(w.T, err, context.DeadlineExceeded)
		inner := w.hold(w.a, later.Context(), exclusive)
		w.release(inner)
		wantErr(w.T, later.Err())
		w.release(later)
	})
}

type dummy struct{}

// TestIdleTurnThatIsLostIsNoLossOfAHold, and the callers of the local queue of
// a lost turn go on with the next session.
func TestIdleTurnThatIsLostIsNoLossOfAHold(t *testing.T) {
	tally := new(memory.Tally)
	retaining(t, func(w world) {
		first := w.once(w.a)
		synctest.Wait()
		w.svc.Expire(w.svc.Sessions()[0])
		synctest.Wait()
		if n := tally.Count(event.Lost); n != 0 {
			w.Errorf("%d holds lost", n)
		}
		h := w.hold(w.a, w.Context(), exclusive)
		if h.Token() <= first {
			w.Errorf("token %d after %d", h.Token(), first)
		}
		next := w.queued(w.a, w.Context(), 0)
		w.svc.Expire(h.Session())
		<-next.done
		synctest.Wait() // observers are called from a queue
		if n := tally.Count(event.Lost); n != 1 || next.err != nil || next.hold.Token() <= h.Token() {
			w.Errorf("%d holds lost; error %v", n, next.err)
		}
		wantErr(w.T, h.Release(w.Context()), coordinator.ErrSessionLost)
	}, coordinator.WithObserver(tally))
	if k, g := tally.Count(event.Kept), tally.Count(event.GivenUp); k != g || k == 0 {
		t.Errorf("%d turns kept, %d given up", k, g)
	}
}

func TestRemovedIdleTurnIsLeft(t *testing.T) {
	tally := new(memory.Tally)
	retaining(t, func(w world) {
		w.once(w.a)
		synctest.Wait()
		w.svc.Remove(name, w.svc.Snapshot(name)[0].Key)
		synctest.Wait()
		w.once(w.a)
		w.entries(1)
		if n := tally.Count(event.Lost); n != 0 {
			w.Errorf("%d holds lost", n)
		}
	}, coordinator.WithObserver(tally))
}

// TestNoGrantOfAKeptTurnWhileTheSessionIsSuspended: the caller waits for the
// service, and gets the name when it answers again.
func TestNoGrantOfAKeptTurnWhileTheSessionIsSuspended(t *testing.T) {
	retaining(t, func(w world) {
		first := w.once(w.a)
		w.svc.Stop()
		time.Sleep(5 * time.Second)
		x := w.queued(w.a, w.Context(), 0)
		select {
		case <-x.done:
			w.Error("granted while the service is away")
		default:
		}
		w.svc.Start()
		if <-x.done; x.err != nil || x.hold.Token() <= first {
			w.Errorf("error %v", x.err)
		}
	})
}

// TestClientThatIsCutOffKeepsOthersOutForItsTTL, and no longer.
func TestClientThatIsCutOffKeepsOthersOutForItsTTL(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.a, w.Context(), exclusive)
		by := time.Until(h.Deadline())
		w.release(h)
		w.a.link.Cut()
		b := w.queued(w.b, w.Context(), 0)
		<-b.done
		if b.err != nil || b.at < by || b.at > 2*by {
			w.Errorf("granted after %v, the deadline was after %v: %v", b.at, by, b.err)
		}
		w.a.link.Heal()
	})
}

func TestCloseGivesIdleTurnsUpFirst(t *testing.T) {
	retaining(t, func(w world) {
		w.once(w.a)
		synctest.Wait()
		before := w.svc.Stats()
		check(w, w.a.client.Close(w.Context()))
		if n := w.svc.Stats().Since(before).Requests[memory.OpLeave]; n != 1 {
			w.Errorf("%d requests to leave", n)
		}
	})
}

// TestCallersOfAClosedClientGetErrClosed, in the local queue and before the
// queue.
func TestCallersOfAClosedClientGetErrClosed(t *testing.T) {
	retaining(t, func(w world) {
		h := w.hold(w.a, w.Context(), exclusive)
		x := w.queued(w.a, w.Context(), 0)
		check(w, w.a.client.Close(w.Context()))
		<-x.done
		wantErr(w.T, x.err, coordinator.ErrClosed)
		wantErr(w.T, h.Release(w.Context()), coordinator.ErrClosed)
	})
}

// TestSilentWatchDoesNotStarveOthers: a turn that serves callers reads the
// queue now and then.
func TestSilentWatchDoesNotStarveOthers(t *testing.T) {
	retaining(t, func(w world) {
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpWatchQueue {
				return memory.Fate{DelayReply: time.Hour}
			}
			return memory.Fate{}
		})
		w.once(w.a)
		b := w.queued(w.b, w.Context(), 0)
		for done := false; !done && time.Since(b.began) < time.Minute; {
			w.release(w.hold(w.a, w.Context(), exclusive))
			time.Sleep(time.Millisecond)
			select {
			case <-b.done:
				done = true
			default:
			}
		}
		if d := time.Since(b.began); d > 2*time.Second {
			w.Errorf("the other client waited for %v", d)
		}
		w.svc.OnRequest(nil)
	}, coordinator.WithTTL(10*time.Second))
}

// TestObserversGetEachGrantOfATurn with its own length, and the longest hold
// counts for each grant alone.
func TestObserversGetEachGrantOfATurn(t *testing.T) {
	tally := new(memory.Tally)
	inWorld(t, func(w world) {
		w.a.queue = w.retain(w.a, recipes.WithMaxHold(time.Second))
		for i := range 3 {
			h := w.hold(w.a, w.Context(), exclusive)
			time.Sleep(600 * time.Millisecond)
			wantErr(w.T, h.Context().Err())
			if i == 2 {
				time.Sleep(600 * time.Millisecond)
				wantErr(w.T, context.Cause(h.Context()), recipes.ErrHeldTooLong)
			}
			w.release(h)
		}
		h := w.hold(w.a, w.Context(), exclusive)
		wantErr(w.T, h.Context().Err())
		w.release(h)
	}, coordinator.WithObserver(tally))
	var got string
	for _, e := range tally.Events() {
		switch e.Kind {
		case event.Joined, event.Granted, event.Released, event.Kept, event.GivenUp, event.HeldTooLong:
			got += fmt.Sprintf("%v %v %v\n", e.Kind, e.Local, e.Duration)
		}
	}
	const want = `joined false 0s
granted false 0s
released true 600ms
kept false 0s
granted true 0s
released true 600ms
granted true 0s
held too long false 1s
released true 1.2s
granted true 0s
released true 0s
given up false 2.4s
`
	if got != want {
		t.Errorf("events:\n%swant:\n%s", got, want)
	}
}

// TestTurnWhoseEntryHasChangedIsNotKept: the next caller would have the payload
// or the mode of another one.
func TestTurnWhoseEntryHasChangedIsNotKept(t *testing.T) {
	for what, change := range map[string]func(h *recipes.Hold) error{
		"written":   func(h *recipes.Hold) error { return h.Write(context.Background(), []byte("x")) },
		"converted": func(h *recipes.Hold) error { return h.Convert(context.Background(), "r") },
	} {
		retaining(t, func(w world) {
			h := w.hold(w.a, w.Context(), exclusive)
			check(w, change(h))
			w.release(h)
			if n := w.svc.Stats().Entries; n != 0 {
				w.Errorf("%s: kept", what)
			}
		})
	}
}

// TestNoteOfALockDelayLastsAsLongAsTheTurn: it costs nothing for each grant,
// and a loss of the turn starts the delay.
func TestNoteOfALockDelayLastsAsLongAsTheTurn(t *testing.T) {
	inWorld(t, func(w world) {
		delay := recipes.WithLockDelay(20 * time.Second)
		w.a.queue, w.b.queue = w.retain(w.a, delay), w.retain(w.b, delay)
		w.once(w.a)
		synctest.Wait()
		before := w.svc.Stats()
		w.once(w.a)
		if n := w.svc.Stats().Since(before).Total(); n != 0 {
			w.Errorf("%d requests", n)
		}
		if b := w.queued(w.b, w.Context(), 0); b.at != 0 || b.hold == nil {
			w.Error("the delay applies after a turn was passed on")
		}
		w.once(w.a)
		synctest.Wait()
		w.svc.Expire(w.svc.Snapshot(name)[0].Session)
		b := w.queued(w.b, w.Context(), 0)
		if <-b.done; b.at != 20*time.Second {
			w.Errorf("granted %v after the loss", b.at)
		}
	})
}

func TestRetentionIsCheckedAndRefused(t *testing.T) {
	inWorld(t, func(w world) {
		for _, d := range []time.Duration{-1, 0, time.Microsecond, 2 * recipes.MaxRetain} {
			_, err := recipes.NewQueue(w.a.client, "test", "queue", recipes.WithRetain(d))
			wantErr(w.T, err, coordinator.ErrInvalid)
		}
		wantErr(w.T, recipes.RefuseRetain(w.retain(w.a), "test"), coordinator.ErrInvalid)
	})
}

// TestCallersGiveUpAtAnyMoment, at the moments at which turns are won, handed
// over, passed on and lost. Each gets its own cause, or the name; the name is
// held by one at a time; and nothing is left.
func TestCallersGiveUpAtAnyMoment(t *testing.T) {
	const unit = 100 * time.Microsecond
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		retaining(t, func(w world) {
			w.a.link.Delay(2*unit, unit)
			w.b.link.Delay(unit, unit)
			var mu sync.Mutex
			held := 0
			var wg sync.WaitGroup
			call := func(p party, after, patience, work time.Duration, r recipes.Request) {
				defer wg.Done()
				time.Sleep(after)
				own := fmt.Errorf("cause of %v", after)
				ctx, cancel := context.WithTimeoutCause(w.Context(), patience, own)
				defer cancel()
				h, err := p.queue.Acquire(ctx, r)
				if err != nil {
					if !errors.Is(err, own) && !errors.Is(err, coordinator.ErrTaken) && !errors.Is(err, coordinator.ErrSessionLost) {
						w.Errorf("seed %d: %v after %v", seed, err, after)
					}
					return
				}
				mu.Lock()
				if held++; held > 1 && h.Err() == nil {
					w.Errorf("seed %d: %d hold", seed, held)
				}
				mu.Unlock()
				time.Sleep(work)
				mu.Lock()
				held--
				mu.Unlock()
				if err := h.Release(context.Background()); err != nil && !errors.Is(err, coordinator.ErrSessionLost) {
					w.Errorf("seed %d: release: %v", seed, err)
				}
			}
			for range 60 {
				p, r := w.a, exclusive
				if random.IntN(4) == 0 {
					p = w.b
				}
				if random.IntN(8) == 0 {
					r = try
				}
				wg.Add(1)
				go call(p, unit*time.Duration(random.IntN(100)), unit*time.Duration(1+random.IntN(12)),
					unit*time.Duration(random.IntN(4)), r)
			}
			if seed%4 == 0 {
				time.Sleep(unit * time.Duration(random.IntN(100)))
				for _, s := range w.svc.Sessions() {
					w.svc.Expire(s)
				}
			}
			wg.Wait()
			w.once(w.a)
			w.once(w.b)
			time.Sleep(time.Minute) // for sessions whose opening was cancelled
		})
	}
}
