package recipes

import (
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file warns of waits that may never end: behind an entry that no session
// owns, and behind a hold of the caller's own process.

// beginWait notes that a wait begins, and reports the strays of the queue until
// stop is called.
func (a *attempt) beginWait() (stop func()) {
	a.since = time.Now()
	return a.session.SeekStrays(a.queue.id)
}

// suspectOwn warns after a TTL that the contender waits for a hold of its own
// session. It may be right to, but a goroutine that locks again without the
// context of its hold waits for itself, and nothing else would say so. A
// request that never re-enters is not suspected.
func (a *attempt) suspectOwn(v Verdict) (stop func()) {
	if a.Fresh || !v.Next || v.Watch[0].Session != a.session.ID() {
		return func() {}
	}
	name := func() { a.nameOwn(v.Watch[0]) }
	timer := time.AfterFunc(a.session.TTL(), func() { a.session.Go(name) })
	return func() { timer.Stop() }
}

// nameOwn logs the warning if the entry ahead is the first in the queue, so
// that it holds, once for each hold: many readers may wait for one writer.
func (a *attempt) nameOwn(ahead driver.Place) {
	q := a.queue
	first, err := a.session.List(a.session.Context(), q.id, 1)
	if err != nil || len(first) == 0 || first[0].Key != ahead.Key {
		return
	}
	if token := first[0].Token; q.suspected.Swap(int64(token)) != int64(token) {
		q.warnOfOwn(a.Op, token, a.since)
	}
}

func (q *Queue) warnOfOwn(op string, token driver.Token, since time.Time) {
	q.client.Log().Warn("baton: waits for a hold of this process; if the caller itself has it, pass the context of the hold",
		"queue", q.id, "call", op, "token", token, "waited", time.Since(since))
}
