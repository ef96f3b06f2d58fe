package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// pause sleeps, but not for long at the end of the world.
func (a *actor) pause(most time.Duration) {
	timer := time.NewTimer(time.Duration(1 + a.r.Int64N(int64(most))))
	defer timer.Stop()
	extra := time.Duration(1 + a.r.Int64N(int64(10*time.Millisecond)))
	if a.w.isEnding() {
		time.Sleep(extra)
		return
	}
	select {
	case <-timer.C:
	case <-a.w.ending:
		time.Sleep(extra) // one after the other
	}
}

// dwell waits for a while, or until ctx ends.
func (a *actor) dwell(ctx context.Context) {
	most := []time.Duration{time.Millisecond, 100 * time.Millisecond, 600 * time.Millisecond,
		a.w.ttl, 2 * a.w.ttl}[a.r.IntN(5)]
	if a.does("long hold", 3) { // some faults show only in holds that outlive them
		most = 8 * a.w.ttl
	}
	timer := time.NewTimer(time.Duration(1 + a.r.Int64N(int64(most))))
	defer timer.Stop()
	extra := time.Duration(1 + a.r.Int64N(int64(10*time.Millisecond)))
	ending := a.w.ending
	if a.w.isEnding() {
		ending = nil
		timer.Reset(extra)
	}
	select {
	case <-timer.C:
	case <-ending:
	case <-ctx.Done():
	}
	time.Sleep(extra)
}

// misleading are causes that must not be mistaken for errors of the service.
var misleading = []error{context.Canceled, coordinator.ErrSessionLost, coordinator.ErrTaken,
	coordinator.ErrReleased, errors.New("enough")}

// bounds returns the context of a round.
func (a *actor) bounds() (context.Context, func()) {
	wait := time.Duration(a.r.Int64N(int64(2 * a.w.ttl)))
	cause := misleading[a.r.IntN(len(misleading))]
	switch n := a.r.IntN(6); {
	case n < 2 && a.w.swarm.on("deadline"):
		return context.WithTimeout(a.ctx, wait)
	case n == 2 && a.w.swarm.on("cancel"):
		ctx, cancel := context.WithCancelCause(a.ctx)
		timer := time.AfterFunc(wait, func() { cancel(cause) })
		return ctx, func() { timer.Stop(); cancel(nil) }
	case n == 3 && a.w.swarm.on("short deadline"):
		return context.WithTimeout(a.ctx, wait/50)
	}
	return a.ctx, func() {}
}

// releaseBounds returns the context of a release, which may have ended.
func (a *actor) releaseBounds() (context.Context, func()) {
	if a.w.isEnding() {
		return a.ctx, func() {}
	}
	switch n := a.r.IntN(4); {
	case n == 0 && a.w.swarm.on("release by an ended context"):
		ctx, cancel := context.WithCancel(a.ctx)
		cancel()
		return ctx, cancel
	case n == 1 && a.w.swarm.on("release with a deadline"):
		return context.WithTimeout(a.ctx, time.Duration(1+a.r.Int64N(int64(a.w.ttl/2))))
	}
	return a.ctx, func() {}
}
