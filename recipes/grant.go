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

// grant is one entry that was admitted, shared by the holds that re-entered it.
type grant struct {
	queue   *Queue
	session *engine.Session
	token   driver.Token
	since   time.Time
	passes  driver.Place // its place for as long as it excludes everybody else and stands first in the queue; or zero

	ctx    context.Context // ends when the grant does, with the cause
	cancel context.CancelCauseFunc
	noted  driver.Version // of the note that it has left; see rest
	quiet  func() bool    // stops the report of a loss with the session

	mu         sync.Mutex
	info       info
	top, low   *level       // low is nil unless the request has a Lesser mode
	place      driver.Place // as the last conversion that is known to have succeeded left it
	value      []byte
	held       string        // the mode to convert to when the hold has lasted; empty if there is none, or it is done
	settle     *time.Timer   // runs settled
	writing    chan struct{} // see writeLock; nil until somebody asks for it
	first      level         // the top one at first
	overtime   *overtime     // nil, unless there is something to tell of a hold that lasts long
	conversion *conversion   // the latest conversion; nil if there was none
}

// level is the holds of a grant that have one mode in common. When the last one
// of the top level is released and there are others, the entry is converted to
// their mode.
type level struct {
	mode   string
	count  int                     // holds that are not released
	ctx    context.Context         // that of the grant, or
	cancel context.CancelCauseFunc // one of the level's own, which ends with its last hold; else nil
}

// end ends the level's own context, if it has one.
func (l *level) end(cause error) {
	if l.cancel != nil {
		l.cancel(cause)
	}
}

// hold makes h the first hold of the grant that the attempt has won.
func (a *attempt) hold(ctx context.Context, h *Hold) {
	g := &grant{
		queue: a.queue, session: a.session, token: a.joined.Token, since: time.Now(),
		place: a.joined.Place, info: a.info, value: a.value, held: a.Held,
	}
	g.ctx, g.cancel = context.WithCancelCause(a.session.Context())
	g.noted = a.noted
	if a.Exclusive && a.first {
		g.passes = g.place
	}
	g.first = level{mode: a.Mode, ctx: g.ctx}
	g.top = &g.first
	if a.Lesser != "" { // then either level may end before the grant does
		g.low = &level{mode: a.Lesser}
	}
	// The loss is reported even if nobody looks at the context: a lost hold is never silent.
	g.quiet = a.session.OnEnd(g.lost)
	g.mu.Lock() // settled may run at once
	defer g.mu.Unlock()
	g.settle = time.AfterFunc(engine.SettleAfter, g.settled)
	g.watchTime()
	if g.held != "" && !a.last {
		g.convert(g.held)
	}
	g.handle(ctx, h, g.top)
}

// writeLock is held, by sending to it, by whoever writes the entry's value.
func (g *grant) writeLock() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.writing == nil {
		g.writing = make(chan struct{}, 1)
	}
	return g.writing
}

// handle makes h one more handle, and counts it. Its context has the values of
// ctx, but not its end: a ctx that bounded the wait must not bound the hold.
// The caller holds g.mu.
func (g *grant) handle(ctx context.Context, h *Hold, l *level) {
	if (g.low != nil || g.queue.maxHold > 0) && l.count == 0 {
		l.ctx, l.cancel = context.WithCancelCause(g.ctx)
		if g.overtime != nil && g.overtime.tooLong {
			l.end(ErrHeldTooLong)
		}
	}
	l.count++
	h.level = l
	h.ctx.Context, h.ctx.values, h.ctx.grant = l.ctx, ctx, g
}

// holds is the number of handles that are not released; 0 is final. The caller holds g.mu.
func (g *grant) holds() int {
	if g.low == nil {
		return g.top.count
	}
	return g.top.count + g.low.count
}

// ErrOtherMode says that the context carries a hold of the queue, but in a mode that cannot be
// entered in the one asked for.
var ErrOtherMode = fmt.Errorf("%w: the queue is held by the caller's context in another mode", coordinator.ErrInvalid)

