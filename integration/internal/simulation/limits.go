package simulation

import (
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// This file judges by which limits permits are granted.

// viewed is called with each view that an actor gets, before its delay. changed
// is when the view changed last: a place that could be in it and is not had
// left by then, and those that are in it had not. A view of the whole queue is
// of a contender that counts places behind it, too.
func (w *world) viewed(who string, name driver.Queue, own driver.Place, v driver.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.queues[name]
	look := w.reads[who]
	if l == nil || !look.joined { // the view of a Try, before it joins
		return
	}
	token := coordinator.Token(1 << 62)
	if i := slices.IndexFunc(l.entries, func(e driver.Entry) bool { return e.ID == own.ID }); i >= 0 {
		token = l.entries[i].Token
	}
	look.changed = 0
	for i := len(l.changes) - 1; i >= 0; i-- {
		if x := l.changes[i]; x.token < token && !slices.Contains(v.Ahead, x.place) {
			look.changed = x.at
			break
		}
	}
	w.reads[who] = look
}

// decided is when the view changed last by which a contender was admitted. A
// limit that was not in force then or later must not admit it. Without a view,
// that is when it joined, as the first.
func (w *world) decided(l *queue, c claim) time.Duration {
	return max(l.joined[c.token], w.reads[c.who].changed)
}

// judgeSum judges the permits held when a waiter is admitted: they fit its
// limit, which was in force when its view changed last or later. Of the
// contenders behind it only those count that showed by then that they hold.
func (w *world) judgeSum(l *queue, h *hold, i int) {
	sum := 0
	for _, other := range l.holds {
		said, says := l.said[other.token]
		if l.judged(other) && (l.place(other) <= i || says && said < h.decided) {
			sum += other.permits
		}
	}
	if most := l.most(h.decided, w.now()); sum > most {
		w.violation("%s: token %d was granted %d permits, and %d are held of %d", l.name.queue,
			h.token, h.permits, sum, most)
	}
}

// most is the greatest limit in force between two times.
func (l *queue) most(since, until time.Duration) (most int) {
	for i, x := range l.limits {
		if x.at > until {
			break
		}
		if i == len(l.limits)-1 || l.limits[i+1].at >= since {
			most = max(most, x.limit)
		}
	}
	return most
}
