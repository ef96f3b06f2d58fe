package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// wanted is the wait for a contender behind a grant, which all calls of Wanted
// share. It begins with the first of them and ends with the last. The turn's mu
// guards it.
type wanted struct {
	calls   int
	cancel  context.CancelFunc
	changed chan struct{} // closed and replaced when a handle is released; closed when over
	over    bool
	err     error // nil if a contender was seen
}

// enterWait adds a call to the grant's wait, and starts that if it is the
// first.
func (g *grant) enterWait() *wanted {
	if m := g.turn.many; m != nil {
		return m.wanted(g)
	}
	return g.enterWaitBehind()
}

// enterWaitBehind is enterWait for contenders, which have an entry behind the
// grant's.
func (g *grant) enterWaitBehind() *wanted {
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	// One watch for all calls: ten handles that ask would else send ten times
	// the requests for the same answer.
	w := g.wanted
	if w == nil {
		ctx, cancel := context.WithCancel(g.turn.ctx)
		w = &wanted{cancel: cancel, changed: make(chan struct{})}
		g.wanted = w
		// Go and not the call's goroutine: another call may need the watch for
		// longer.
		if !g.turn.session.Go(func() { g.endWait(w, g.awaitContender(ctx)) }) {
			cancel() // the grant is over, or ends soon with its session
		}
	}
	w.calls++
	return w
}

// wantedNow is a wait that is over: another caller waits already.
func wantedNow() *wanted {
	over := make(chan struct{})
	close(over)
	return &wanted{calls: 1, cancel: func() {}, changed: over, over: true}
}

// leaveWait removes a call from a wait, and ends the watch with the last one.
func (g *grant) leaveWait(w *wanted) {
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	// By the last call: the context of the first may end long before.
	if w.calls--; w.calls > 0 {
		return
	}
	w.cancel()
	// A later call must not join a wait that was cancelled.
	if g.wanted == w {
		g.wanted = nil
	}
}

// endWait tells all calls of a wait what its watch has found.
func (g *grant) endWait(w *wanted, err error) {
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	g.finishWait(w, err)
}

// finishWait is endWait for callers that hold the turn's mu.
func (g *grant) finishWait(w *wanted, err error) {
	// Once: on kept turns a caller of this Queue and a watch may both end it.
	if w.over {
		return
	}
	w.over, w.err = true, err
	close(w.changed)
	// The next call begins anew: the contender may have left by then.
	if g.wanted == w {
		g.wanted = nil
	}
}

// wake lets the calls look whether their own handle is released. The caller
// holds the turn's mu. A nil wanted has no calls.
func (w *wanted) wake() {
	if w != nil {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// WantedBy is Wanted by a contender whose mode is one that wants accepts. Each
// call has a watch of its own. The entry must not be converted.
func (h *Hold) WantedBy(ctx context.Context, wants func(mode string) bool) error {
	if err := h.Check(ctx); err != nil {
		return err
	}
	turn := h.turn()
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(turn.ctx, func() { cancel(context.Cause(turn.ctx)) })()
	err := turn.session.Wanted(bound, turn.queue.id, h.Place(),
		func(behind driver.Place) bool { return wants(behind.Mode) })
	if over := h.Check(ctx); over != nil {
		return over
	}
	return err
}

// awaitContender waits for a contender that the grant keeps out.
func (g *grant) awaitContender(ctx context.Context) error {
	for turn := g.turn; ; {
		place := turn.stablePlace()
		err := turn.session.Wanted(ctx, turn.queue.id, place, g.keepsOut(place.Mode))
		if !errors.Is(err, coordinator.ErrRemoved) {
			return err
		}
		// A conversion replaces the entry on some services, which looks like a
		// removal to a watch that began before. With it the mode changes, and
		// with that whom the grant keeps out: keepsOut is asked again.
		if turn.stablePlace() == place {
			// As in watchSelf, which would notice it, too, but only in a hold
			// that has settled.
			if turn.err(turn.ctx) == nil {
				turn.removed()
			}
			return err
		}
	}
}

// keepsOut returns whether an entry of a mode excludes one behind it. Two
// shared entries do not: the rule of either admits it behind the other.
func (g *grant) keepsOut(mode string) func(behind driver.Place) bool {
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	// By the mode of the entry, and not by the handles that are left: a
	// conversion to the low mode may be under way, or have failed.
	rule := g.top.rule
	if mode != g.top.mode {
		rule = g.low.rule
	}
	return func(behind driver.Place) bool {
		return rule == nil || !rule([]driver.Place{behind}).Admitted
	}
}
