package simulation

import (
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// This file records which of the named states a world has reached.

// evidenceOfStates is guarded by the world's mu.
type evidenceOfStates struct {
	severed   map[Link]time.Duration // links that are cut, and since when
	stoppedAt time.Duration          // when the service was stopped last
	sendings  map[string]int         // calls that were sent for a contender
	clients   map[string]*slot       // of each contender
	cutAt     map[int]time.Duration  // when the client of a slot was cut off last
}

func newEvidenceOfStates() evidenceOfStates {
	return evidenceOfStates{severed: map[Link]time.Duration{}, sendings: map[string]int{},
		clients: map[string]*slot{}, cutAt: map[int]time.Duration{}}
}

// note calls f with w.mu locked.
func (w *world) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// cut cuts a client off.
func (w *world) cut(l Link) {
	w.note(func() {
		w.severed[l] = w.now()
		w.cutAt[w.owner[l].index] = w.now()
	})
	l.Cut()
}

// heal ends a cut.
func (w *world) heal(l Link) {
	w.note(func() {
		since, cut := w.severed[l]
		delete(w.severed, l)
		if s := w.owner[l]; cut && s.link == l {
			for _, q := range w.queues {
				for _, h := range q.holds {
					w.reachIf(h.slot == s.index && h.granted < since && q.judged(h), heldAcrossCut)
				}
			}
		}
	})
	l.Heal()
}

// has reports whether an entry is queued.
func (l *queue) has(token coordinator.Token) bool {
	return slices.ContainsFunc(l.entries, func(e driver.Entry) bool { return e.Token == token })
}

// shows returns how many permits an entry asks for or holds.
func (l *queue) shows(token coordinator.Token) int {
	for _, e := range l.entries {
		if e.Token == token {
			return permitsOf(e.Mode)
		}
	}
	return 0
}

// holds reports whether the slot's client holds anything.
func (w *world) holds(s *slot) bool {
	for _, l := range w.queues {
		for _, h := range l.holds {
			if h.slot == s.index && h.generation == s.started && h.alive() {
				return true
			}
		}
	}
	return false
}

// sendsAgain is called when a removal is sent.
func (w *world) sendsAgain(what string, name driver.Queue, id string) {
	w.sendings[what+" "+id]++
	l := w.queues[name]
	if l == nil || w.sendings[what+" "+id] < 2 {
		return
	}
	queued := slices.ContainsFunc(l.entries, func(e driver.Entry) bool { return e.ID == id })
	w.reachIf(what == "leave" && !queued, releasedTwice)
	w.reachIf(what == "forget", removedTwice)
}

// reachedBy records what a grant shows.
func (w *world) reachedBy(l *queue, c claim) {
	waited := w.reads[c.who].slept
	_, condemned := l.condemned[c.token]
	w.reachIf(waited, grantedAfterWait)
	w.reachIf(w.mendedAt == 0, grantedEarly)
	w.reachIf(condemned, grantedWhenGone)
	w.reachIf(waited && l.expired, grantedAfterExpiry)
	w.reachIf(waited && w.stoppedAt > c.asked, grantedAcrossStop)
	w.reachIf(waited && w.cutAt[c.slot] > c.asked, grantedAcrossCut)
}

// reachedByStep is called before the step changes the judge's queue.
func (w *world) reachedByStep(l *queue, s memory.Step) {
	h := l.holds[s.Entry.Token]
	switch s.Kind {
	case memory.StepJoined:
		w.reachIf(w.sendings["join "+s.Entry.ID] > 0, joinedTooLate)
		w.reachIf(slices.ContainsFunc(l.entries, func(e driver.Entry) bool {
			own := w.clients[s.Entry.ID]
			return own != nil && w.clients[e.ID] == own && e.Session != s.Entry.Session
		}), queuedBesideOwnOldEntry)
	case memory.StepConverted:
		w.reachIf(l.next.token == 0 && len(l.entries) > 1, convertedWhileWaiting)
		w.reachIf(h != nil && l.name.recipe == "rwlock" && s.Entry.Mode == "r", writerBecameReader)
		w.reachIf(h != nil && l.name.recipe == "semaphore" && permitsOf(s.Entry.Mode) < l.shows(s.Entry.Token), releasedInPart)
	case memory.StepLeft:
		first := len(l.entries) > 1 && l.entries[0].Token == s.Entry.Token
		w.reachIf(first && s.Entry.ID == "", foreignEntryLeft)
		l.expired = first && s.By == memory.ByClock
		w.reachIf(s.Passed && len(w.severed) > 0, handedWhileCut)
		if s.Passed && len(l.entries) > 1 {
			if next := w.clients[l.entries[1].ID]; next != nil {
				_, cut := w.severed[next.link]
				w.reachIf(cut, handedToCutClient)
			}
		}
	}
}

// reachedByLimit is called after a limit has changed.
func (w *world) reachedByLimit(l *queue) {
	n := len(l.limits)
	if n < 2 {
		return
	}
	sum := 0
	for _, h := range l.holds {
		if l.judged(h) {
			sum += h.permits
		}
	}
	w.reachIf(l.limits[n-1].limit < sum, limitLoweredBelowHeld)
	w.reachIf(l.limits[n-1].limit > l.limits[n-2].limit && len(l.entries) > 0 &&
		!l.granted[l.entries[len(l.entries)-1].Token], limitRaisedForWaiters)
}
