package semaphore_test

import (
	"context"
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
