package recipes

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
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

// Wanted blocks until another contender that this hold keeps out is queued
// behind it, and then returns nil; the hold stays. That is any contender behind
// an exclusive hold, and behind one with a Rule each that the rule of the hold
// would not admit together with it. It may be another goroutine of this
// process. A contender that left before it was seen does not count.
//
// The calls for all handles of a grant share one watch of the queue. It begins
// with the first call, ends with the last, and leaves nothing at the service
// but a watch that ends at the next change. A service without that capability
// is read once a second. In a layout whose clients can ask a holder to release,
// Wanted returns nil then, too.
//
// Errors: that of Err, if the hold ends first; the cause of ctx; ErrRefused;
// ErrInvalid for a hold with Terms, which do not say whom it keeps out alone.
func (h *Hold) Wanted(ctx context.Context) error {
	g, turn := h.ctx.grant, h.turn()
	if err := h.Check(ctx); err != nil {
		return err
	}
	if g.counted {
		return engine.Invalid("%q: a hold of a part cannot say who waits for it", turn.queue.name)
	}
	w := g.wait()
	defer g.leaveWait(w)
	over := h.ctx.Done()
	for {
		g.turn.mu.Lock()
		changed, done, err := w.changed, w.over, w.err
		g.turn.mu.Unlock()
		// Before the result: nil says that the hold stays.
		if ended := h.Check(ctx); ended != nil {
			return ended
		}
		if done {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			over = turn.ctx.Done() // WithMaxHold has ended only the handle's context
		}
	}
}

// wait adds a call to the grant's wait, and starts that if it is the first.
func (g *grant) wait() *wanted {
	local := false
	if t, ok := g.turn.many.(*kept); ok {
		t.keeper.mu.Lock() // before the turn's
		defer t.keeper.mu.Unlock()
		local = t.grant == g && len(t.waiting) > 0
	}
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	if local { // callers of this process have no entry
		over := make(chan struct{})
		close(over)
		return &wanted{calls: 1, cancel: func() {}, changed: over, over: true}
	}
	w := g.wanted
	if w == nil {
		ctx, cancel := context.WithCancel(g.turn.ctx)
		w = &wanted{cancel: cancel, changed: make(chan struct{})}
		g.wanted = w
		if !g.turn.session.Go(func() { g.endWait(w, g.awaitContender(ctx)) }) {
			cancel() // the grant is over, or ends soon with its session
		}
	}
	w.calls++
	return w
}

func (g *grant) leaveWait(w *wanted) {
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	if w.calls--; w.calls > 0 {
		return
	}
	w.cancel()
	// A later call must not join a wait that was cancelled.
	if g.wanted == w {
		g.wanted = nil
	}
}

func (g *grant) endWait(w *wanted, err error) {
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	g.finishWait(w, err)
}

// finishWait is endWait for callers that hold the turn's mu.
func (g *grant) finishWait(w *wanted, err error) {
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

// want ends the wait of the grant, if there is one: another caller of the
// process waits. The caller holds the keeper's mu.
func (t *kept) want() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.grant; g != nil && g.wanted != nil {
		w := g.wanted
		g.finishWait(w, nil)
		w.cancel()
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

// awaitContender waits for a contender that the grant keeps out.
func (g *grant) awaitContender(ctx context.Context) error {
	for turn := g.turn; ; {
		place := turn.settledPlace()
		err := turn.session.Wanted(ctx, turn.queue.id, place, g.keepsOut(place.Mode))
		if !errors.Is(err, coordinator.ErrRemoved) {
			return err
		}
		// A conversion replaces the entry on some services.
		if turn.settledPlace() == place {
			// as in watchSelf, which would notice it, too
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
	rule := g.top.rule
	if mode != g.top.mode {
		rule = g.low.rule
	}
	return func(behind driver.Place) bool {
		return rule == nil || !rule([]driver.Place{behind}).Admitted
	}
}
