package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// queue is the judge's state of a queue, from the service's steps and the
// holders.
type queue struct {
	name    *name
	entries []driver.Entry // at the service
	limits  []limitAt
	heads   []leaderAt
	joined  map[coordinator.Token]time.Duration
	gone    []departure // in the order in which they left
	changes []change    // of all entries, in order
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
	said map[coordinator.Token]time.Duration // when an entry showed that it holds
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

// step is called with each step of the service, while it happens.
func (w *world) step(s memory.Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.queues[s.Queue]
	if l == nil { // of slots
		return
	}
	i := slices.IndexFunc(l.entries, func(e driver.Entry) bool { return e.Token == s.Entry.Token })
	if s.Kind == memory.StepRecord {
		var r struct{ Limit int }
		_ = json.Unmarshal(s.Record.Value, &r)
		l.limits = append(l.limits, limitAt{w.now(), r.Limit})
		w.log("%s: limit %d by %s", s.Queue, r.Limit, s.By)
		return
	}
	w.log("%s: %d %s (%s) by %s, session %s", s.Queue, s.Entry.Token, s.Kind,
		showMode(s.Entry.Mode), s.By, s.Entry.Session)
	switch s.Kind {
	case memory.StepJoined:
		if n := len(l.entries); n > 0 && l.entries[n-1].Token >= s.Entry.Token {
			w.violation("%s: %d joined behind %d", s.Queue, s.Entry.Token, l.entries[n-1].Token)
		}
		l.entries = append(l.entries, s.Entry)
		l.joined[s.Entry.Token] = w.now()
	case memory.StepConverted, memory.StepWritten:
		l.changes = append(l.changes, change{w.now(), s.Entry.Token, l.entries[i].Place})
		l.entries[i] = s.Entry
		w.stepConverted(l, s)
	case memory.StepLeft:
		l.changes = append(l.changes, change{w.now(), s.Entry.Token, l.entries[i].Place})
		l.entries = slices.Delete(l.entries, i, i+1)
		l.gone = append(l.gone, departure{l.joined[s.Entry.Token], w.now(), w.labels[s.Entry.ID]})
		w.stepLeft(l, s)
	}
	l.head(w.now())
	w.next(l)
}

// showMode omits the version, which does not help readers of a trace.
func showMode(mode string) string {
	mode, _, _ = strings.Cut(mode, "v")
	return mode
}

// stepConverted: a holder whose entry excludes less no longer acts on the old
// mode.
func (w *world) stepConverted(l *queue, s memory.Step) {
	if s.Kind == memory.StepConverted && l.said[s.Entry.Token] == 0 {
		l.said[s.Entry.Token] = w.now()
	}
	h := l.holds[s.Entry.Token]
	if h == nil || !l.judged(h) {
		return
	}
	if l.name.recipe == "rwlock" && s.Entry.Mode == "r" &&
		slices.ContainsFunc(h.handles, func(x *handle) bool { return x.writes && x.live() }) {
		w.violation("%s: %d became a reader while its write lock is alive", s.Queue, h.token)
	}
	if l.name.recipe == "semaphore" && permitsOf(s.Entry.Mode) < h.permits {
		w.violation("%s: %d says %s while %d permits are held", s.Queue, h.token, s.Entry.Mode,
			h.permits)
	}
}

// stepLeft: an entry that leaves has no live hold, unless an operator removed
// it.
func (w *world) stepLeft(l *queue, s memory.Step) {
	h := l.holds[s.Entry.Token]
	if s.By != memory.ByClient {
		w.wasRemoved(s.Entry.ID)
	}
	if s.Passed {
		w.stepPassed(l, s)
	}
	if s.By == memory.ByOperator {
		w.condemned++
		l.condemned[s.Entry.Token] = fateOf{w.now(), !w.removing}
		return
	}
	if s.By == memory.ByClock && h != nil && len(l.entries) > 0 {
		w.natural++
	}
	if _, condemned := l.condemned[s.Entry.Token]; h != nil && !condemned &&
		slices.ContainsFunc(h.handles, (*handle).live) {
		w.violation("%s: %d left by %s while its context is alive", s.Queue, h.token, s.By)
	}
}

// stepPassed: for a follower a handoff is the grant, so only an exclusive entry
// that was first may hand over.
func (w *world) stepPassed(l *queue, s memory.Step) {
	w.passes++
	if len(l.entries) > 0 && l.entries[0].Token < s.Entry.Token {
		w.violation("%s: %d handed over behind %d", l.name.queue, s.Entry.Token, l.entries[0].Token)
	}
	if l.name.recipe == "semaphore" || s.Entry.Mode == "r" {
		w.violation("%s: %d handed over without being exclusive", l.name.queue, s.Entry.Token)
	}
	if !l.won[s.Entry.Token] {
		w.violation("%s: %d handed over without a grant", l.name.queue, s.Entry.Token)
	}
}

// hasLeft reports whether a place has left its queue.
func (w *world) hasLeft(name driver.Queue, p driver.Place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.queues[name]
	return l != nil && !slices.ContainsFunc(l.entries,
		func(e driver.Entry) bool { return e.Place == p })
}

// followed counts the results of Follow; late means that the place had left
// before the call.
func (w *world) followed(late, passed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
	case late:
		w.belated++
	case passed:
		w.handed++
	default:
		w.unsaid++
	}
}