// reenter makes h one more handle of the grant that ctx carries, if that is of
// this queue and not over. Otherwise the caller is queued like everybody
// else. A grant whose mode does not include the one asked for is refused:
// waiting for oneself would never end.
func (l *Queue) reenter(ctx context.Context, h *Hold, r *Request) (entered bool, err error) {
	g, _ := ctx.Value(l.key).(*grant)
	if g == nil || r.Fresh || g.unlooked(ctx).Err() != nil {
		return false, nil
	}
	if err := g.err(ctx); err != nil {
		if g.ctx.Err() != nil {
			err = nil
		}
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.holds() == 0:
		return false, nil // released meanwhile
	case r.Mode == g.top.mode && g.top.count > 0:
		g.handle(ctx, h, g.top)
	case g.low != nil && r.Mode == g.low.mode:
		g.handle(ctx, h, g.low)
	default:
		return false, ErrOtherMode
	}
	return true, nil
}

// leave counts one handle less. last: it was the last of all. When it was the
// last of the top level, and the grant goes on in the lesser mode, leave begins
// the conversion, unless the grant is over. Both in one step: between them
// others could give back the rest, and the conversion would meet an entry on
// its way out.
func (g *grant) leave(l *level, over bool) (last bool, t *conversion) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.count--
	if l.count == 0 {
		l.end(coordinator.ErrReleased)
	}
	switch {
	case g.holds() == 0:
		g.settle.Stop()
		g.timed()
		return true, nil
	case l == g.top && l.count == 0 && !over:
		return false, g.convert(g.low.mode)
	}
	return false, nil
}

// leaveOthers counts one handle less if others of its level are left and the
// grant is not over: then nothing else has to be done, and a release costs next
// to nothing.
func (g *grant) leaveOthers(l *level) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.count < 2 || g.ctx.Err() != nil {
		return false
	}
	l.count--
	return true
}

// err returns nil while the grant holds, by the clock and not only by its
// timers, and then why it ended. When the service has to be asked, because the
// machine may have slept, it waits for the answer, but no longer than ctx: then
// the error is ctx's cause, and whether the grant is over is not known.
func (g *grant) err(ctx context.Context) error {
	var unknown error
	if g.ctx.Err() == nil {
		unknown = g.session.Check(ctx) // ends the session, and with it g.ctx, if its deadline has passed
	}
	if g.ctx.Err() == nil {
		return unknown
	}
	return context.Cause(g.ctx)
}

// settled is called when the hold has lasted for engine.SettleAfter and is
// worth more than its grant: then it is converted to the mode that says that it
// holds, if it has one, and watches its own entry. The watch tells at once when
// somebody deletes the entry at the service. A hold that is shorter would pay
// requests for what it does not need. Session loss needs no such watch.
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

// watchSelf waits for the entry to be removed by somebody else.
func (g *grant) watchSelf() {
	for {
		place := g.standing() // not while it is being converted: the watch would be told of that
		if g.session.Await(g.ctx, g.queue.queue, place) != nil {
			return // released, or lost with the session, which is reported as that
		}
		if g.standing() == place {
			if g.err(g.ctx) == nil { // after a pause of the process it may be the session that ended, and the clock knows
				g.removed()
			}
			return
		}
	}
}

// removed ends a grant whose entry is not in the queue any more. Nothing is left
// to leave, but a late request to join may be to come, and whoever is told to
// stop may never release what he has lost.
func (g *grant) removed() {
	if !g.over(coordinator.ErrRemoved) {
		return
	}
	g.mu.Lock()
	place := g.place
	g.mu.Unlock()
	g.session.Abandon(g.queue.queue, place)
	g.lost()
}

// over ends a grant for a cause, and reports whether it was the first to do so:
// the session's end may have been quicker.
func (g *grant) over(cause error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.quiet()
	if first {
		g.cancel(cause)
	}
	return first
}

// lost reports the end of a grant that was not released. Whoever called g.quiet
// and got true calls it, or the session's end does: never both.
func (g *grant) lost() { g.reportLoss(time.Since(g.since), context.Cause(g.ctx)) }

// reportLoss reports that the grant was lost after so long.
func (g *grant) reportLoss(held time.Duration, cause error) {
	g.mu.Lock()
	long := g.timed()
	g.mu.Unlock()
	c := g.queue.client
	c.Log().Warn("baton: hold lost", "queue", g.queue.queue, "token", g.token, "session", g.session.ID(),
		"held", held, "error", cause)
	c.Observe(event.Event{Kind: event.Lost, Session: g.session.ID(), Queue: g.queue.queue,
		Token: g.token, Duration: held, Long: long, Err: cause})
}
