package recipes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// selfWatchAfter is how long a hold lasts before it watches its own entry. The watch tells
// at once when somebody deletes the entry at the service; a hold that is shorter
// would pay two requests for a watch that it does not need. Session loss needs no
// such watch.
const selfWatchAfter = 250 * time.Millisecond

// grant is one entry that was admitted, shared by the holds that re-entered it.
type grant struct {
	line    *Line
	session *coordinator.Session
	place   driver.Place
	token   driver.Token
	mode    string
	since   time.Time

	ctx    context.Context // ends when the grant does, with the cause
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	count int         // holds that are not released; 0 is final
	watch *time.Timer // starts the watch on the own entry
	quiet func() bool // takes back the report of a loss with the session
}

// Hold is one handle of a grant: whoever re-enters gets a handle of its own, with the same
// token. The grant is given back when all of its handles are released. A Hold is safe for
// concurrent use.
type Hold struct {
	grant    *grant
	ctx      *holdContext
	released atomic.Bool
}

func newHold(ctx context.Context, l *Line, s *coordinator.Session, j driver.Joined, mode string) *Hold {
	g := &grant{line: l, session: s, place: j.Place, token: j.Token, mode: mode, since: time.Now(), count: 1}
	g.ctx, g.cancel = context.WithCancelCause(s.Context())
	// The loss is reported even if nobody looks at the context: a lost hold is never silent.
	g.quiet = s.OnEnd(g.lost)
	g.mu.Lock() // watchSelf may run at once
	g.watch = time.AfterFunc(selfWatchAfter, g.watchSelf)
	g.mu.Unlock()
	return g.handle(ctx)
}

// handle returns a handle whose context has the values of ctx, but not its end: a ctx that
// bounded the wait must not bound the hold.
func (g *grant) handle(ctx context.Context) *Hold {
	return &Hold{grant: g, ctx: &holdContext{Context: g.ctx, values: context.WithoutCancel(ctx), grant: g}}
}

// reenter returns one more handle of the grant that ctx carries, if it is of this line and not
// over. Otherwise the caller stands in line like everybody else. A grant of another mode is not
// the same thing, and waiting for oneself would never end: that is refused.
func (l *Line) reenter(ctx context.Context, mode string) (*Hold, error) {
	g, _ := ctx.Value(holdKey{l.client, l.line}).(*grant)
	if g == nil || g.err() != nil {
		return nil, nil
	}
	if g.mode != mode {
		return nil, invalid("held in mode %q by the caller's context, which cannot enter in mode %q", g.mode, mode)
	}
	if !g.enter() {
		return nil, nil // released meanwhile
	}
	l.client.Observe(coordinator.Event{Kind: coordinator.EventReentered, Session: g.session.ID(), Line: l.line, Token: g.token})
	return g.handle(ctx), nil
}

// enter counts one more handle, unless the last one is released already.
func (g *grant) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count == 0 {
		return false
	}
	g.count++
	return true
}

// leave counts one handle less and reports whether it was the last.
func (g *grant) leave() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count--
	if g.count > 0 {
		return false
	}
	g.watch.Stop()
	return true
}

// err returns nil while the grant holds, by the clock and not only by its timers, and then
// why it ended.
func (g *grant) err() error {
	if g.ctx.Err() == nil {
		_ = g.session.Err() // ends the session, and with it g.ctx, if its deadline has passed
	}
	if g.ctx.Err() == nil {
		return nil
	}
	return context.Cause(g.ctx)
}

// watchSelf waits in the background for the entry to be removed by somebody else.
func (g *grant) watchSelf() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count == 0 || g.ctx.Err() != nil {
		return
	}
	g.session.Go(func() {
		if g.session.Await(g.ctx, g.line.line, g.place) != nil || !g.quiet() {
			return // released, or lost with the session, which is reported as that
		}
		g.cancel(coordinator.ErrRemoved)
		g.lost()
	})
}

// lost reports the end of a grant that was not released. Whoever took g.quiet back calls it, or the
// session's end does: never both.
func (g *grant) lost() {
	cause := context.Cause(g.ctx)
	held := time.Since(g.since)
	c := g.line.client
	c.Log().Warn("baton: hold lost", "line", g.line.line, "token", g.token, "session", g.session.ID(),
		"held", held, "error", cause)
	c.Observe(coordinator.Event{Kind: coordinator.EventLost, Session: g.session.ID(), Line: g.line.line,
		Token: g.token, Duration: held, Err: cause})
}

// Token is the fencing token of the grant. Hand it to every resource that the hold
// protects, and have the resource refuse tokens smaller than the greatest it has seen.
func (h *Hold) Token() driver.Token { return h.grant.token }

// Context ends when the hold does: released, lost with the session, or removed. Its cause tells
// which (ErrReleased, ErrSessionLost, ErrRemoved, ErrClosed). It has the values of the
// context given to the call that made this hold, but not its deadline. Its Err looks at the
// clock, so that a process which was paused sees the loss at once; contexts derived
// from it see it when their timers have run. After re-entering it ends with the last handle.
//
// Given to a call on the same line, it re-enters the hold.
func (h *Hold) Context() context.Context { return h.ctx }

// Err returns nil while this handle holds, and then why it does not.
func (h *Hold) Err() error {
	if h.released.Load() {
		return coordinator.ErrReleased
	}
	return h.grant.err()
}

// Deadline is when the hold ends unless the session is renewed before, as it is every
// quarter of the TTL.
func (h *Hold) Deadline() time.Time { return h.grant.session.Deadline() }

// Session is the ID of the session that holds.
func (h *Hold) Session() string { return h.grant.session.ID() }

// Release gives this handle back, and the grant with the last one: its context ends with
// ErrReleased first, then the entry is removed, and the next in line is
// admitted. It works with a ctx that is dead already, for up to two seconds.
//
// A handle is released once; after that Release returns ErrNotHeld and does nothing.
// When the hold was lost before, the error says why, and nothing is deleted. When ctx
// ends first, or the service refuses, the error says so, with Maybe set if it may have been applied, and the
// release goes on in the background until it is done or the session has ended.
func (h *Hold) Release(ctx context.Context) error {
	if !h.released.CompareAndSwap(false, true) {
		return coordinator.ErrNotHeld
	}
	g := h.grant
	last, err := g.leave(), g.err()
	if last && errors.Is(err, coordinator.ErrRemoved) {
		g.session.Abandon(g.line.line, g.place) // nothing is left to leave, but a late request may be to come
	}
	if err != nil || !last {
		return err
	}
	if !g.quiet() {
		_ = g.session.Err() // it is ending, or the entry was removed, this very moment
	}
	g.cancel(coordinator.ErrReleased)
	if cause := context.Cause(g.ctx); !errors.Is(cause, coordinator.ErrReleased) {
		return cause // lost between the two looks
	}
	held := time.Since(g.since)
	err = g.session.Leave(ctx, g.line.line, g.place)
	g.line.client.Observe(coordinator.Event{Kind: coordinator.EventReleased, Session: g.session.ID(),
		Line: g.line.line, Token: g.token, Duration: held, Err: err})
	return err
}
