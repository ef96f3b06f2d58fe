package semaphore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// TestReleaseEndsByItsContextAndGoesOn while the service is away; what is asked for afterwards is queued as ever.
// FIELD 10, 11
func TestReleaseEndsByItsContextAndGoesOn(t *testing.T) {
	parties(t, 3, func(a, b party) {
		p := a.acquire(3)
		w := b.begin(3)
		a.svc.Stop()
		for i, release := range []func(context.Context) error{
			func(ctx context.Context) error { return p.ReleasePart(ctx, 1) },
			func(ctx context.Context) error { return p.ReleasePart(ctx, 1) },
			p.Release,
		} {
			if want := 3 - i; p.Permits() != want {
				t.Errorf("before release %d: %d permits", i, p.Permits())
			}
			ctx, cancel := context.WithTimeout(a.Context(), time.Second)
			defer cancel()
			began := time.Now()
			err := release(ctx)
			wantErr(t, err, coordinator.ErrUnavailable, context.DeadlineExceeded)
			if !coordinator.MayHaveApplied(err) || time.Since(began) != time.Second {
				t.Errorf("release %d: %v after %v", i, err, time.Since(began))
			}
		}
		if p.Permits() != 0 {
			t.Errorf("%d permits", p.Permits())
		}
		wantErr(t, p.Release(a.Context()), coordinator.ErrNotHeld)
		a.svc.Start()
		again := a.begin(2)
		time.Sleep(2 * time.Second)
		q := w.granted()
		again.waits()
		b.release(q)
		a.release(again.granted())
		a.empty()
	})
}

// TestPartOfUnknownOutcomeThenAll: whatever became of the conversion, nothing is left and nothing comes back.
func TestPartOfUnknownOutcomeThenAll(t *testing.T) {
	for _, fate := range []memory.Fate{
		{DropReply: true}, {DropRequest: true}, {DelayRequest: time.Second}, {DelayReply: time.Second},
		{DelayRequest: time.Minute}, {DelayReply: time.Minute}, {Err: driver.ErrRefused},
	} {
		for _, pause := range []time.Duration{0, 10 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second} {
			parties(t, 3, func(a, b party) {
				p := a.acquire(3)
				w := b.begin(3)
				n := 0
				a.svc.OnRequest(func(r memory.Request) memory.Fate {
					if r.Op == memory.OpConvert && r.Driver == a.link {
						if n++; n <= 2 {
							return fate
						}
					}
					return memory.Fate{}
				})
				ctx, cancel := context.WithTimeout(a.Context(), 10*time.Millisecond)
				defer cancel()
				if err := p.ReleasePart(ctx, 2); err != nil && !coordinator.MayHaveApplied(err) {
					t.Errorf("%+v: ReleasePart = %v", fate, err)
				}
				time.Sleep(pause)
				began := time.Now()
				a.release(p)
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("%+v, after %v: Release took %v", fate, pause, took)
				}
				q := w.granted()
				time.Sleep(2 * time.Minute) // for what is late
				if q.Err() != nil || len(a.modes()) != 1 {
					t.Errorf("%+v, after %v: %v, queue %v", fate, pause, q.Err(), a.modes())
				}
				b.release(q)
				a.empty()
			})
		}
	}
}

// TestReleaseWhileTheGrantIsBeingConverted: who is admitted with others behind says so, and may be done before that is
// through.
func TestReleaseWhileTheGrantIsBeingConverted(t *testing.T) {
	for _, hold := range []func(*memory.Driver){
		(*memory.Driver).Cut, (*memory.Driver).HoldReplies, (*memory.Driver).HoldRequests,
		func(d *memory.Driver) { d.HoldRequests(); time.AfterFunc(100*time.Millisecond, d.Strand) },
		func(d *memory.Driver) { d.HoldReplies(); time.AfterFunc(100*time.Millisecond, d.Reset) },
	} {
		for _, heal := range []time.Duration{time.Millisecond, time.Second, 4 * time.Second} {
			parties(t, 2, func(a, b party) {
				held := b.acquire(2)
				first, behind := a.begin(1), b.begin(2)
				a.svc.OnRequest(func(r memory.Request) memory.Fate {
					if r.Op == memory.OpConvert {
						hold(a.link)
						a.svc.OnRequest(nil)
					}
					return memory.Fate{}
				})
				b.release(held)
				p := first.granted()
				time.AfterFunc(heal, func() { a.link.Heal(); a.link.Deliver() })
				began := time.Now()
				if err := p.Release(a.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
				if took := time.Since(began); took > heal+3*time.Second {
					t.Errorf("Release took %v, the link was healed after %v", took, heal)
				}
				time.Sleep(time.Second)
				b.release(behind.granted())
				time.Sleep(time.Minute)
				a.empty()
			})
		}
	}
}

// TestServiceStopsWhileAGrantIsBeingConverted: the conversion goes on when it is back, and nothing is lost.
func TestServiceStopsWhileAGrantIsBeingConverted(t *testing.T) {
	parties(t, 2, func(a, b party) {
		held := b.acquire(2)
		first, behind := a.begin(1), b.begin(1)
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpConvert {
				a.svc.OnRequest(nil)
				a.svc.Stop()
			}
			return memory.Fate{}
		})
		b.release(held)
		p := first.granted()
		behind.waits()
		time.Sleep(3 * time.Second)
		a.svc.Start()
		time.Sleep(time.Second)
		q := behind.granted()
		if p.Err() != nil || !slices.Equal(a.modes()[:1], []string{"h1"}) {
			t.Errorf("%v, queue %v", p.Err(), a.modes())
		}
		a.release(p)
		b.release(q)
		a.empty()
	})
}

// TestRefusedConversionDelaysOthersAndNoMore: who may not say that it holds has the permits all the same, and says so as
// soon as it may.
func TestRefusedConversionDelaysOthersAndNoMore(t *testing.T) {
	parties(t, 2, func(a, b party) {
		held := b.acquire(2)
		first, behind := a.begin(1), b.begin(1)
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpConvert && r.Driver == a.link {
				return memory.Fate{Err: driver.ErrRefused}
			}
			return memory.Fate{}
		})
		b.release(held)
		p := first.granted()
		time.Sleep(time.Minute)
		behind.waits()
		if p.Err() != nil {
			t.Error(p.Err())
		}
		a.svc.OnRequest(nil)
		time.Sleep(coordinator.DefaultTTL / 4)
		q := behind.granted()
		a.release(p)
		b.release(q)
		a.empty()
	})
}
