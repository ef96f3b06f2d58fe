package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/semaphore"
)

// calling is a call that has failed.
type calling struct {
	ctx   context.Context
	what  string
	began time.Duration
	dead  bool // its context was, from the beginning
	err   error
}

// knownErrors are all errors that errors.Is can find in an error of Baton.
var knownErrors = []error{
	coordinator.ErrUnavailable, coordinator.ErrTaken, coordinator.ErrStale,
	coordinator.ErrSessionLost, coordinator.ErrRemoved,
	coordinator.ErrRefused, coordinator.ErrInvalid, coordinator.ErrClosed, coordinator.ErrNotHeld,
	coordinator.ErrReleased,
	context.Canceled, context.DeadlineExceeded, semaphore.ErrNoLimit, election.ErrStepDown,
	election.ErrNoLeader, election.ErrNoCandidate, recipes.ErrHeldTooLong,
}

// judgeError judges an error by the evidence: all that it says must have
// happened, and it must say something.
func (a *actor) judgeError(c calling, more ...error) {
	if c.err == nil {
		return
	}
	if errors.Is(c.err, coordinator.ErrSessionLost) {
		// The end of a session is observed after its context has ended.
		time.Sleep(time.Nanosecond)
	}
	cause := context.Cause(c.ctx) // nil while it is alive
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	says := cause != nil && errors.Is(c.err, cause)
	for _, known := range knownErrors {
		if !errors.Is(c.err, known) {
			continue
		}
		says = true
		if cause != nil && errors.Is(cause, known) || a.happened(c, known, more) {
			continue
		}
		// Nothing can be converted or written.
		if a.w.core && errors.Is(known, coordinator.ErrInvalid) {
			continue
		}
		a.w.violation("%s: %s returned %q without cause (its context: %v): %v", a.label, c.what, known,
			cause, c.err)
	}
	if !says {
		a.w.violation("%s: %s: %v (its context: %v)", a.label, c.what, c.err, cause)
	}
}

// happened reports whether an event has happened for which known is the error.
// The caller holds w.mu.
func (a *actor) happened(c calling, known error, more []error) bool {
	since := func(at time.Duration) bool { return at > 0 && at >= a.since }
	queue := a.w.queues[a.name.queue]
	switch seen := a.evidence(); known {
	case coordinator.ErrUnavailable: //nolint:errorlint // known is one of the sentinels
		return c.ctx.Err() != nil || a.overdue(c) || c.unanswered()
	case context.DeadlineExceeded:
		return a.overdue(c)
	case coordinator.ErrTaken:
		return strings.HasPrefix(c.what, "try-") &&
			a.mayBeTaken(queue, c.began)
	case coordinator.ErrSessionLost:
		return a.lost(c)
	case coordinator.ErrRemoved:
		return since(seen.removed)
	case coordinator.ErrNotHeld:
		return since(seen.removed) && contains(more, known)
	case coordinator.ErrRefused:
		return since(max(seen.refused, a.slot.refused, a.w.refusedAt)) || a.refusing(c)
	case coordinator.ErrClosed:
		return a.slot.started > a.generation
	case semaphore.ErrNoLimit:
		return queue.unlimited(c.began - a.w.traits.Lag)
	case coordinator.ErrInvalid:
		return a.wants > 0 && queue.least(c.began-a.w.traits.Lag) < a.wants
	case recipes.ErrHeldTooLong:
		return a.slot.maxHold(a.name) > 0
	case election.ErrStepDown:
		return c.what == "run"
	}
	return contains(more, known)
}

// refusing: what an actor waits for is being refused. A Close removes the
// entries of all actors of its client.
func (a *actor) refusing(c calling) bool {
	return a.slot.refusing || a.w.refuses || c.what == "close" && a.slot.anyRefused >= c.began
}

// unanswered: Close does not retry, and a limit may have been written without
// an answer.
func (c calling) unanswered() bool {
	return (c.what == "close" || c.what == "set-limit") && coordinator.MayHaveApplied(c.err)
}

func contains(all []error, err error) bool {
	for _, e := range all {
		if e == err { //nolint:errorlint // both are sentinels
			return true
		}
	}
	return false
}

// unlimited: a semaphore had no limit at some time since then.
func (l *queue) unlimited(since time.Duration) bool {
	return l.name.recipe == "semaphore" && (len(l.limits) == 0 || l.limits[0].at >= since)
}

