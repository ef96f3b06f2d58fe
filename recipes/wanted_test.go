package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// wanted starts a call of Wanted.
func wanted(ctx context.Context, h *recipes.Hold) <-chan error {
	return start(func() error { return h.Wanted(ctx) })
}

// contend queues on a party, and returns what makes the contender leave.
//
//nolint:revive // the party first
func (w world) contend(p party, ctx context.Context, r recipes.Request) (leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := start(func() error {
		h, err := p.queue.Acquire(ctx, r)
		if err == nil {
			w.release(h)
		}
		return err
	})
	return func() {
		w.Helper()
		cancel()
		<-ended
		synctest.Wait()
	}
}

func (w world) blocked(what string, call <-chan error) {
	w.Helper()
	time.Sleep(3 * time.Second)
	synctest.Wait()
	select {
	case err := <-call:
		w.Fatalf("%s: Wanted returned %v", what, err)
	default:
	}
}

// TestWantedReturnsWhenAContenderIsKeptOut, of this client or another, and not
// for one that shares. The hold stays.
func TestWantedReturnsWhenAContenderIsKeptOut(t *testing.T) {
	for _, c := range []struct {
		hold, other recipes.Request
		want        bool
	}{
		{write, write, true}, {write, read, true}, {read, write, true}, {read, read, false},
	} {
		inWorld(t, func(w world) {
			for _, p := range []party{w.a, w.b} {
				h := w.hold(w.a, w.Context(), c.hold)
				call := wanted(w.Context(), h)
				w.blocked("without a contender", call)
				leave := w.contend(p, w.Context(), c.other)
				if c.want {
					check(w, <-call)
				} else {
					w.blocked("with another reader", call)
				}
				check(w, h.Err())
				w.release(h)
				leave()
				if !c.want {
					wantErr(w.T, <-call, coordinator.ErrReleased)
				}
			}
		})
	}
}

// TestWantedSeesOnlyContendersThatAreQueued: one that has left does not count,
// and one that has been queued for long is seen at once, in each call.
func TestWantedSeesOnlyContendersThatAreQueued(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		w.contend(w.b, w.Context(), write)()
		call := wanted(w.Context(), h)
		w.blocked("after the contender has left", call)
		leave := w.contend(w.b, w.Context(), write)
		check(w, <-call)
		time.Sleep(time.Minute)
		check(w, h.Wanted(w.Context()))
		check(w, h.Wanted(w.Context()))
		leave()
		again := wanted(w.Context(), h)
		w.blocked("after it has left", again)
		w.release(h)
		wantErr(w.T, <-again, coordinator.ErrReleased)
	})
}

// TestWantedFollowsADowngrade: from then on only a writer counts.
func TestWantedFollowsADowngrade(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		call := wanted(w.Context(), lower)
		w.release(upper)
		w.wantModes("r")
		leave := w.contend(w.b, w.Context(), read)
		w.blocked("with another reader", call)
		leave()
		leave = w.contend(w.b, w.Context(), write)
		check(w, <-call)
		leave()
		w.release(lower)
	})
}

// TestWantedOfAWriterThatReads: while the write handle is held, a reader is
// kept out.
func TestWantedOfAWriterThatReads(t *testing.T) {
	inWorld(t, func(w world) {
		upper, lower := w.both()
		call := wanted(w.Context(), lower)
		leave := w.contend(w.b, w.Context(), read)
		check(w, <-call)
		w.release(lower)
		w.release(upper)
		leave()
	})
}

