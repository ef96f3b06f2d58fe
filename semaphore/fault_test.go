package semaphore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// TestGrantOfARepeatedJoinIsShownToContendersBehind: they saw it wait, and its
// second request finds no entry ahead.
func TestGrantOfARepeatedJoinIsShownToContendersBehind(t *testing.T) {
	parties(t, 3, func(a, b party) {
		held := a.acquire(2)
		b.session()
		joins := 0
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin && r.Driver == b.link {
				joins++
				return memory.Fate{DropReply: joins == 1}
			}
			return memory.Fate{}
		})
		w := b.begin(2) // it is queued, but its reply is lost
		behind := a.begin(1)
		a.release(held)
		<-w.done
		p, q := w.granted(), behind.granted()
		if joins != 2 || !w.at.Equal(behind.at) {
			t.Errorf("%d joins; the contender behind was granted %v later", joins, behind.at.Sub(w.at))
		}
		a.release(p, q)
		a.empty()
	})
}

// onNth calls f for the nth request from now, without renewals, which gets the
// fate that f returns.
func onNth(svc *memory.Service, n int, f func(memory.Request) memory.Fate) (sent func() int) {
	var mu sync.Mutex
	count := 0
	svc.OnRequest(func(r memory.Request) memory.Fate {
		mu.Lock()
		defer mu.Unlock()
		if r.Op == memory.OpRenew {
			return memory.Fate{}
		}
		if count++; count == n {
			return f(r)
		}
		return memory.Fate{}
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// everyRequest repeats a scenario, each time with a fault at the next of its
// requests.
func everyRequest(t *testing.T, limit int, fault func(memory.Request) memory.Fate,
	scenario func(a, b party)) {
	t.Helper()
	for n, more := 1, true; more; n++ {
		parties(t, limit, func(a, b party) {
			a.session()
			b.session()
			sent := onNth(a.svc, n, fault)
			defer func() {
				if t.Failed() {
					t.Fatalf("with the fault at request %d of %d", n, sent())
				}
			}()
			scenario(a, b)
			more = sent() >= n
			a.svc.OnRequest(nil)
			time.Sleep(time.Minute) // for late requests
			a.empty()
			b.release(b.begin(limit).granted()) // no permit is lost for ever
		})
	}
}

// granted waits for the grant, with a bound.
func (w *wait) eventually() *semaphore.Permit {
	w.Helper()
	select {
	case <-w.done:
	case <-time.After(3 * time.Minute):
		w.Fatalf("not granted; queue %v", w.modes())
	}
	if w.err != nil {
		w.Fatal(w.err)
	}
	return w.permit
}

// contended is a scenario with all operations of a semaphore: it holds, waits,
// releases a part, is refused, counts.
func contended(a, b party) {
	p := a.acquire(2)
	w := b.begin(2)
	time.Sleep(3 * time.Second) // it is queued by now
	behind := a.begin(1)
	time.Sleep(3 * time.Second)
	a.releasePart(p, 1)
	q := w.eventually()
	if _, err := b.s.TryAcquire(b.Context(), 1); !errors.Is(err, coordinator.ErrTaken) {
		a.Errorf("TryAcquire = %v", err)
	}
	a.release(p)
	r := behind.eventually()
	a.wantSlots(r, 0)
	if held := a.list(); held.Held > held.Limit {
		a.Errorf("listing %+v", held)
	}
	a.setLimit(4)
	b.release(q)
	last := b.begin(3) // with the old limit
	<-last.done
	wantErr(a.T, last.err, coordinator.ErrInvalid)
	a.setLimit(3)
	a.release(r)
}

// TestLostRequestsAndRepliesChangeNothing at any step: join, read, watch,
// conversion, leave, record. A leave whose reply was lost is a success. FIELD
// 1, 12, 50
func TestLostRequestsAndRepliesChangeNothing(t *testing.T) {
	for _, fate := range []memory.Fate{
		{DropReply: true}, {DropRequest: true}, {Err: driver.ErrUnavailable},
		{DelayReply: time.Second}, {DelayRequest: time.Second},
	} {
		everyRequest(t, 3, func(memory.Request) memory.Fate { return fate }, contended)
	}
}

// TestBrokenConnectionChangesNothing at any step: requests under way are lost
// or arrive late. FIELD 50
func TestBrokenConnectionChangesNothing(t *testing.T) {
	everyRequest(t, 3, func(r memory.Request) memory.Fate {
		r.Driver.Reset()
		return memory.Fate{}
	}, contended)
	everyRequest(t, 3, func(r memory.Request) memory.Fate {
		r.Driver.HoldRequests()
		time.AfterFunc(50*time.Millisecond, r.Driver.Strand)
		time.AfterFunc(time.Second, r.Driver.Deliver)
		return memory.Fate{}
	}, contended)
}

// TestRefusalAnywhereLeavesNothing: a failed call leaves no entry and takes no
// permit. FIELD 9, 49
func TestRefusalAnywhereLeavesNothing(t *testing.T) {
	refuse := func(memory.Request) memory.Fate { return memory.Fate{Err: driver.ErrRefused} }
	everyRequest(t, 3, refuse, func(a, b party) {
		var permits []*semaphore.Permit
		try := func(p *semaphore.Permit, err error) {
			if err == nil {
				permits = append(permits, p)
			} else if !errors.Is(err, coordinator.ErrRefused) &&
				!errors.Is(err, coordinator.ErrTaken) {
				t.Errorf("error %v", err)
			}
		}
		try(a.s.Acquire(a.Context(), 2))
		w := b.begin(2)
		try(a.s.TryAcquire(a.Context(), 1))
		if len(permits) > 0 {
			if _, err := permits[0].Slots(a.Context()); err != nil &&
				!errors.Is(err, coordinator.ErrRefused) {
				t.Errorf("Slots = %v", err)
			}
			if permits[0].Permits() > 1 {
				_, _ = permits[0].ReleasePart(a.Context(), 1)
			}
		}
		time.Sleep(3 * time.Second) // for retries in the background
		for _, p := range permits {
			if err := p.Release(a.Context()); err != nil &&
				!errors.Is(err, coordinator.ErrRefused) {
				t.Errorf("Release = %v", err)
			}
		}
		<-w.done
		try(w.permit, w.err)
		if w.err == nil {
			_ = w.permit.Release(a.Context())
		}
	})
}

// TestAcquireCancelledAtAnyRequestLeavesNothing, applied or not. FIELD 2, 51
func TestAcquireCancelledAtAnyRequestLeavesNothing(t *testing.T) {
	mine := errors.New("mine")
	for _, fate := range []memory.Fate{
		{}, {DropReply: true}, {DropRequest: true}, {DelayReply: time.Second},
		{DelayRequest: time.Second},
		{DelayReply: time.Minute}, {DelayRequest: 9 * time.Second},
	} {
		for _, free := range []int{0, 1} {
			var cancel atomic.Pointer[context.CancelCauseFunc]
			everyRequest(t, 3, func(memory.Request) memory.Fate {
				if f := cancel.Load(); f != nil {
					(*f)(mine)
				}
				return fate
			}, func(a, b party) {
				held, ahead := a.acquire(2), a.begin(2-free)
				ctx, stop := context.WithCancelCause(b.Context())
				cancel.Store(&stop)
				began := time.Now()
				time.AfterFunc(100*time.Millisecond, func() {
					a.release(held)
					a.release(ahead.eventually())
				})
				p, err := b.s.Acquire(ctx, 2)
				switch {
				case err == nil:
					b.release(p)
				case !errors.Is(err, mine):
					t.Errorf("%+v, %d free: Acquire = %v, queue %v", fate, free, err, a.modes())
				case time.Since(began) > 10*time.Second:
					t.Errorf("%+v: Acquire took %v", fate, time.Since(began))
				}
				cancel.Store(nil)
				time.Sleep(time.Minute)
			})
		}
	}
}
