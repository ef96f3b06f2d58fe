package recipes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// grant is an admitted entry, shared by its handles.
type grant struct {
	queue   *Queue
	session *engine.Session
	token   driver.Token
	since   time.Time
	// the place from which a release hands over: that of an exclusive entry
	// that was first in the queue; else zero
	handoff driver.Place

	ctx    context.Context // ends when the grant does, with the cause
	cancel context.CancelCauseFunc
	// of the levels' contexts: run after each that is ended, before the entry
	// leaves or is converted
	ends   engine.Ends
	noted  driver.Version // of its note in the record; see attempt.lockDelay
	unhook func() bool    // stops the report of a loss with the session

	mu       sync.Mutex
	info     info
	top, low level        // low has no mode unless the request has a Lesser mode
	place    driver.Place // after the last conversion known to have succeeded
	value    []byte
	// the mode to convert to after engine.SettleAfter; empty if there is none
	// or the conversion has begun
	held string
	// held, by sending to it, while the entry's value is written or the entry
	// converted
	writing    chan struct{}
	conversion *conversion // the latest conversion; nil if there was none

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
	count  int                     // handles that are not released
	ctx    context.Context         // the grant's, or one that ends with the last handle
	cancel context.CancelCauseFunc // nil for the grant's ctx
}

func (l *level) end(cause error) {
	if l.cancel != nil {
		l.cancel(cause)
	}
}

// hold returns the first handle of the grant that the attempt has won.
func (a *attempt) hold(ctx context.Context) *Hold {
	g := &grant{
		queue: a.queue, session: a.session, token: a.joined.Token, since: time.Now(),
		place: a.joined.Place, info: a.info, value: a.value, noted: a.noted,
		writing: make(chan struct{}, 1),
	}
	g.ctx, g.cancel = context.WithCancelCause(a.session.Context())
	g.top, g.low = level{mode: a.Mode, ctx: g.ctx}, level{mode: a.Lesser}
	if a.Terms != nil {
		g.held = a.Terms.Held
	}
	if a.exclusive() && a.first {
		g.handoff = g.place
	}
	g.mu.Lock() // settled can run at once
	// The loss is reported even if no caller uses the context.
	var alive bool
	g.unhook, alive = a.session.Hold(g.settled, g.ends.Run, g.lost)
	g.watchTime(ctx)
	if g.held != "" && !a.last {
		g.convert(g.held)
	}
	h := g.handle(ctx, &g.top)
	g.mu.Unlock()
	a.queued = false
	if !alive {
		g.lost()
	}
	return h
}

// handle returns another handle. Its context has the values of ctx but does
// not end with ctx, which bounds only the wait. The caller holds g.mu.
func (g *grant) handle(ctx context.Context, l *level) *Hold {
	// the level's context may end before the grant's
	if (g.low.mode != "" || g.queue.maxHold > 0) && l.count == 0 {
		l.ctx, l.cancel = context.WithCancelCause(g.ctx)
		if g.tooLong {
			l.end(ErrHeldTooLong)
		}
	}
	l.count++
	return &Hold{level: l, ctx: holdContext{Context: l.ctx, values: ctx, grant: g}}
}

// holds is the number of handles that are not released; 0 is final. The caller
// holds g.mu.
func (g *grant) holds() int { return g.top.count + g.low.count }

// ErrOtherMode means that the context carries a hold of the queue whose mode
// does not include the requested mode.
var ErrOtherMode = fmt.Errorf("%w: the context holds the name in another mode: unlock it first",
	coordinator.ErrInvalid)

// Held reports whether ctx carries a live hold of the queue: see Hold.Context.
func (q *Queue) Held(ctx context.Context) bool {
	g, _ := ctx.Value(q.key).(*grant)
	if g == nil || g.err(ctx) != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holds() > 0
}

// reenter returns another handle of the live grant of this queue that ctx
// carries, or nil if there is none. If the grant's mode does not include the
// requested mode, it returns an error: the caller would wait for itself.
func (q *Queue) reenter(ctx context.Context, r *Request) (*Hold, error) {
	g, _ := ctx.Value(q.key).(*grant)
	if g == nil || r.Fresh {
		return nil, nil
	}
	select { // not ctx.Err: that of a hold's context may ask the service
	case <-ctx.Done():
		return nil, nil
	default:
	}
	if err := g.err(ctx); err != nil {
		if g.ctx.Err() != nil {
			err = nil
		}
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.holds() == 0:
		return nil, nil // released meanwhile
	case r.Mode == g.top.mode && g.top.count > 0:
		return g.handle(ctx, &g.top), nil
	case g.low.mode != "" && r.Mode == g.low.mode:
		return g.handle(ctx, &g.low), nil
	}
	return nil, ErrOtherMode
}

