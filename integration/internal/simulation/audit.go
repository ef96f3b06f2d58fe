package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

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
			!admitted(w.counting(l.entries[:i]), !h.writes() && l.name.recipe == "rwlock") {
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

// counting returns the entries that a contender behind them must have seen.
func (w *world) counting(ahead []driver.Entry) []driver.Entry {
	if !w.traits.Passes {
		return ahead
	}
	return slices.DeleteFunc(slices.Clone(ahead), func(e driver.Entry) bool { return e.ID == "" })
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

// auditor audits all queues from time to time, while there are actors.
func (w *world) auditor(until time.Duration) {
	r := w.rng(fmt.Sprint("auditor until ", until))
	for w.now() < until && w.over.Err() == nil {
		time.Sleep(time.Duration(1 + r.Int64N(int64(w.ttl/5))))
		w.mu.Lock()
		for _, l := range w.queues {
			w.audit(l)
			w.auditWaiters(l)
			w.auditKept(l)
			w.auditShared(l)
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
		if l.name.recipe == "semaphore" && used+l.heldBehind(i) <= l.most(w.now(), w.now()) ||
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

// heldBehind returns the permits of contenders behind one that show that they
// hold. They count for it if the limit has changed since it joined: they may
// have been admitted by the limit before, when there was room for all.
func (l *queue) heldBehind(i int) (sum int) {
	if n := len(l.limits); n == 0 || l.joined[l.entries[i].Token] > l.limits[n-1].at {
		return 0
	}
	for _, e := range l.entries[i+1:] {
		if strings.HasPrefix(e.Mode, "h") {
			sum += permitsOf(e.Mode)
		}
	}
	return sum
}

// auditWaiters: after the faults, a contender that can be admitted is, and
// entries that nobody waits for are removed.
func (w *world) auditWaiters(l *queue) {
	prompt := w.prompt + w.lockDelay(l.name)
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
