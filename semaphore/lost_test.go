package semaphore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

// TestLostPermitEndsBeforeTheNextIsGranted, and its permits are free again.
// FIELD 57
func TestLostPermitEndsBeforeTheNextIsGranted(t *testing.T) {
	parties(t, 3, func(a, b party) {
		p := a.acquire(2)
		var lostAt time.Time
		context.AfterFunc(p.Context(), func() { lostAt = time.Now() })
		time.Sleep(7 * time.Second)
		a.link.Cut()
		began := time.Now()
		q := b.acquire(3)
		granted := time.Now()
		synctest.Wait()
		if lostAt.IsZero() || !lostAt.Before(granted) || granted.Sub(began) > coordinator.DefaultTTL {
			t.Errorf("lost at %v, the next was granted at %v, %v after the cut", lostAt, granted, granted.Sub(began))
		}
		wantErr(t, p.Err(), coordinator.ErrSessionLost)
		if p.Permits() != 0 {
			t.Errorf("%d permits are held after the loss", p.Permits())
		}
		a.link.Heal()
		wantErr(t, p.ReleasePart(a.Context(), 1), coordinator.ErrSessionLost)
		wantErr(t, p.Release(a.Context()), coordinator.ErrSessionLost)
		time.Sleep(time.Minute)
		if q.Err() != nil || len(a.modes()) != 1 {
			t.Errorf("the next holder was disturbed: %v, queue %v", q.Err(), a.modes())
		}
		b.release(q)
		a.release(a.acquire(3)) // on a new session
		a.empty()
	})
}

// TestRemovedPermitEndsWithItsCause, early or late in its life, and takes nothing from others.
func TestRemovedPermitEndsWithItsCause(t *testing.T) {
	for _, age := range []time.Duration{0, 100 * time.Millisecond, 250 * time.Millisecond, time.Minute} {
		parties(t, 3, func(a, b party) {
			p, other := a.acquire(2), a.acquire(1)
			w := b.begin(2)
			time.Sleep(age)
			a.svc.Remove(queue, a.svc.Snapshot(queue)[0].Key)
			q := w.granted()
			time.Sleep(time.Second)
			synctest.Wait()
			wantErr(t, context.Cause(p.Context()), coordinator.ErrRemoved)
			wantErr(t, p.Err(), coordinator.ErrRemoved)
			wantErr(t, p.ReleasePart(a.Context(), 1), coordinator.ErrRemoved)
			_, err := p.Slots(a.Context())
			wantErr(t, err, coordinator.ErrRemoved)
			wantErr(t, p.Release(a.Context()), coordinator.ErrRemoved)
			if q.Err() != nil || other.Err() != nil {
				t.Errorf("others were disturbed: %v, %v", q.Err(), other.Err())
			}
			a.release(q, other)
			a.empty()
		})
	}
}

// TestPermitRemovedAndReleasedAtOnce: what was to be given back is gone already. That is told, and deletes nothing.
// FIELD 12
func TestPermitRemovedAndReleasedAtOnce(t *testing.T) {
	for _, release := range []func(*semaphore.Permit, context.Context) error{
		(*semaphore.Permit).Release,
		func(p *semaphore.Permit, ctx context.Context) error { return p.ReleasePart(ctx, 1) },
	} {
		parties(t, 2, func(a, b party) {
			p := a.acquire(2)
			a.svc.Remove(queue, a.svc.Snapshot(queue)[0].Key)
			q := b.acquire(2)
			if err := release(p, a.Context()); !errors.Is(err, coordinator.ErrRemoved) && !errors.Is(err, coordinator.ErrNotHeld) {
				t.Errorf("release = %v", err)
			}
			_ = p.Release(a.Context())
			if q.Err() != nil || len(a.modes()) != 1 {
				t.Errorf("the next holder was disturbed: %v, queue %v", q.Err(), a.modes())
			}
			b.release(q)
			a.empty()
		})
	}
}
