package engine

import (
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// mailbox is the outbox of an observer. When it is full it drops events, but
// not at random: an observer that sees the beginning of something sees its end,
// and never an end alone. So gauges do not drift, and traces do not leak.
//
// A full mailbox takes no beginnings (a contender, a session, a clean-up), and
// none of the events that stand alone, such as a renewal. It still takes the
// later events of what has begun before: at most three for each contender, two
// for each session and one for each clean-up that the client has at that time.
type mailbox struct {
	outbox[event.Event]
	missed map[subject]int // what began while it was full, and has not ended
}

// subject is what an event is about. Clean-ups of one queue have the same
// subject, since their ends cannot be told apart.
type subject struct {
	session, op string
	queue       driver.Queue
	token       driver.Token
}

func newMailbox(o event.Observer) *mailbox {
	return &mailbox{
		outbox: outbox[event.Event]{
			deliver: o.Observe,
			report: func(dropped int) {
				o.Observe(event.Event{Kind: event.Dropped, Time: time.Now(), Count: dropped})
			},
		},
		missed: map[subject]int{},
	}
}

// part is an event's place in the life of its subject.
type part int

const (
	alone part = iota
	begins
	lasts
	ends
)

// The ops of subjects that have none of their own.
const (
	suspension = "suspended"
	keeping    = "kept"
)

// about returns an event's subject, and its place in the subject's life.
func about(e *event.Event) (subject, part) {
	contender := subject{session: e.Session, queue: e.Queue, token: e.Token}
	switch e.Kind {
	case event.Joined:
		return contender, begins
	case event.Granted:
		if e.Local { // nobody has joined for it
			return contender, begins
		}
		return contender, lasts
	case event.HeldLong:
		return contender, lasts
	case event.NotGranted:
		if e.Token != 0 { // it had joined
			return contender, ends
		}
	case event.Released, event.Lost:
		return contender, ends
	case event.Kept, event.GivenUp:
		contender.op = keeping
		if e.Kind == event.Kept {
			return contender, begins
		}
		return contender, ends
	case event.SessionOpened:
		return subject{session: e.Session}, begins
	case event.SessionSuspended:
		return subject{session: e.Session, op: suspension}, begins
	case event.SessionResumed:
		return subject{session: e.Session, op: suspension}, ends
	case event.SessionEnded:
		return subject{session: e.Session}, ends
	case event.Cleaning:
		return subject{session: e.Session, op: e.Op, queue: e.Queue}, begins
	case event.CleanedUp:
		return subject{session: e.Session, op: e.Op, queue: e.Queue}, ends
	}
	return subject{}, alone
}

// put hides that of the outbox.
func (m *mailbox) put(e event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if full := m.full(); full || len(m.missed) > 0 {
		if !m.takes(&e, full) {
			m.dropped++
			return
		}
	}
	m.add(e)
}

// takes reports whether the observer gets an event. The caller holds m.mu.
func (m *mailbox) takes(e *event.Event, full bool) bool {
	about, part := about(e)
	if e.Kind == event.SessionEnded && m.end(subject{session: e.Session, op: suspension}) {
		e.State = event.StateConnected // as far as this observer knows
	}
	switch part {
	case begins:
		// a suspension is part of a session
		if full || about.op == suspension && m.missed[subject{session: e.Session}] > 0 {
			m.missed[about]++
			return false
		}
		return true
	case lasts:
		return m.missed[about] == 0
	case ends:
		return !m.end(about)
	}
	return !full
}

// end notes the end of something, and reports whether the observer has missed
// its beginning.
func (m *mailbox) end(about subject) (missed bool) {
	n := m.missed[about]
	if n > 1 {
		m.missed[about] = n - 1
	} else {
		delete(m.missed, about)
	}
	return n > 0
}
