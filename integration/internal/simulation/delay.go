package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// This file judges mutexes with a lock-delay, and those whose holds have a
// longest time. Some of them keep their turns, too.

// lockDelay is the lock-delay of a name, which all its clients have, or zero.
func (w *world) lockDelay(n *name) time.Duration {
	if n.recipe != "mutex" || !w.swarm.on("lock-delay") {
		return 0
	}
	r := w.rng("lock-delay " + n.name)
	if r.IntN(2) == 0 {
		return 0
	}
	return min(someTime(r, 50*time.Millisecond, w.ttl/2, 2*w.ttl), recipes.MaxLockDelay)
}

// maxHold is the longest hold of a name at the client of a slot, or zero.
func (s *slot) maxHold(n *name) time.Duration {
	if n.recipe != "mutex" || !s.w.swarm.on("longest hold") {
		return 0
	}
	r := s.w.rng(fmt.Sprint("longest hold ", n.name, s.index))
	if r.IntN(2) == 0 {
		return 0
	}
	return someTime(r, 10*time.Millisecond, 300*time.Millisecond, s.w.ttl)
}

// holderNote is what a queue with a lock-delay says about its holder.
type holderNote struct {
	Token coordinator.Token
	Held  bool
}

// lossOf is the latest turn that was lost in a queue with a lock-delay: its
// entry has left, and its note still says that it holds.
type lossOf struct {
	token     coordinator.Token
	at, until time.Duration // until another note was written; zero before
	over      bool          // another contender was granted
	released  bool          // after all
}

// stepNote is called when the note of a queue has changed.
func (w *world) stepNote(l *queue, s memory.Step) {
	var n holderNote
	_ = json.Unmarshal(s.Record.Value, &n)
	w.log("%s: note of %d, held %v, by %s", s.Queue, n.Token, n.Held, s.By)
	if n != l.note && l.loss.at > 0 && l.loss.until == 0 {
		l.loss.until = w.now()
	}
	l.note = n
	if n.Token == l.loss.token && !n.Held { // its release was under way
		l.loss.over, l.loss.released = true, true
	}
	if n.Held && !l.has(n.Token) && n.Token != l.loss.token { // it was written late
		l.loss = lossOf{token: n.Token, at: w.now()}
	}
}

// stepLost is called before an entry leaves.
func (w *world) stepLost(l *queue, s memory.Step) {
	if !l.note.Held || l.note.Token != s.Entry.Token {
		return
	}
	l.loss = lossOf{token: s.Entry.Token, at: w.now()}
	if h := l.holds[s.Entry.Token]; h != nil {
		w.reachIf(h.given > 0 && s.By != memory.ByClient, idleTurnLost)
	}
}

// judgeDelay judges the first grant of a turn in a queue with a lock-delay. The
// caller holds w.mu.
func (w *world) judgeDelay(l *queue, token coordinator.Token) {
	if l.loss.at == 0 || l.loss.released || token <= l.loss.token {
		return
	}
	w.reachIf(!l.loss.over, grantedAfterDelay)
	l.loss.over = true
	if late := w.now() - l.loss.at; late < w.lockDelay(l.name) {
		w.violation("%s: token %d was granted %v after the loss of %d; the lock-delay is %v",
			l.name.queue, token, late, l.loss.token, w.lockDelay(l.name))
	}
}

// delays reports whether a Try may have met a lock-delay since a time. The
// caller holds w.mu.
func (l *queue) delays(since time.Duration) bool {
	return l.loss.at > 0 && (l.loss.until == 0 || l.loss.until >= since)
}

// tooLong reports whether the longest hold has ended a context.
func (x *handle) tooLong() bool {
	return done(x.ctx) && errors.Is(context.Cause(x.ctx), recipes.ErrHeldTooLong)
}

func (h *hold) tooLong() bool { return slices.ContainsFunc(h.handles, (*handle).tooLong) }

// judgeLength judges a handle that is about to be released: its context has
// ended if its hold lasts too long, and not before. The caller holds w.mu.
func (w *world) judgeLength(x *handle) {
	h := x.hold
	lasted := w.now() - h.granted
	w.reachIf(x.tooLong(), heldTooLong)
	switch {
	case h.most > 0 && lasted > h.most+soon && x.live():
		w.violation("%d is alive %v after its grant; the longest hold is %v", h.token, lasted, h.most)
	case x.tooLong() && (h.most == 0 || lasted < h.most):
		w.violation("%d was ended %v after its grant; the longest hold is %v", h.token, lasted, h.most)
	}
}

// stepTooLong: a hold whose context was ended since it lasts too long stays
// until it is released.
func (w *world) stepTooLong(l *queue, s memory.Step) {
	h := l.holds[s.Entry.Token]
	if h == nil || h.given > 0 || s.By != memory.ByClient || !h.tooLong() {
		return
	}
	_, condemned := l.condemned[h.token]
	if _, over := w.ended[h.session]; !condemned && !over {
		w.violation("%s: %d left before it was released", s.Queue, h.token)
	}
}
