package simulation

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// queue is the judge's state of a queue, from the service's steps and the
// holders.
type queue struct {
	name    *name
	entries []driver.Entry // at the service
	limits  []limitAt
	heads   []leaderAt
	joined  map[coordinator.Token]time.Duration
	known   map[coordinator.Token]time.Duration // when its client knew that it has joined
	gone    []departure                         // in the order in which they left
	changes []change                            // of all entries, in order
	holds   map[coordinator.Token]*hold
	granted map[coordinator.Token]bool // returned to a caller
	// won are tokens whose grant was observed. The call may still return an
	// error, if its context has ended by then.
	won map[coordinator.Token]bool
	// condemned are tokens of entries that an operator removed.
	condemned map[coordinator.Token]fateOf
	next      struct { // the next contender to admit, and since when
		token coordinator.Token
		since time.Duration
	}
	expired bool                                // the first entry left last by the service's clock
	said    map[coordinator.Token]time.Duration // when an entry showed that it holds
	// The greatest token that was granted, and the greatest of exclusive
	// grants.
	greatest, greatestAlone coordinator.Token
}

// change is the removal or the conversion of an entry.
type change struct {
	at    time.Duration
	token coordinator.Token
	place driver.Place // before
}

type limitAt struct {
	at    time.Duration
	limit int
}

// fateOf is when and how a hold was condemned.
type fateOf struct {
	at      time.Duration
	session bool // the session was expired; else only the entry was deleted
}

// hold is a grant as its holder knows it.
type hold struct {
	token   coordinator.Token
	session string
	id      string // the contender's, empty if its entry was gone at the grant
	slot    int
	handles []*handle
	// generation is that of the client in the slot.
	generation int
	permits    int
	decided    time.Duration // when the view changed last by which it was admitted
	granted    time.Duration
	given      time.Duration // when the release of its last handle began
	againAt    time.Duration // when its token was first given to another caller; see grantedAgain
	slots      []int
}

// handle is one of the handles of a grant.
type handle struct {
	hold *hold
	ctx  context.Context
	// also are the other contexts that the caller has for it: the handle's own,
	// if ctx is that of work, and one derived from ctx.
	also []context.Context
	// writes: it excludes all others. given: its owner has begun to release it.
	writes, given bool
}

func newQueue(n *name) *queue {
	return &queue{name: n, heads: []leaderAt{{}}, joined: map[coordinator.Token]time.Duration{},
		known: map[coordinator.Token]time.Duration{},
		holds: map[coordinator.Token]*hold{}, granted: map[coordinator.Token]bool{},
		won:       map[coordinator.Token]bool{},
		condemned: map[coordinator.Token]fateOf{}, said: map[coordinator.Token]time.Duration{}}
}

func (h *handle) alive() bool { return !h.given && h.live() }

// live: one of the contexts is alive, also while the handle is being released.
func (h *handle) live() bool {
	return !done(h.ctx) || slices.ContainsFunc(h.also,
		func(ctx context.Context) bool { return !done(ctx) })
}

// done does not call Err, which reads the clock and may end the session.
func done(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func (h *hold) alive() bool { return slices.ContainsFunc(h.handles, (*handle).alive) }

// writes: it is alive, and excludes all others.
func (h *hold) writes() bool {
	return slices.ContainsFunc(h.handles, func(x *handle) bool { return x.writes && x.alive() })
}

// judged: alive, and not condemned.
func (l *queue) judged(h *hold) bool {
	_, condemned := l.condemned[h.token]
	return !condemned && h.alive()
}

// ask is called when an actor starts to acquire. It returns the greatest token
// that was granted before.
func (w *world) ask(who string, n *name) (floor coordinator.Token, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reads, who)
	w.asked[who] = w.now()
	return w.queues[n.queue].greatest, w.now()
}

// claim is the result of a call that was granted.
type claim struct {
	name       *name
	also       []context.Context
	slot       int
	generation int
	who        string
	token      coordinator.Token
	session    string
	ctx        context.Context
	writes     bool
	permits    int
	floor      coordinator.Token
	asked      time.Duration
}