// least is the smallest limit in force since a time.
func (l *queue) least(since time.Duration) int {
	least := 1 << 30
	for i, x := range l.limits {
		if i == len(l.limits)-1 || l.limits[i+1].at >= since {
			least = min(least, x.limit)
		}
	}
	return least
}

// departure is an entry that has left.
type departure struct {
	joined, left time.Duration
	contender    string
}

// otherQueued reports whether, since a time, a contender was queued other than
// who's latest, or who's latest from before that time. An earlier contender of
// who may arrive late, after its call has returned. The caller holds w.mu.
func (w *world) otherQueued(l *queue, who string, since time.Duration) bool {
	latest := fmt.Sprintf("%s#%d", who, w.draws["contenders of "+who])
	for _, e := range l.entries {
		if w.labels[e.ID] != latest || l.joined[e.Token] < since {
			return true
		}
	}
	for i := len(l.gone) - 1; i >= 0 && l.gone[i].left >= since; i-- {
		if l.gone[i].contender != latest || l.gone[i].joined < since {
			return true
		}
	}
	return false
}

// overdue: some calls have their own bound. Close has the TTL; Run, and
// releases with a context that has ended, have two seconds.
func (a *actor) overdue(c calling) bool {
	took := a.w.now() - c.began
	switch c.what {
	case "close":
		return took >= a.w.ttl || c.dead && took >= lingers
	case "run":
		return took >= lingers
	case "do", "read-do":
		return c.ctx.Err() != nil && took >= lingers
	}
	return c.dead && took >= lingers
}

// lost: a call reports a lost session at once, or, if its context has ended
// meanwhile, in time.
func (a *actor) lost(c calling) bool {
	at, known := a.w.lostAt[a.slot.index]
	if c.ctx.Err() != nil {
		return known && at >= a.since
	}
	return known && a.w.now()-max(at, c.began) <= soon
}

// evidence is the latest events that concern an actor.
type evidence struct {
	// When its entry or session was removed, by an operator or the service's
	// clock.
	removed time.Duration
	refused time.Duration // when a request of it was refused
	tries   bool          // it is in a Try call
}

func (w *world) trying(label string, tries bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.seen[label]
	e.tries = tries
	w.seen[label] = e
}

// actorOf returns the label of the actor that joined with this ID. The caller
// holds w.mu.
func (w *world) actorOf(id string) string {
	label, _, _ := strings.Cut(w.labels[id], "#")
	return label
}

// wasRemoved and wasRefused collect evidence. The caller holds w.mu.
func (w *world) wasRemoved(id string) {
	label := w.actorOf(id)
	e := w.seen[label]
	e.removed = w.now()
	w.seen[label] = e
}

func (w *world) wasRefused(s *slot, m Message) {
	s.anyRefused = w.now()
	label := labelOf(m.Context)
	if label == "" {
		label = w.actorOf(m.ID)
	}
	if label == "" { // it may be anyone's
		s.refused = w.now()
	}
	e := w.seen[label]
	e.refused = w.now()
	w.seen[label] = e
}

// opened is called when Open returns: if the service refused it, all actors of
// the client that wait for the session, until another attempt has ended, get
// its error.
func (w *world) opened(ctx context.Context, s *slot, began time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.refusing = errors.Is(err, driver.ErrRefused); !s.refusing {
		return
	}
	if seen := w.seen[labelOf(ctx)]; !w.refuses && max(s.refused, seen.refused, w.refusedAt) < began {
		w.violation("c%d: an opening was refused without cause: %v", s.index, err)
	}
	s.refused = w.now()
}

// waits is called when a driver's method is called that waits. A Try call does
// not wait.
func (w *world) waits(ctx context.Context, op memory.Op) {
	label := labelOf(ctx)
	if label == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[label].tries {
		w.violation("%s: a Try call calls %q, which waits", label, op)
	}
	if op == memory.OpWatch {
		l := w.reads[label]
		l.slept = true
		w.reads[label] = l
	}
}

// judgeClosed: after a Close without an error the session and its entries are
// gone.
func (w *world) judgeClosed(l Link, err error) {
	if err != nil {
		return
	}
	w.mu.Lock()
	session, closed := w.closedBy[l]
	for _, q := range w.queues {
		if closed && slices.ContainsFunc(q.entries,
			func(e driver.Entry) bool { return e.Session == session }) {
			w.violation("%s: entries of session %s are left after its client was closed", q.name.queue,
				session)
		}
	}
	w.mu.Unlock()
	if closed && slices.Contains(w.svc.Sessions(), session) {
		w.blame("c%d: its client was closed, and session %s is alive", w.slotOf(l).index, session)
	}
}
