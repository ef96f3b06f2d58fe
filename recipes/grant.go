package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// ErrHeldTooLong is the cause of a hold's context that WithMaxHold has ended.
// The name is still held, and Err of the hold is nil.
var ErrHeldTooLong = errors.New("held for longer than WithMaxHold allows")

// grant is what callers hold under a turn: one caller, and those that re-enter
// with its context. Its handles are counted by level.
type grant struct {
	turn  *turn
	since time.Time
	// its entry counts by Terms: whom it keeps out depends on others, too
	counted bool
	// of its contexts, if there may be others under the turn, too, or if they
	// may end earlier; else nil
	part *engine.EndsWithin
	at   int // its index in shared.grants

	// guarded by the turn's mu
	nested   *nested       // nil, unless it was taken with the context of another hold
	top, low level         // low has no mode unless the request has a Lesser mode
	wanted   *wanted       // nil while no call of Wanted waits
	timers   []*time.Timer // of WithHoldWarning and WithMaxHold
	deferred bool          // that of WithMaxHold starts later: see DeferMaxHold
	long     bool          // observers were notified that the grant lasts long
	tooLong  bool          // WithMaxHold has ended the contexts
}

// level is the handles of a grant with the same mode. When the last handle of
// the top level is released and the low level has handles, the entry is
// converted to their mode: a write lock becomes a read lock.
type level struct {
	mode   string
	rule   Rule                    // of the request; nil: exclusive
	count  int                     // handles that are not released
	ctx    context.Context         // grant.context, or one that ends with the last handle; nil: see contextOf
	cancel context.CancelCauseFunc // nil for grant.context
	over   error                   // with which a level without ctx has ended
}

// begin makes the grant one of the turn.
func (g *grant) begin(t *turn, r *Request) {
	g.turn, g.since, g.counted = t, time.Now(), r.Terms != nil
	g.top, g.low = level{mode: r.Mode, rule: r.Rule}, level{mode: r.Lesser}
}

// ends calls functions when contexts end: see engine.Ends.
type ends interface {
	Add(ctx context.Context, f func()) (stop func())
	Run()
}

// ends are those of the contexts under the grant.
func (g *grant) ends() ends {
	if g.part != nil {
		return g.part
	}
	return &g.turn.ends
}

// context is what the levels' contexts are derived from.
func (g *grant) context() context.Context {
	if g.nested != nil {
		return g.nested
	}
	return g.turn.ctx
}

// contextOf returns the context of a level that has had a handle. On a turn
// that serves several it is made here, when it is first asked for. The caller
// holds the turn's mu.
func (g *grant) contextOf(l *level) context.Context {
	if l.ctx != nil {
		return l.ctx
	}
	under := g.context()
	if l.over != nil { // and not with the turn's cause, which may end later
		under = context.Background()
	}
	l.ctx, l.cancel = context.WithCancelCause(under)
	if l.over != nil {
		l.cancel(l.over)
	}
	return l.ctx
}

// endLevel ends the contexts of a level. One that nobody has asked for cannot
// end, so the level keeps the cause: contextOf makes a context that has ended
// with it. The caller holds the turn's mu.
func (g *grant) endLevel(l *level, cause error) {
	switch under := g.context(); {
	// The turn's context must not end with a level: the turn may have another,
	// and its entry must be passed on first.
	case l.cancel != nil:
		l.cancel(cause)
	case l.ctx != nil || l.over != nil:
	case under.Err() != nil: // lost before
		l.over = context.Cause(under)
	default:
		l.over = cause
	}
}

// addHandle adds a handle to a level. The caller holds the turn's mu.
func (g *grant) addHandle(level *level) {
	// The level's context may end before the turn's. If it cannot, the level
	// has the grant's own: a context costs three objects for each lock. A turn
	// that serves several outlives the grant, whose contexts must end at its
	// release: they must not last while another caller works. That context is
	// made when it is asked for. Its grants have one level, which begins once.
	switch {
	case level.count > 0 || g.turn.many != nil:
	case g.low.mode == "" && g.turn.queue.maxHold == 0:
		level.ctx = g.context()
	default:
		level.ctx, level.cancel = context.WithCancelCause(g.context())
		// A re-entry after WithMaxHold has ended the contexts: the work under
		// it shall end, too.
		if g.tooLong {
			g.endLevel(level, ErrHeldTooLong)
		}
	}
	level.count++
}

// handles is the number of handles that are not released; 0 is final. The
// caller holds the turn's mu.
func (g *grant) handles() int { return g.top.count + g.low.count }