// granted judges a grant when it is returned.
func (w *world) granted(c claim) *handle {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.queues[c.name.queue]
	w.reach(granted)
	w.reachedBy(l, c)
	w.log("%s: %s holds by token %d, writes %v, permits %d", l.name.queue, c.who, c.token, c.writes,
		c.permits)
	if w.mendedAt > 0 {
		w.slowest = max(w.slowest, w.now()-max(w.mendedAt, c.asked))
	}
	h := &hold{token: c.token, session: c.session, slot: c.slot, generation: c.generation,
		permits: c.permits, decided: w.decided(l, c), granted: w.now()}
	if i := l.place(h); i >= 0 {
		h.id = l.entries[i].ID
	}
	x := &handle{hold: h, ctx: c.ctx, also: c.also, writes: c.writes}
	h.handles = []*handle{x}
	switch before := l.holds[c.token]; {
	case l.granted[c.token] && l.name.recipe == "rwlock":
		if all := w.sharedAgain(l, before, h, c); all != h {
			h, x.hold = all, all
			h.handles = append(h.handles, x)
		}
	case l.granted[c.token]:
		w.grantedAgain(l, before, h)
	}
	l.granted[c.token], l.holds[c.token] = true, h
	w.next(l)
	if at, over := w.ended[c.session]; over && at < w.now() {
		w.violation("%s: token %d was granted on session %s, which ended at %v", l.name.queue,
			c.token, c.session, at)
	}
	fate, condemned := l.condemned[c.token]
	switch {
	case !x.alive(): // it ended between the grant and now
	case condemned && w.now()-fate.at > w.unaware(fate):
		w.violation("%s: token %d was granted %v after its entry was gone", l.name.queue, c.token,
			w.now()-fate.at)
	case !condemned:
		w.judgeGrant(l, h, c)
	}
	l.greatest = max(l.greatest, c.token)
	if c.writes {
		l.greatestAlone = max(l.greatestAlone, c.token)
	}
	w.audit(l)
	return x
}

// unaware is how long a contender whose entry was removed may still be granted:
// while a view, or the reply to its join, is under way; or, if it was deleted,
// before it watches its own entry.
func (w *world) unaware(fate fateOf) time.Duration {
	limit := w.longest + w.ttl
	if w.recoveredAt > 0 && fate.at >= w.recoveredAt {
		limit = w.prompt
	}
	if !fate.session {
		limit += ownWatchDelay
	}
	return limit
}

// judgeGrant judges what must be true at the moment of a grant.
func (w *world) judgeGrant(l *queue, h *hold, c claim) {
	if h.token <= c.floor && !w.early(l, h, c, c.floor) {
		w.violation("%s: token %d was granted to a call that began after the grant of %d", l.name.queue,
			h.token, c.floor)
	}
	if c.writes && h.token < l.greatest || h.token < l.greatestAlone {
		w.violation("%s: token %d was granted after %d (%d excluded all others)", l.name.queue,
			h.token, l.greatest, l.greatestAlone)
	}
	i := l.place(h)
	if i < 0 || l.name.recipe != "semaphore" {
		return // audit judges it
	}
	used := h.permits
	for _, e := range w.counting(l.entries[:i]) {
		used += permitsOf(e.Mode)
	}
	if w.reads[c.who].slept {
		w.judgeSum(l, h, i)
	}
	if most := l.most(h.decided, w.now()); used > most {
		w.violation("%s: token %d was granted %d permits, and with those ahead that makes %d; "+
			"the greatest limit since %v, when its view changed last, is %d",
			l.name.queue, h.token, h.permits, used, h.decided, most)
	}
}

// place returns the index of a hold in the queue, or -1.
func (l *queue) place(h *hold) int {
	return slices.IndexFunc(l.entries, func(e driver.Entry) bool {
		return e.Token == h.token &&
			e.Session == h.session
	})
}

// permitsOf parses "p3v00a1" and "h3". Any other entry blocks the queue.
func permitsOf(mode string) int {
	if mode == "" {
		return 1 << 30
	}
	number, _, _ := strings.Cut(mode[1:], "v")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 1 << 30
	}
	return n
}