// leave removes a handle. last: it was the grant's last one. If it was the last
// of the top level, leave also starts the conversion to the lesser mode, unless
// the grant is over. This is one step: otherwise the other handles could be
// released in between, and the conversion would find an entry that is being
// removed.
func (g *grant) leave(l *level, over bool) (last bool, t *conversion) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.count--
	if l.count == 0 {
		l.end(coordinator.ErrReleased)
		g.ends.Run() // before a conversion; the functions do not lock g.mu
	}
	switch {
	case g.holds() == 0:
		g.stopTimers()
		return true, nil
	case l == &g.top && l.count == 0 && !over:
		return false, g.convert(g.low.mode)
	}
	return false, nil
}

// leaveOthers removes a handle if its level has others and the grant is not
// over: then no other step is needed.
func (g *grant) leaveOthers(l *level) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.count < 2 || g.ctx.Err() != nil {
		return false
	}
	l.count--
	return true
}

// err returns nil while the grant holds, and then why it ended. It reads the
// clock, since timers may be late. If the service has to be asked and ctx ends
// before the answer, err returns the cause of ctx; then it is unknown whether
// the grant is over.
func (g *grant) err(ctx context.Context) error {
	var unknown error
	if g.ctx.Err() == nil {
		// ends the session and g.ctx if the deadline has passed
		unknown = g.session.Check(ctx)
	}
	if g.ctx.Err() == nil {
		return unknown
	}
	return context.Cause(g.ctx)
}

// settled is called after engine.SettleAfter. Shorter holds cost neither the
// conversion to Terms.Held nor the watch for a deletion of the entry.
func (g *grant) settled() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holds() == 0 || g.ctx.Err() != nil {
		return
	}
	if g.held != "" {
		g.convert(g.held)
	}
	g.session.Go(g.watchSelf)
}

// watchSelf ends the grant when its entry is removed. A release, and a loss
// with the session, are reported elsewhere. A watch that the service refuses
// for now is tried again: the next contender is admitted when the entry is
// removed.
func (g *grant) watchSelf() {
	for refused := 0; ; {
		place := g.settledPlace() // during a conversion the watch would fire
		if g.session.Await(g.ctx, g.queue.id, place) != nil {
			if refused++; g.queue.PauseAgain(g.ctx, refused) != nil {
				return
			}
			continue
		}
		if g.settledPlace() == place {
			// after a pause of the process the clock may show that the session
			// has ended
			if g.err(g.ctx) == nil {
				g.removed()
			}
			return
		}
	}
}

// removed ends a grant whose entry is gone. The user may never release a lost
// hold, so the entry is left in the background: a late join could still create
// it again.
func (g *grant) removed() {
	if !g.over(coordinator.ErrRemoved) {
		return
	}
	g.mu.Lock()
	place := g.place
	g.mu.Unlock()
	g.session.LeaveLater(g.queue.id, place)
	g.lost()
}

// over ends a grant with a cause, and reports whether it did so before the
// session's end.
func (g *grant) over(cause error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.unhook()
	if first {
		g.finish(cause)
	}
	return first
}

// finish ends all contexts of the grant. When it returns, the entry may leave.
func (g *grant) finish(cause error) {
	g.cancel(cause)
	g.ends.Run()
}

// lost is called when the session ends, or by a caller to which g.unhook
// returned true.
func (g *grant) lost() { g.reportLoss(time.Since(g.since), context.Cause(g.ctx)) }

func (g *grant) reportLoss(held time.Duration, cause error) {
	g.mu.Lock()
	long := g.stopTimers()
	g.mu.Unlock()
	c := g.queue.client
	c.Log().Warn("baton: hold lost",
		"service", c.String(), "queue", g.queue.id, "token", g.token,
		"session", g.session.ID(), "held", held, "error", cause)
	c.Observe(event.Event{Kind: event.Lost, Session: g.session.ID(), Queue: g.queue.id,
		Token: g.token, Duration: held, Long: long, Err: cause})
}
