// Package observe turns the events of Baton's clients into metrics. It says
// which metrics there are and when they change, once for all that keep them:
// otelobserve for OpenTelemetry, promobserve for Prometheus, and whoever
// implements a [Sink]. Tests that want the events themselves have memory.Tally.
//
// # Labels
//
// Names are not labels: there may be any number of them, and each would be a
// time series for ever. The kind of the recipe is one, and a class of names is
// if the user gives a [Class], which must have few values. Where it has none
// the label is empty.
//
//	kind       mutex, rwlock, semaphore, election; semaphore-locks and semaphore-leases, if a semaphore is shared with other clients
//	class      what the user's Class returns
//	op         lock, try-lock, read-lock, try-read-lock, acquire, try-acquire, campaign, try-campaign; of retries and clean-ups, the request
//	contended  true, false
//	reason     timeout, cancelled, taken, unavailable, session_lost, removed, refused, closed, invalid, other
//	cause      session_lost, removed, closed, other
//	result     ok, refused
//	state      connected, suspended
//
// A gauge comes back to where it was, whatever happened, since each event that
// raises one is followed by one that lowers it; but events of different
// goroutines may change places, so that for an instant it can be off by one.
// Counters of what should not happen are there, at zero, before it has
// happened: otherwise the first time would not show as a rise.
package observe

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Sink keeps metrics. Its method is called by many goroutines at once.
type Sink interface {
	// Record adds v to a counter or a gauge, or counts it in a histogram. The
	// values are those of the metric's labels, in their order.
	Record(metric ID, v float64, values ...string)
}

// Class puts names into classes, of which there must be few, since each is a
// label's value: the part of a name before the first "/", for instance. It is
// called for each event, by many goroutines.
type Class func(kind, name string) string

// New returns an observer that records what happens. A nil class puts all names
// into one, without a name. Several clients may have the same observer: then
// the metrics are those of all of them.
func New(s Sink, class Class) event.Observer {
	m := &meter{Sink: s, class: class}
	for _, cause := range []error{coordinator.ErrSessionLost, coordinator.ErrClosed} {
		m.Record(SessionsEnded, 0, Cause(cause))
	}
	for _, id := range []ID{SessionsOpened, SessionsSuspended, SessionsResumed} {
		m.Record(id, 0)
	}
	for _, s := range []event.State{event.StateConnected, event.StateSuspended} {
		m.Record(Sessions, 0, s.String())
	}
	for _, op := range []string{"leave", "forget"} {
		m.Record(CleanUpsPending, 0, op)
		m.Record(CleanUpFailures, 0, op)
	}
	return m
}

type meter struct {
	Sink
	class Class
	known sync.Map // of kind, class and op; without an op, of pairs of the others
}

// Observe implements event.Observer.
func (m *meter) Observe(e event.Event) {
	switch e.Kind {
	case event.SessionOpened, event.SessionRenewed, event.SessionSuspended,
		event.SessionResumed, event.SessionEnded:
		m.session(e)
	case event.Retried:
		m.Record(Retries, 1, e.Op)
	case event.Cleaning:
		m.Record(CleanUpsPending, 1, e.Op)
	case event.CleanupFailed:
		m.Record(CleanUpFailures, 1, e.Op)
	case event.CleanedUp:
		m.Record(CleanUpsPending, -1, e.Op)
		m.Record(CleanUps, 1, e.Op)
	default:
		m.queue(e)
	}
}

func (m *meter) session(e event.Event) {
	const connected, suspended = event.StateConnected, event.StateSuspended
	switch e.Kind {
	case event.SessionOpened:
		m.Record(SessionsOpened, 1)
		m.Record(SessionOpen, e.Duration.Seconds())
		m.Record(Sessions, 1, connected.String())
	case event.SessionRenewed:
		m.Record(Renewal, e.Duration.Seconds())
		m.Record(RenewalMargin, float64(e.Margin)/float64(e.Life))
	case event.SessionSuspended:
		m.Record(SessionsSuspended, 1)
		m.Record(Sessions, -1, connected.String())
		m.Record(Sessions, 1, suspended.String())
	case event.SessionResumed:
		m.Record(SessionsResumed, 1)
		m.Record(Sessions, 1, connected.String())
		m.Record(Sessions, -1, suspended.String())
	case event.SessionEnded:
		m.Record(SessionsEnded, 1, Cause(e.Err))
		m.Record(Sessions, -1, e.State.String())
	}
}

