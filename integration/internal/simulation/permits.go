package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

// govern stores the limit of a semaphore, and changes it from time to time. In
// the end it is the first limit again.
func (a *actor) govern() {
	set := func(ctx context.Context, limit int) bool {
		a.since = a.w.now()
		o, _ := a.object()
		err := a.call(ctx, "set-limit", 0, func(ctx context.Context) error {
			return o.(*semaphore.Semaphore).SetLimit(ctx, limit)
		})
		return err == nil
	}
	changes := a.does("change of a limit", 2)
	for !a.w.isMended() {
		if limit := 1 + a.r.IntN(5); changes {
			ctx, cancel := a.bounds()
			set(ctx, limit)
			cancel()
		} else if set(a.ctx, a.name.limit) {
			changes = false
			<-a.w.mended
		}
		a.pause(2 * a.w.ttl)
	}
	for a.w.over.Err() == nil && !set(a.ctx, a.name.limit) {
		a.pause(time.Second)
	}
}

// semaphore is a round with a semaphore.
func (a *actor) semaphore(ctx context.Context, s *semaphore.Semaphore, generation int) bool {
	n := 1 + a.r.IntN(a.name.limit)
	if a.w.isEnding() {
		n = 1 + a.r.IntN(1+a.name.limit/2)
	}
	a.wants = n
	what, take := "acquire", s.Acquire
	if !a.w.isEnding() && a.does("try", 4) {
		what, take = "try-acquire", s.TryAcquire
	}
	if !a.w.isEnding() && a.does("do", 10) {
		a.permitDo(ctx, s, n, generation)
		return false
	}
	var p *semaphore.Permit
	floor, asked := a.w.ask(a.label, a.name)
	err := a.call(ctx, what, 0, func(ctx context.Context) (err error) {
		p,
			err = take(ctx, n)
		return err
	})
	if err != nil {
		return false
	}
	x := a.held(p, false, n, floor, asked, generation)
	a.usePermit(p, x)
	return a.back(x, "release", p.Release)
}

func (a *actor) permitDo(ctx context.Context, s *semaphore.Semaphore, n, generation int) {
	var x *handle
	floor, asked := a.w.ask(a.label, a.name)
	err := a.call(ctx, "do", workTime(a.w), func(ctx context.Context) error {
		return s.Do(ctx, n, func(inner context.Context, p *semaphore.Permit) error {
			x = a.held(inWork{p, inner}, false, n, floor, asked, generation)
			a.dwell(inner)
			a.w.giving(x)
			return nil
		})
	}, coordinator.ErrNotHeld)
	if x != nil {
		a.w.gave(a.name, x, err)
	}
}

// usePermit calls Slots and releases parts.
func (a *actor) usePermit(p *semaphore.Permit, x *handle) {
	for range a.r.IntN(3) {
		a.dwell(p.Context())
		if a.does("slots", 2) {
			a.number(p, x)
		}
		if n := p.Permits(); n > 1 && a.does("release in part", 2) {
			a.givePart(p, x, 1+a.r.IntN(n-1))
		}
	}
	a.dwell(p.Context())
}

func (a *actor) number(p *semaphore.Permit, x *handle) {
	var slots []int
	ctx, cancel := a.bounds()
	defer cancel()
	err := a.call(ctx, "slots", 0, func(ctx context.Context) (err error) {
		slots,
			err = p.Slots(ctx)
		return err
	})
	if err != nil {
		return
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if old := x.hold.slots; old != nil && !slices.Equal(old, slots) {
		a.w.violation("%s: %d had the numbers %v and has %v", a.label, x.hold.token, old, slots)
	}
	if len(slots) != x.hold.permits {
		a.w.violation("%s: %d has the numbers %v for %d permits", a.label, x.hold.token, slots,
			x.hold.permits)
	}
	x.hold.slots = slots
	a.w.audit(a.w.queues[a.name.queue])
}

// givePart releases some permits, which are not used after the call begins.
func (a *actor) givePart(p *semaphore.Permit, x *handle, n int) {
	a.w.mu.Lock()
	h := x.hold
	before := h.permits
	h.permits -= n
	if h.slots != nil {
		h.slots = h.slots[:min(len(h.slots), h.permits)]
	}
	a.w.mu.Unlock()
	ctx, cancel := a.releaseBounds()
	defer cancel()
	err := a.call(ctx, "release-part", afterwards(ctx),
		func(ctx context.Context) error {
			_, err := p.ReleasePart(ctx, n)
			return err
		}, coordinator.ErrNotHeld)
	held := p.Permits() // before the mutex: it reads the clock, and may end the session
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	l := a.w.queues[a.name.queue]
	i := l.place(h)
	switch {
	case err == nil && held != 0 && held != before-n:
		a.w.violation("%s: %d permits of %d released, and %d are held", a.label, n, before, held)
	case err == nil && held != 0 && i >= 0 && permitsOf(l.entries[i].Mode) != held:
		a.w.violation("%s: %d permits are held, and the queue shows %s", a.label, held,
			l.entries[i].Mode)
	}
	if held != 0 && held != h.permits {
		h.permits = held
		h.slots = nil
	}
	a.w.audit(l)
}
