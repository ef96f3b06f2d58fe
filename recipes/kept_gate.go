package recipes

import (
	"context"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file closes the gate of a kept turn: it notices other contenders, and
// the end of the time for which the turn is kept. It also notices callers that
// wait for long.

// watch begins to look for other contenders: when the turn first becomes idle
// or is first given to another caller, so that a single short hold costs
// nothing. The caller holds the keeper's mu.
func (t *kept) watch() {
	if t.watched || t.closed {
		return
	}
	t.watched = true
	t.session.Go(func() {
		if t.seen(t.ctx, anyone) {
			t.ask()
		}
	})
	t.closing = t.session.OnClose(t.giveUp)
}

// anyone: all contenders behind the entry are kept out, and so are those of a
// mode that this recipe does not know.
func anyone(driver.Place) bool { return true }

// look reads the queue if that is due. The caller holds the keeper's mu.
func (t *kept) look() {
	if !t.watched || t.closed || !t.readIsDue(&t.read) {
		return
	}
	t.session.Go(func() {
		if t.behind(anyone) {
			t.ask()
		}
	})
}

// ask closes the gate since another contender waits. An idle turn is passed on
// at once.
func (t *kept) ask() {
	k := t.keeper
	k.mu.Lock()
	if !t.closed {
		t.asked = time.Now()
		k.waste(t.grants == 1 && !t.busy)
		t.shut()
	}
	k.mu.Unlock()
	t.giveUp(t.session.Context())
}

// waste notes whether a turn was asked for before a second caller had it. Then
// it was kept for nothing: it cost a watch, and the other contender a wait. So
// names that two clients lock in turn are not kept for a while. The caller
// holds k.mu.
func (k *keeper) waste(wasted bool) {
	if !wasted {
		k.pause, k.until = 0, time.Time{}
		return
	}
	k.pause = min(max(2*k.pause, firstPause), lastPause)
	k.until = time.Now().Add(k.pause)
}

// tooLong passes on a turn that has been idle for as long as it is kept.
func (t *kept) tooLong() {
	k := t.keeper
	k.mu.Lock()
	late := !t.busy && time.Since(t.since) >= t.queue.retain // else a caller had it since
	k.mu.Unlock()
	if late {
		t.giveUp(t.session.Context())
	}
}

// giveUp passes the turn on if it is idle. Otherwise the release will.
func (t *kept) giveUp(ctx context.Context) {
	k := t.keeper
	k.mu.Lock()
	idle := !t.busy && !t.gone
	if idle {
		t.busy = true
		t.depart()
	}
	k.mu.Unlock()
	if idle {
		t.end(ctx)
	}
}

// suspect begins to look for callers in the local queue that may wait for
// themselves: see attempt.suspectOwn. It looks once in a TTL, so that a short
// wait costs nothing. The caller holds the keeper's mu.
func (t *kept) suspect() {
	switch {
	case t.suspects:
	case t.suspicion == nil:
		t.suspicion = time.AfterFunc(t.session.TTL(), func() { t.session.Go(t.nameOwn) })
	default:
		t.suspicion.Reset(t.session.TTL())
	}
	t.suspects = true
}

// nameOwn logs the warning, once for each hold, if a caller has waited for that
// hold for a TTL.
func (t *kept) nameOwn() {
	k, ttl := t.keeper, t.session.TTL()
	k.mu.Lock()
	t.suspects = len(t.waiting) > 0 && !t.gone
	at := slices.IndexFunc(t.waiting, func(w *caller) bool { return !w.Fresh })
	var late *caller
	next := ttl
	if g := t.grant; t.suspects && at >= 0 && g != nil && !t.named {
		w, waits := t.waiting[at], g.since
		if w.since.After(waits) {
			waits = w.since
		}
		if next = ttl - time.Since(waits); next <= 0 {
			late, t.named, next = w, true, ttl
		}
	}
	if t.suspects {
		t.suspicion.Reset(next)
	}
	k.mu.Unlock()
	if late != nil {
		t.queue.warnOfOwn(late.Op, t.token, late.since)
	}
}
