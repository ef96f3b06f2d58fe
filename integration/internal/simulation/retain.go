package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file judges mutexes whose clients keep their turns (WithRetain): several
// grants may have one token, one after the other.

// retain is how long the client of a slot keeps the turns of a name, or zero.
// In worlds that retain, about half of the clients do.
func (s *slot) retain(n *name) time.Duration {
	if !s.w.retains(n) {
		return 0
	}
	r := s.w.rng(fmt.Sprint("retain ", n.name, s.index))
	if r.IntN(3) == 0 {
		return 0
	}
	return someTime(r, 10*time.Millisecond, 300*time.Millisecond, s.w.ttl)
}

// someTime is a random time of at least a millisecond, of a random magnitude.
func someTime(r *rand.Rand, most ...time.Duration) time.Duration {
	return time.Millisecond + time.Duration(r.Int64N(int64(most[r.IntN(len(most))])))
}

// retains reports whether some clients may keep the turns of a name.
func (w *world) retains(n *name) bool {
	return n.recipe == "mutex" && !w.core && w.swarm.on("retain")
}

// keeper is the label of the contenders that the callers of a client share.
func (s *slot) keeper(queue driver.Queue) string {
	return fmt.Sprintf("keeper%d-%s", s.index, queue)
}

// evidence is that of an actor, and in a queue whose turns its client keeps
// also that of the other callers of the client, with which it shares entries.
// What ended the entry may have happened before the actor came, while its reply
// was under way. The caller holds w.mu.
func (a *actor) evidence() evidence {
	own := a.w.seen[a.label]
	if !a.slot.several(a.name) {
		return own
	}
	early := a.w.longest + a.w.ttl
	if at := max(a.slot.refused, a.w.refusedAt); at > 0 {
		own.refused = max(own.refused, at+early)
	}
	for label, seen := range a.w.seen {
		if label != a.slot.keeper(a.name.queue) && !strings.HasPrefix(label, fmt.Sprintf("c%d.", a.slot.index)) &&
			!strings.HasPrefix(label, "line") && !strings.HasPrefix(label, "reader") {
			continue
		}
		if seen.removed > 0 {
			own.removed = max(own.removed, seen.removed+early)
		}
		if seen.refused > 0 {
			own.refused = max(own.refused, seen.refused+early)
		}
	}
	return own
}

// mayBeTaken reports whether a Try may have found the name taken since a time.
// The caller holds w.mu.
func (a *actor) mayBeTaken(l *queue, since time.Duration) bool {
	return a.w.traits.Stale || a.w.otherQueued(l, a.label, since) || a.usesTurn(l) ||
		l.delays(since-a.w.traits.Lag)
}

// usesTurn reports whether a caller of the actor's client uses a turn of a
// queue, perhaps without knowing that its entry was removed.
func (a *actor) usesTurn(l *queue) bool {
	return a.slot.retain(a.name) > 0 && slices.ContainsFunc(slices.Collect(maps.Values(l.holds)),
		func(h *hold) bool { return h.slot == a.slot.index && slices.ContainsFunc(h.handles, (*handle).live) })
}

// grantedAgain judges a grant of a token that was granted before. The caller
// holds w.mu.
func (w *world) grantedAgain(l *queue, before, h *hold) {
	w.reach(passedLocally)
	switch {
	case !w.retains(l.name):
		w.violation("%s: token %d was granted twice", l.name.queue, h.token)
	case before.slot != h.slot || before.session != h.session || before.generation != h.generation:
		w.violation("%s: token %d was granted to two clients", l.name.queue, h.token)
	case before.given == 0:
		w.violation("%s: token %d was granted again before it was released", l.name.queue, h.token)
	case slices.ContainsFunc(before.handles, (*handle).live):
		w.violation("%s: token %d was granted again while a context of it is alive", l.name.queue, h.token)
	}
	h.againAt = before.againAt
	if h.againAt == 0 {
		h.againAt = before.given // another contender is seen from then on
	}
	i := l.place(h)
	if i < 0 || i+1 >= len(l.entries) || w.recoveredAt == 0 {
		return
	}
	// The queue is watched from the first time on. Then the callers that wait
	// already are served for 10 ms or two holds.
	since := max(l.joined[l.entries[i+1].Token], h.againAt, w.recoveredAt)
	most := max(10*time.Millisecond, 2*(before.given-before.granted)) + w.prompt
	if late := w.now() - since; late > most {
		w.violation("%s: token %d was granted again while %d waits for %v, which is more than %v",
			l.name.queue, h.token, l.entries[i+1].Token, late, most)
	}
}

// auditKept: after the faults, a turn that nobody uses is passed on as soon as
// another contender waits. The caller holds w.mu.
func (w *world) auditKept(l *queue) {
	if w.recoveredAt == 0 || len(l.entries) < 2 || !w.retains(l.name) {
		return
	}
	h := l.holds[l.entries[0].Token]
	if h == nil || h.alive() || h.given == 0 {
		return
	}
	since := max(h.given, l.joined[l.entries[1].Token], w.recoveredAt)
	if late := w.now() - since; late > w.prompt {
		w.violation("%s: %d is kept for %v while %d waits", l.name.queue, h.token, late,
			l.entries[1].Token)
	}
}

// mayKeep reports whether an entry may stay in the queue after the release of
// its hold.
func (w *world) mayKeep(l *queue, h *hold) bool {
	return w.slots[h.slot].several(l.name)
}
