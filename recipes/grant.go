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

// grant is an admitted entry, shared by the handles of all who re-entered it.
type grant struct {
	queue   *Queue
	session *engine.Session
	token   driver.Token
	since   time.Time
	// the place from which its release hands over: it was first in the queue,
	// and exclusive; or zero
	passes driver.Place

	ctx    context.Context // ends when the grant does, with the cause
	cancel context.CancelCauseFunc
	noted  driver.Version // of its note in the record; see attempt.rest
	quiet  func() bool    // stops the report of a loss with the session

	mu       sync.Mutex
	info     info
	top, low level        // low has no mode unless the request has a Lesser one
	place    driver.Place // as the last conversion that is known to have succeeded left it
	value    []byte
	// the mode to convert to when the hold has lasted; empty if there is none,
	// or it has begun
	held string
	// held, by sending to it, while the entry's value is written or the entry
	// converted
	writing    chan struct{}
	conversion *conversion // the latest conversion; nil if there was none

	timers  []*time.Timer // of WithHoldWarning and WithMaxHold
	long    bool          // observers know that the grant lasts long
	tooLong bool          // the contexts were ended
}

// level is the handles of a grant that have one mode in common. When the last
// one of the top level is released and the low level has some, the entry is
// converted to the mode of these: a write lock that was read within becomes a
// read lock.
type level struct {
	mode  string
	count int             // handles that are not released
	ctx   context.Context // that of the grant, or
	// one of the level's own, which ends with its last handle; else nil
	cancel context.CancelCauseFunc
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
		g.passes = g.place
	}
	g.mu.Lock() // settled can run at once
	// The loss is reported even if nobody looks at the context: a lost hold is
	// never silent.
	var alive bool
	g.quiet, alive = a.session.Hold(g.settled, g.lost)
	g.watchTime()
	if g.held != "" && !a.last {
		g.convert(g.held)
	}
	h := g.handle(ctx, &g.top)
	g.mu.Unlock()
	if !alive {
		g.lost()
	}
	return h
}

// handle returns one more handle. Its context has the values of ctx, but not
// its end: a ctx that bounded the wait must not bound the hold. The caller
// holds g.mu.
func (g *grant) handle(ctx context.Context, l *level) *Hold {
	// it may end before the grant does
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

// ErrOtherMode says that the context carries a hold of the queue, but in a mode
// that cannot be entered in the one asked for.
var ErrOtherMode = fmt.Errorf("%w: the context holds the name in a mode that cannot become "+
	"the one asked for: unlock it first", coordinator.ErrInvalid)

// Held reports whether ctx carries a hold of the queue (see Hold.Context) that
// is not over.
func (l *Queue) Held(ctx context.Context) bool {
	g, _ := ctx.Value(l.key).(*grant)
	if g == nil || g.err(ctx) != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holds() > 0
}

// reenter returns one more handle of the grant that ctx carries, or nil if
// there is none of this queue that is not over. A grant whose mode does not
// include the one asked for is refused: the caller would wait for itself.
func (l *Queue) reenter(ctx context.Context, r *Request) (*Hold, error) {
	g, _ := ctx.Value(l.key).(*grant)
	if g == nil || r.Fresh {
		return nil, nil
	}
	select { // not Err: that of a hold's context may ask the service, without heeding ctx
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

// leave counts one handle less. last: it was the last of all. When it was the
// last of the top level, leave begins the conversion to the lesser mode, unless
// the grant is over. That is one step, or the other handles could be released
// before, and the conversion meet an entry that is being removed.
func (g *grant) leave(l *level, over bool) (last bool, t *conversion) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.count--
	if l.count == 0 {
		l.end(coordinator.ErrReleased)
	}
	switch {
	case g.holds() == 0:
		g.timed()
		return true, nil
	case l == &g.top && l.count == 0 && !over:
		return false, g.convert(g.low.mode)
	}
	return false, nil
}

// leaveOthers counts one handle less if others of its level are left and the
// grant is not over: then nothing else has to be done.
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
// timers, and then why it ended. When the service has to be asked and ctx ends
// before the answer, it is ctx's cause, and whether the grant is over is not
// known.
func (g *grant) err(ctx context.Context) error {
	var unknown error
	if g.ctx.Err() == nil {
		// ends the session, and with it g.ctx, if its deadline has passed
		unknown = g.session.Check(ctx)
	}
	if g.ctx.Err() == nil {
		return unknown
	}
	return context.Cause(g.ctx)
}

// settled is called after engine.SettleAfter: shorter holds pay neither for the
// conversion to Terms.Held, nor for the watch that notices a deleted entry at
// once.
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

func (g *grant) watchSelf() {
	for {
		place := g.standing() // not while it is converted: the watch would fire
		if g.session.Await(g.ctx, g.queue.id, place) != nil {
			return // released, or lost with the session, which is reported as that
		}
		if g.standing() == place {
			// after a pause of the process, the clock may show that the session
			// ended
			if g.err(g.ctx) == nil {
				g.removed()
			}
			return
		}
	}
}

// removed ends a grant whose entry is not in the queue any more. A late request
// to join can still arrive, so the entry is abandoned here: the user may never
// release a lost hold.
func (g *grant) removed() {
	if !g.over(coordinator.ErrRemoved) {
		return
	}
	g.mu.Lock()
	place := g.place
	g.mu.Unlock()
	g.session.Abandon(g.queue.id, place)
	g.lost()
}

// over ends a grant for a cause, and reports whether that was before the
// session's end.
func (g *grant) over(cause error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.quiet()
	if first {
		g.cancel(cause)
	}
	return first
}

// lost is called by the session's end, or by a caller to which g.quiet returned
// true.
func (g *grant) lost() { g.reportLoss(time.Since(g.since), context.Cause(g.ctx)) }

func (g *grant) reportLoss(held time.Duration, cause error) {
	g.mu.Lock()
	long := g.timed()
	g.mu.Unlock()
	c := g.queue.client
	c.Log().Warn("baton: hold lost",
		"queue", g.queue.id, "token", g.token, "session", g.session.ID(),
		"held", held, "error", cause)
	c.Observe(event.Event{Kind: event.Lost, Session: g.session.ID(), Queue: g.queue.id,
		Token: g.token, Duration: held, Long: long, Err: cause})
}