// watched counts the waiters that were notified that their entry is gone.
func (w *world) watched(ctx context.Context, id string, err error) {
	label, ok := ctx.Value(actorKey{}).(string)
	own := ok && strings.HasPrefix(w.label(id), label+"#")
	w.mu.Lock()
	defer w.mu.Unlock()
	if own && err == nil {
		w.orphans++
	}
}

// ask is called when an actor starts to acquire. It returns the greatest token
// that was granted before.
func (w *world) ask(who string, n *name) (floor coordinator.Token, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reads, who)
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
	w.grants++
	w.kindOf(l, c)
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
	if l.granted[c.token] {
		w.violation("%s: token %d was granted twice", l.name.queue, c.token)
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

// kindOf counts a grant.
func (w *world) kindOf(l *queue, c claim) {
	if w.reads[c.who].slept {
		w.contended++
	}
	if w.mendedAt == 0 {
		w.early++
	}
	if _, condemned := l.condemned[c.token]; condemned {
		w.doomed++
	}
}

// judgeGrant judges what must be true at the moment of a grant.
func (w *world) judgeGrant(l *queue, h *hold, c claim) {
	if h.token <= c.floor {
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
	for _, e := range l.entries[:i] {
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

// audit judges all holds, against the queue and each other. The caller holds
// w.mu.
func (w *world) audit(l *queue) {
	var alive []*hold
	for _, h := range l.holds {
		if l.judged(h) {
			alive = append(alive, h)
		}
		w.auditCondemned(l, h)
	}
	if l.name.recipe == "semaphore" {
		w.auditPermits(l, alive)
	}
	for _, h := range alive {
		i := l.place(h)
		if i < 0 {
			w.violation("%s: %d holds and is not queued with its session %s", l.name.queue,
				h.token, h.session)
			continue
		}
		if l.name.recipe != "semaphore" &&
			!admitted(l.entries[:i], !h.writes() && l.name.recipe == "rwlock") {
			w.violation("%s: %d holds (writes: %v) behind %v", l.name.queue, h.token, h.writes(),
				l.entries[:i])
		}
		for _, other := range alive {
			if other.token != h.token && h.writes() {
				w.violation("%s: %d holds beside %d, which excludes it", l.name.queue, other.token,
					h.token)
			}
		}
	}
}

// admitted is the rule of all recipes but the semaphore.
func admitted(ahead []driver.Entry, reads bool) bool {
	return !slices.ContainsFunc(ahead, func(e driver.Entry) bool { return !reads || e.Mode != "r" })
}

// auditPermits judges the sum of the permits and their numbers.
func (w *world) auditPermits(l *queue, alive []*hold) {
	sum := 0
	taken := map[int]coordinator.Token{}
	slices.SortFunc(alive, func(a, b *hold) int { return cmp.Compare(a.token, b.token) })
	for _, h := range alive {
		// An admitted contender has counted all entries ahead, and they have
		// not become more.
		sum += h.permits
		if most := l.most(h.decided, h.granted); sum > most {
			w.violation("%s: %d permits are held up to %d, which was admitted with %d",
				l.name.queue, sum, h.token, most)
		}
		for _, slot := range h.slots {
			if other, dup := taken[slot]; dup {
				w.violation("%s: %d and %d both have number %d", l.name.queue, h.token, other, slot)
			}
			taken[slot] = h.token
		}
	}
}

// auditCondemned: a holder whose session an operator expired notices it within
// the TTL, whatever the network does. It notices a deleted entry with a watch,
// for which the network must work.
func (w *world) auditCondemned(l *queue, h *hold) {
	fate, condemned := l.condemned[h.token]
	if !condemned || !h.alive() {
		return
	}
	late := w.now() - fate.at
	if !fate.session {
		if late = w.now() - max(fate.at, w.mendedAt); w.mendedAt == 0 {
			return
		}
		if fate.at > w.recoveredAt && w.recoveredAt > 0 {
			// For that long it does not watch its entry, as a waiter and then
			// as a holder.
			late += w.ttl - ownWatchDelay - 250*time.Millisecond - 2*w.prompt
		} else {
			late -= 2*w.longest + time.Second
		}
	}
	if late > w.ttl {
		w.violation("%s: %d is alive %v after an operator ended it", l.name.queue, h.token,
			w.now()-fate.at)
	}
}

// reentered records another handle of a grant.
func (w *world) reentered(of *handle, c claim) *handle {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.queues[c.name.queue]
	w.reentries++
	w.log("%s: %s re-enters %d, writes %v", l.name.queue, c.who, c.token, c.writes)
	h := of.hold
	if c.token != h.token || c.session != h.session {
		w.violation("%s: %d was re-entered by a hold of token %d", l.name.queue, h.token, c.token)
	}
	x := &handle{hold: h, ctx: c.ctx, also: c.also, writes: c.writes}
	h.handles = append(h.handles, x)
	w.audit(l)
	return x
}

// giving records that a handle is about to be released. If it is the last, no
// entry of the grant may be queued after the call returned nil.
func (w *world) giving(x *handle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.given = true
}

// gave judges the result of the release.
func (w *world) gave(n *name, x *handle, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.queues[n.queue]
	h := x.hold
	last := !slices.ContainsFunc(h.handles, func(x *handle) bool { return !x.given })
	w.log("%s: %d released, last %v: %s", n.queue, h.token, last, brief(err))
	if last && err == nil && l.place(h) >= 0 {
		w.violation("%s: %d was released and is queued", n.queue, h.token)
	}
	if i := l.place(h); err == nil && x.writes && i >= 0 && l.name.recipe == "rwlock" &&
		l.entries[i].Mode != "r" && !slices.ContainsFunc(h.handles,
		func(x *handle) bool { return x.writes && !x.given }) {
		w.violation("%s: %d is no longer held for writing, but its entry still is", n.queue,
			h.token)
	}
	if last {
		if slices.ContainsFunc(h.handles, (*handle).live) {
			w.violation("%s: %d was released, and a context of it is alive", n.queue, h.token)
		}
		h.slots = nil
	}
	w.audit(l)
}

// auditor audits all queues from time to time.
func (w *world) auditor(until time.Duration) {
	r := w.rng(fmt.Sprint("auditor until ", until))
	for w.now() < until {
		time.Sleep(time.Duration(1 + r.Int64N(int64(w.ttl/5))))
		w.mu.Lock()
		for _, l := range w.queues {
			w.audit(l)
			w.auditWaiters(l)
		}
		if w.recoveredAt > 0 {
			w.auditWatchers()
		}
		w.mu.Unlock()
	}
}

// next determines the next contender to admit, and since when: the first one
// without a grant, if the rule admits it. The others are notified after that.
func (w *world) next(l *queue) {
	var next coordinator.Token
	used, version := 0, ""
	for i, e := range l.entries {
		if l.name.recipe == "semaphore" {
			if n := len(l.limits); w.core && n > 0 && l.joined[e.Token] <= l.limits[n-1].at {
				break // it joined with another limit, and cannot show that it holds
			}
			used += permitsOf(e.Mode)
			if _, v, asks := strings.Cut(e.Mode, "v"); asks && version != "" && v != version {
				// They joined with different limits, and may have to wait until
				// the holders show that they hold.
				break
			} else if asks {
				version = v
			}
		}
		if l.granted[e.Token] {
			continue
		}
		if l.name.recipe == "semaphore" && used <= l.most(w.now(), w.now()) ||
			l.name.recipe != "semaphore" &&
				admitted(l.entries[:i], l.name.recipe == "rwlock" && e.Mode == "r") {
			next = e.Token
		}
		break
	}
	if next != l.next.token || w.recoveredAt == 0 {
		l.next.token, l.next.since = next, w.now()
	}
}

// auditWaiters: after the faults, a contender that can be admitted is, and
// entries that nobody waits for are removed.
func (w *world) auditWaiters(l *queue) {
	prompt := w.prompt
	if l.name.recipe == "semaphore" {
		// A contender that waits for the conversion of its predecessor may have
		// seen another queue than that: see recipes/queuewatch.go.
		prompt += engine.SettleAfter
	}
	if w.next(l); l.next.token != 0 && w.now()-l.next.since > prompt {
		w.violation("%s: %d could be admitted since %v, but is not, and does not leave", l.name.queue,
			l.next.token, l.next.since)
	}
}

// ownWatchDelay is how long a waiter waits before it watches its own entry; see
// Session.Follow.
const ownWatchDelay = time.Second
