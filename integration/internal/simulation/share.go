package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// This file judges read-write locks whose readers share entries
// (WithSharedReads): several grants may have one token at the same time. For
// the judge they are handles of one hold.

// shares reports whether the readers of a slot's client share the entries of a
// name. In worlds that share, two thirds of the clients do.
func (s *slot) shares(n *name) bool {
	return s.w.shares(n) && s.w.rng(fmt.Sprint("share ", n.name, s.index)).IntN(3) > 0
}

// shares reports whether some readers of a name may share entries.
func (w *world) shares(n *name) bool {
	return n.recipe == "rwlock" && !w.core && w.swarm.on("share reads")
}

// several reports whether callers of the client share entries of a name.
func (s *slot) several(n *name) bool { return s.retain(n) > 0 || s.shares(n) }

// sharedAgain records a grant of a token that was granted before to a reader of
// the same client. It returns the hold of both. The caller holds w.mu.
func (w *world) sharedAgain(l *queue, before, h *hold, c claim) *hold {
	w.reach(sharedRead)
	switch {
	case before.slot != h.slot || before.session != h.session || before.generation != h.generation:
		w.violation("%s: token %d was granted to two clients", l.name.queue, h.token)
		return h
	case c.writes || slices.ContainsFunc(before.handles, func(x *handle) bool { return x.writes }):
		w.violation("%s: token %d of a writer was granted again", l.name.queue, h.token)
		return h
	case !w.slots[h.slot].shares(l.name):
		w.violation("%s: token %d was granted twice", l.name.queue, h.token)
		return h
	}
	if before.againAt == 0 {
		before.againAt = w.now()
	}
	if since, away := w.away[h.session]; away && since < w.now() {
		w.violation("%s: token %d was granted again while the session is suspended since %v",
			l.name.queue, h.token, since)
	}
	w.overtakes(l, before, c)
	return before
}

// overtakes judges that a reader which shares an entry has not overtaken a
// writer that its client has seen. The caller holds w.mu.
func (w *world) overtakes(l *queue, h *hold, c claim) {
	for _, e := range l.entries {
		if e.Token <= h.token || e.Mode == "r" || e.ID == "" {
			continue
		}
		seen, known := w.seenAt(l, h, e)
		if known && c.asked > seen {
			w.violation("%s: a reader that began at %v was granted token %d before %d, which has waited since %v",
				l.name.queue, c.asked, h.token, e.Token, l.joined[e.Token])
		}
	}
}

// seenAt returns when the client of a shared entry has seen a writer behind it
// at the latest. The caller holds w.mu.
func (w *world) seenAt(l *queue, h *hold, writer driver.Entry) (at time.Duration, known bool) {
	if writer.Session != h.session {
		// By the watch, which exists since the second grant at the latest.
		at = max(l.joined[writer.Token], h.againAt, w.recoveredAt) + w.prompt
		return at, w.recoveredAt > 0
	}
	// A writer of the client is seen at its call if the entry is known by then,
	// else when the replies to both joins have arrived.
	if called := w.asked[w.actorOf(writer.ID)]; l.known[h.token] > 0 && l.known[h.token] < called {
		w.reach(sharedBeforeOwnWriter)
		return called, true
	}
	at, known = l.known[writer.Token]
	return max(at, l.known[h.token]), known
}

// auditShared: after the faults, the entry of a turn leaves with its last
// reader. The caller holds w.mu.
func (w *world) auditShared(l *queue) {
	if w.recoveredAt == 0 || !w.shares(l.name) {
		return
	}
	for _, e := range l.entries {
		h := l.holds[e.Token]
		if h == nil || h.alive() || h.given == 0 {
			continue
		}
		if late := w.now() - max(h.given, w.recoveredAt); late > w.prompt+lingers {
			w.violation("%s: %d is queued %v after its last reader has left", l.name.queue, e.Token, late)
		}
	}
}

// suspends records when a session is suspended, from its events. The caller
// holds w.mu.
func (w *world) suspends(session string, does bool) {
	if does {
		w.away[session] = w.now()
	} else {
		delete(w.away, session)
	}
}

// early reports whether the token of a grant may be no greater than that of an
// earlier one: it is one that its client shares. The caller holds w.mu.
func (w *world) early(l *queue, h *hold, c claim, floor coordinator.Token) bool {
	if w.retains(l.name) && h.token == floor {
		return true
	}
	return !c.writes && w.slots[h.slot].shares(l.name)
}

// readers are the additional actors at some read-write locks, which read most
// of the time.
const readers = 6

// reads reports whether an actor reads in a round.
func (a *actor) reads() bool {
	if strings.HasPrefix(a.label, "reader") {
		return a.r.IntN(8) > 0
	}
	return a.r.IntN(2) > 0
}