// dropHandle removes a handle. last: it was the grant's last one. If it was the
// last of the top level, dropHandle also starts the conversion to the lesser
// mode, unless the grant is over. This is one step: otherwise the other handles
// could be released in between, and the conversion would find an entry that is
// being removed.
func (g *grant) dropHandle(of *level, over bool) (last bool, conv *conversion) {
	turn := g.turn
	turn.mu.Lock()
	defer turn.mu.Unlock()
	of.count--
	g.wanted.wake() // a call of Wanted for this handle has to return
	if of.count == 0 {
		g.endLevel(of, coordinator.ErrReleased)
		g.ends().Run() // before a conversion; the functions do not lock mu
	}
	switch {
	case g.handles() == 0:
		g.nested.release()
		if turn.many != nil { // else they end with the turn
			g.close()
		}
		// With the count: a conversion or a re-entry that comes later finds
		// that the entry is about to leave. A turn that serves several is not
		// leaving yet: kept or shared decides that after the contexts of this
		// grant have ended.
		turn.leaving = turn.many == nil
		g.stopTimers()
		return true, nil
	// Only when the top level becomes empty: while it has handles, and after
	// that, the low level changes nothing at the service.
	case of == &g.top && of.count == 0 && !over:
		return false, turn.convert(g.low.mode)
	}
	return false, nil
}

// close ends what a grant has under a turn that goes on. The caller holds the
// turn's mu.
func (g *grant) close() {
	if g.nested != nil {
		g.nested.cancel(coordinator.ErrReleased)
	}
	if g.part != nil {
		g.part.Close()
	}
}

// dropUnlessLast removes a handle if its level has others and the grant is not
// over: then no other step is needed.
func (g *grant) dropUnlessLast(l *level) bool {
	g.turn.mu.Lock()
	defer g.turn.mu.Unlock()
	// The last handle, and that of a lost grant, go the long way: the first
	// has to be one step with what follows, and the second returns the loss.
	if l.count < 2 || g.turn.ctx.Err() != nil {
		return false
	}
	l.count--
	g.wanted.wake()
	return true
}

// endTurn releases the grant, whose last handle has left.
func (g *grant) endTurn(ctx context.Context) error {
	turn := g.turn
	// Before the entry leaves: its contexts must end before the next contender
	// can hold.
	if !turn.finish(coordinator.ErrReleased) { // lost since the check in Release
		_ = turn.session.Check(ctx) // waits for an end that is under way
		turn.endContexts(coordinator.ErrReleased)
		if cause := context.Cause(turn.ctx); !errors.Is(cause, coordinator.ErrReleased) {
			return cause
		}
	}
	// Before the request, which may take long: the work has ended, and the next
	// holder may begin before the answer.
	held := time.Since(g.since)
	err := turn.passOn(ctx)
	// The hold was lost at an unknown moment. Not if the error is uncertain: it
	// may wrap the cause of ctx, which may be any error.
	if errors.Is(err, coordinator.ErrNotHeld) && !coordinator.MayHaveApplied(err) {
		g.reportLoss(held, coordinator.ErrRemoved)
		return err
	}
	g.reportRelease(held, false, err)
	return err
}

// reportRelease notifies the observers. local: the entry stays.
func (g *grant) reportRelease(held time.Duration, local bool, err error) {
	t := g.turn
	// A timer may have fired between dropHandle and here. It reports before the
	// release does, or finds that no handle is left.
	t.mu.Lock()
	long := g.stopTimers()
	t.mu.Unlock()
	t.queue.client.Observe(event.Event{Kind: event.Released, Session: t.session.ID(),
		Queue: t.queue.id, Token: t.token, Duration: held, Long: long, Local: local, Err: err})
}

// lost implements lossReceiver, for a turn with one grant.
func (g *grant) lost(cause error) { g.reportLoss(time.Since(g.since), cause) }

func (g *grant) reportLoss(held time.Duration, cause error) {
	t := g.turn
	t.mu.Lock()
	long := g.stopTimers()
	g.nested.release() // the user may never release a lost hold
	t.mu.Unlock()
	// Without mu: a logger and an observer may use the hold.
	c := t.queue.client
	c.Log().Warn("baton: hold lost",
		"service", c.String(), "queue", t.queue.id, "token", t.token,
		"session", t.session.ID(), "held", held, "error", cause)
	c.Observe(event.Event{Kind: event.Lost, Session: t.session.ID(), Queue: t.queue.id,
		Token: t.token, Duration: held, Long: long, Err: cause})
}

// stopTimers stops the timers of a grant that is over, and reports whether
// observers were notified that it lasted long. The caller holds the turn's mu.
func (g *grant) stopTimers() bool {
	for _, t := range g.timers {
		t.Stop()
	}
	return g.long
}

// eachHeld calls f with the grant's entry, unless the grant is over.
func (g *grant) eachHeld(f func(engine.Held)) {
	t := g.turn
	t.mu.Lock()
	held := engine.Held{Session: t.session, Queue: t.queue.id, ID: t.place.ID, Token: t.token}
	over := g.handles() == 0 || t.ctx.Err() != nil
	t.mu.Unlock()
	// Without mu: f may use the hold, which may be over by then. A caller that
	// needs to know that asks the hold.
	if !over {
		f(held)
	}
}