// TestWantedEndsWithTheHoldOrItsContext, with the reason.
func TestWantedEndsWithTheHoldOrItsContext(t *testing.T) {
	mine := errors.New("mine")
	for _, c := range []struct {
		end  func(w world, h *recipes.Hold, cancel context.CancelCauseFunc)
		want error
	}{
		{func(_ world, _ *recipes.Hold, cancel context.CancelCauseFunc) { cancel(mine) }, mine},
		{func(w world, h *recipes.Hold, _ context.CancelCauseFunc) { w.release(h) }, coordinator.ErrReleased},
		{func(w world, _ *recipes.Hold, _ context.CancelCauseFunc) {
			w.a.link.Cut()
			time.Sleep(time.Hour)
			w.a.link.Heal()
		}, coordinator.ErrSessionLost},
		{func(w world, _ *recipes.Hold, _ context.CancelCauseFunc) {
			w.svc.Remove(name, w.svc.Snapshot(name)[0].Key)
		}, coordinator.ErrRemoved},
		{func(w world, _ *recipes.Hold, _ context.CancelCauseFunc) {
			_ = w.a.client.Close(context.Background())
		}, coordinator.ErrClosed},
	} {
		for _, early := range []bool{true, false} {
			inWorld(t, func(w world) {
				h := w.hold(w.a, w.Context(), write)
				if !early { // the hold watches its own entry by then
					time.Sleep(time.Minute)
				}
				ctx, cancel := context.WithCancelCause(w.Context())
				call, also := wanted(ctx, h), wanted(ctx, h)
				c.end(w, h, cancel)
				wantErr(w.T, <-call, c.want)
				wantErr(w.T, <-also, c.want)
				wantErr(w.T, h.Wanted(ctx), c.want)
				cancel(nil)
				_ = h.Release(context.Background())
			})
		}
	}
}

// TestWantedEndsWhenItsHandleIsReleased, although another handle holds on.
func TestWantedEndsWhenItsHandleIsReleased(t *testing.T) {
	inWorld(t, func(w world) {
		outer := w.hold(w.a, w.Context(), write)
		inner := w.hold(w.a, outer.Context(), write)
		call, other := wanted(w.Context(), inner), wanted(w.Context(), outer)
		w.release(inner)
		wantErr(w.T, <-call, coordinator.ErrReleased)
		w.blocked("of the outer handle", other)
		w.release(outer)
		wantErr(w.T, <-other, coordinator.ErrReleased)
	})
}

// TestWantedSharesOneWatch: a lock costs none, all calls of a hold one, and the
// end of the last call ends it.
func TestWantedSharesOneWatch(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		time.Sleep(time.Minute)
		requests := func() int { return w.a.link.Stats().Requests[memory.OpWatchQueue] }
		watches, before := w.svc.Stats().Watches, requests()
		if before != 0 {
			w.Errorf("%d watches of the queue without a call", before)
		}
		ctx, cancel := context.WithCancel(w.Context())
		var calls []<-chan error
		for range 8 {
			calls = append(calls, wanted(ctx, h))
		}
		time.Sleep(time.Hour)
		// the first view, and the wait for the next one
		if n := requests() - before; n != 2 || w.svc.Stats().Watches != watches+1 {
			w.Errorf("%d requests, %d watches more", n, w.svc.Stats().Watches-watches)
		}
		cancel()
		for _, call := range calls {
			wantErr(w.T, <-call, context.Canceled)
		}
		synctest.Wait()
		if n := w.svc.Stats().Watches; n != watches {
			w.Errorf("%d watches are left", n-watches)
		}
		w.release(h)
	})
}

// TestWantedOutlivesAnOutage, and sees the contender that has come meanwhile.
func TestWantedOutlivesAnOutage(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		call := wanted(w.Context(), h)
		w.a.link.Reset()
		w.a.link.Cut()
		leave := w.contend(w.b, w.Context(), write)
		w.blocked("during the outage", call)
		w.a.link.Heal()
		check(w, <-call)
		leave()
		w.release(h)
	})
}

// TestWantedIsRefusedWithTheReason of the service, and works again later.
func TestWantedIsRefusedWithTheReason(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), write)
		w.on(memory.OpWatchQueue, memory.Fate{Err: refusal})
		wantErr(w.T, h.Wanted(w.Context()), coordinator.ErrRefused)
		w.svc.OnRequest(nil)
		check(w, h.Err())
		leave := w.contend(w.b, w.Context(), write)
		check(w, h.Wanted(w.Context()))
		leave()
		w.release(h)
	})
}

