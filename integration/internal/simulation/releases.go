package simulation

import (
	"slices"
)

// reentered records another handle of a grant.
func (w *world) reentered(of *handle, c claim) *handle {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.queues[c.name.queue]
	w.reach(reentered)
	w.log("%s: %s re-enters %d, writes %v", l.name.queue, c.who, c.token, c.writes)
	h := of.hold
	w.reachIf(!l.has(h.token), reenteredDuringLoss)
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
	w.judgeLength(x)
	if !slices.ContainsFunc(x.hold.handles, func(x *handle) bool { return !x.given }) {
		x.hold.given = w.now()
	}
}

// gave judges the result of the release.
func (w *world) gave(n *name, x *handle, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.queues[n.queue]
	h := x.hold
	last := !slices.ContainsFunc(h.handles, func(x *handle) bool { return !x.given })
	w.log("%s: %d released, last %v: %s", n.queue, h.token, last, brief(err))
	if last && err == nil && l.place(h) >= 0 && !w.mayKeep(l, h) {
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
