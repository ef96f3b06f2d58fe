package simulation

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

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
		if l.name.recipe == "mutex" {
			w.stepNote(l, s)
			return
		}
		var r struct{ Limit int }
		_ = json.Unmarshal(s.Record.Value, &r)
		l.limits = append(l.limits, limitAt{w.now(), r.Limit})
		w.log("%s: limit %d by %s", s.Queue, r.Limit, s.By)
		w.reachedByLimit(l)
		return
	}
	w.log("%s: %d %s (%s) by %s, session %s", s.Queue, s.Entry.Token, s.Kind,
		showMode(s.Entry.Mode), s.By, s.Entry.Session)
	w.reachedByStep(l, s)
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
	w.stepLost(l, s)
	w.stepTooLong(l, s)
	h := l.holds[s.Entry.Token]
	if s.By != memory.ByClient {
		w.wasRemoved(s.Entry.ID)
	}
	if s.Passed {
		w.stepPassed(l, s)
	}
	if s.By == memory.ByOperator {
		l.condemned[s.Entry.Token] = fateOf{w.now(), !w.removing}
		return
	}
	if s.By == memory.ByClock && h != nil && len(l.entries) > 0 {
		w.reach(lostByClock)
	}
	if _, condemned := l.condemned[s.Entry.Token]; h != nil && !condemned &&
		slices.ContainsFunc(h.handles, (*handle).live) {
		w.violation("%s: %d left by %s while its context is alive", s.Queue, h.token, s.By)
	}
}

// stepPassed: for a follower a handoff is the grant, so only an exclusive entry
// that was first may hand over.
func (w *world) stepPassed(l *queue, s memory.Step) {
	w.reach(handedOver)
	if rest := w.counting(l.entries); len(rest) > 0 && rest[0].Token < s.Entry.Token {
		w.violation("%s: %d handed over behind %d", l.name.queue, s.Entry.Token, rest[0].Token)
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
		w.reach(followedTooLate)
	case passed:
		w.reach(handedToFollower)
	default:
		w.reach(leftWithoutHandoff)
	}
}

// watched counts the waiters that were notified that their entry is gone.
func (w *world) watched(ctx context.Context, id string, err error) {
	label := labelOf(ctx)
	own := label != "" && strings.HasPrefix(w.label(id), label+"#")
	w.mu.Lock()
	defer w.mu.Unlock()
	if own && err == nil {
		w.reach(followerGone)
	}
}