// queue records what happened to a contender or a hold.
func (m *meter) queue(e event.Event) {
	kind, class := m.labels(e)
	if e.Kind == event.Granted || e.Kind == event.NotGranted {
		m.call(kind, class, e.Op)
	}
	switch e.Kind {
	case event.Joined:
		m.Record(Waiters, 1, kind, class)
	case event.Granted:
		m.Record(Waiters, -1, kind, class)
		m.Record(Holders, 1, kind, class)
		m.Record(Grants, 1, kind, class, e.Op, strconv.FormatBool(e.Waited))
		m.Record(Wait, e.Duration.Seconds(), kind, class, e.Op)
		if e.Waited {
			m.Record(HandOver, e.HandOver.Seconds(), kind, class)
		}
	case event.NotGranted:
		if e.Token != 0 {
			m.Record(Waiters, -1, kind, class)
		}
		m.Record(NotGranted, 1, kind, class, e.Op, Reason(e))
	case event.Reentered:
		m.Record(Reentries, 1, kind, class)
	case event.Converted:
		result := "ok"
		if e.Err != nil {
			result = "refused"
		}
		m.Record(Conversions, 1, kind, class, result)
	case event.HeldLong:
		m.Record(HeldLong, 1, kind, class)
		m.Record(LongHolders, 1, kind, class)
	case event.HeldTooLong:
		m.Record(HeldTooLong, 1, kind, class)
	case event.Released:
		m.Record(Releases, 1, kind, class)
		if e.Err != nil {
			m.Record(ReleaseFailures, 1, kind, class)
		}
		m.over(e, kind, class)
	case event.Lost:
		m.Record(Lost, 1, kind, class, Cause(e.Err))
		m.over(e, kind, class)
	}
}

// over records the end of a hold.
func (m *meter) over(e event.Event, kind, class string) {
	m.Record(Holders, -1, kind, class)
	m.Record(Hold, e.Duration.Seconds(), kind, class)
	if e.Long {
		m.Record(LongHolders, -1, kind, class)
	}
}

// labels are the kind and the class of an event's queue. When they are new, what
// should not happen is set to zero.
func (m *meter) labels(e event.Event) (kind, class string) {
	kind, _, _ = strings.Cut(string(e.Queue), "/")
	if m.class != nil {
		_, name, _ := e.Queue.Split()
		class = strings.ToValidUTF8(m.class(kind, name), "\uFFFD") // it may have cut one of the name's characters, and sinks panic at that
	}
	if m.isNew(kind, class, "") {
		for _, id := range []ID{Waiters, Holders, LongHolders, Releases, ReleaseFailures, HeldLong, HeldTooLong} {
			m.Record(id, 0, kind, class)
		}
		for _, err := range []error{coordinator.ErrSessionLost, coordinator.ErrRemoved, coordinator.ErrClosed} {
			m.Record(Lost, 0, kind, class, Cause(err))
		}
	}
	return kind, class
}

// call sets to zero what should not become of a call.
func (m *meter) call(kind, class, op string) {
	if !m.isNew(kind, class, op) {
		return
	}
	for _, err := range []error{coordinator.ErrUnavailable, coordinator.ErrRefused, coordinator.ErrSessionLost} {
		m.Record(NotGranted, 0, kind, class, op, Reason(event.Event{Err: err}))
	}
}

// isNew reports whether something was seen for the first time.
func (m *meter) isNew(kind, class, op string) bool {
	_, known := m.known.LoadOrStore([3]string{kind, class, op}, true)
	return !known
}

// Cause is the value of the label for why a hold was lost or a session ended.
func Cause(err error) string {
	switch {
	case errors.Is(err, coordinator.ErrSessionLost):
		return "session_lost"
	case errors.Is(err, coordinator.ErrRemoved):
		return "removed"
	case errors.Is(err, coordinator.ErrClosed):
		return "closed"
	}
	return "other"
}

// Reason is the value of the label for why there was no grant, of an
// EventNotGranted. What the cause of the caller's context says is not taken for
// the service's word: it is timeout if it is context.DeadlineExceeded, and else
// cancelled.
func Reason(e event.Event) string {
	if e.Context != nil && engine.IsCause(e.Context, e.Err) {
		if errors.Is(e.Err, context.DeadlineExceeded) {
			return "timeout"
		}
		return "cancelled"
	}
	switch {
	case errors.Is(e.Err, coordinator.ErrTaken):
		return "taken"
	case errors.Is(e.Err, coordinator.ErrUnavailable):
		return "unavailable"
	case errors.Is(e.Err, coordinator.ErrRefused):
		return "refused"
	case errors.Is(e.Err, coordinator.ErrInvalid):
		return "invalid"
	}
	return Cause(e.Err)
}