// TestWantedGoesOnAfterTheLongestHold, since the name is still held.
func TestWantedGoesOnAfterTheLongestHold(t *testing.T) {
	inWorld(t, func(w world) {
		q, err := recipes.NewQueue(w.a.client, "test", "queue", recipes.WithMaxHold(time.Second))
		check(w, err)
		h, err := q.Acquire(w.Context(), write)
		check(w, err)
		call := wanted(w.Context(), h)
		w.blocked("after WithMaxHold", call)
		leave := w.contend(w.b, w.Context(), write)
		check(w, <-call)
		leave()
		w.release(h)
	})
}

// plain is a driver whose sessions cannot watch a queue. revoker, if set, is
// its capability.
type plain struct {
	*memory.Driver
	revoker driver.Revoker
}

type plainSession struct {
	driver.Session
	of plain
}

func (d plain) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return plainSession{s, d}, err
}

func (s plainSession) Capabilities() driver.Capabilities {
	c := s.Session.Capabilities()
	c.QueueWatcher, c.Revoker = nil, s.of.revoker
	return c
}

// TestWantedReadsOnceASecondWithoutAWatch of the queue.
func TestWantedReadsOnceASecondWithoutAWatch(t *testing.T) {
	inWorld(t, func(w world) {
		link := w.svc.Driver()
		c, q := queueOn(w.T, plain{Driver: link})
		h, err := q.Acquire(w.Context(), write)
		check(w, err)
		before := link.Stats().Requests[memory.OpAhead]
		call, also := wanted(w.Context(), h), wanted(w.Context(), h)
		time.Sleep(time.Minute - time.Millisecond)
		if n := link.Stats().Requests[memory.OpAhead] - before; n != 60 {
			w.Errorf("%d reads in a minute", n)
		}
		began := time.Now()
		leave := w.contend(w.b, w.Context(), write)
		check(w, <-call)
		check(w, <-also)
		if took := time.Since(began); took > time.Second {
			w.Errorf("seen after %v", took)
		}
		leave()
		check(w, h.Release(w.Context()))
		check(w, c.Close(w.Context()))
	})
}

// asks lets a test ask the holder to release.
type asks struct{ asked chan error }

func (a asks) Revoked(ctx context.Context, _ driver.Queue, _ driver.Place) error {
	select {
	case err := <-a.asked:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestWantedReturnsWhenAClientAsks the holder to release, where a layout has
// that; a queue without it is watched alone.
func TestWantedReturnsWhenAClientAsks(t *testing.T) {
	inWorld(t, func(w world) {
		a := asks{make(chan error)}
		c, q := queueOn(w.T, plain{w.svc.Driver(), a})
		h, err := q.Acquire(w.Context(), write)
		check(w, err)
		call := wanted(w.Context(), h)
		w.blocked("unasked", call)
		a.asked <- nil
		check(w, <-call)
		call = wanted(w.Context(), h)
		a.asked <- coordinator.ErrInvalid
		w.blocked("in a queue without requests", call)
		leave := w.contend(w.b, w.Context(), write)
		check(w, <-call)
		leave()
		ctx, cancel := context.WithCancel(w.Context())
		call = wanted(ctx, h)
		cancel()
		wantErr(w.T, <-call, context.Canceled)
		check(w, h.Release(w.Context()))
		check(w, c.Close(w.Context()))
	})
}

// TestWantedIsInvalidForAPart of a semaphore.
func TestWantedIsInvalidForAPart(t *testing.T) {
	inWorld(t, func(w world) {
		rule := func(driver.Record, bool) (recipes.Rule, error) { return recipes.Exclusive, nil }
		h := w.hold(w.a, w.Context(), recipes.Request{Op: "acquire", Mode: "p",
			Terms: &recipes.Terms{Initial: []byte("1"), Rule: rule}})
		wantErr(w.T, h.Wanted(w.Context()), coordinator.ErrInvalid)
		w.release(h)
	})
}
