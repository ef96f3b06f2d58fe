// Package observe turns the events of Baton's clients into metrics. Use package
// promobserve for Prometheus and otelobserve for OpenTelemetry, or implement a
// [Sink] for another system.
//
// # Labels
//
// Names are not labels, because each would be a time series for ever. Labels
// are the kind of the recipe and the class of the name, if you give a [Class].
//
//	kind       mutex, rwlock, semaphore, election; semaphore-locks and
//	           semaphore-leases, if a semaphore is shared with other clients
//	class      the result of your Class
//	op         lock, try-lock, read-lock, try-read-lock, acquire, try-acquire,
//	           campaign, try-campaign; of retries and clean-ups, the request
//	contended  true, false
//	reason     timeout, cancelled, taken, unavailable, session_lost, removed,
//	           refused, closed, invalid, other
//	cause      session_lost, removed, closed, other
//	result     ok, refused
//	state      connected, suspended
//
// Events of different goroutines may arrive out of order, so a gauge can be off
// by one for an instant. Counters of failures are recorded as zero before the
// first failure, which would not show as a rise otherwise.
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

// Sink stores metrics. It must be safe for concurrent use.
type Sink interface {
	// Record adds v to a counter or gauge, or counts it in a histogram. values
	// are the values of the metric's labels, in their order.
	Record(metric ID, v float64, values ...string)
}

// Class returns the class of a name, for instance the part before the first
// "/". Keep classes few, because each is the value of a label. Class is called
// concurrently, for each event.
type Class func(kind, name string) string

// New returns an observer that records metrics in a Sink. With a nil class the
// label is empty. The metrics of clients that share an observer add up.
func New(s Sink, class Class) event.Observer {
	m := &meter{Sink: s, class: class}
	for _, cause := range []error{coordinator.ErrSessionLost, coordinator.ErrClosed} {
		m.Record(SessionsEnded, 0, Cause(cause))
	}
	for _, id := range []ID{SessionsOpened, SessionsSuspended, SessionsResumed, EventsDropped} {
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
	known sync.Map // kinds, classes and ops of earlier events
}

// Observe implements event.Observer.
func (m *meter) Observe(e event.Event) {
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
	case event.Dropped:
		m.Record(EventsDropped, float64(e.Count))
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

// queue records an event of a contender or hold.
func (m *meter) queue(e event.Event) {
	kind, class := m.labels(e)
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

// labels returns the kind and class of an event's queue. It sets the counters
// of failures to zero for the first event with these labels.
func (m *meter) labels(e event.Event) (kind, class string) {
	kind, _, _ = strings.Cut(string(e.Queue), "/")
	if m.class != nil {
		_, name, _ := e.Queue.Split()
		// A Class may cut the name within a character. Sinks panic at invalid
		// UTF-8.
		class = strings.ToValidUTF8(m.class(kind, name), "\uFFFD")
	}
	if _, known := m.known.LoadOrStore([3]string{kind, class, e.Op}, true); known {
		return kind, class
	}
	for _, id := range []ID{
		Waiters, Holders, LongHolders, Releases, ReleaseFailures, HeldLong, HeldTooLong,
	} {
		m.Record(id, 0, kind, class)
	}
	for _, err := range []error{
		coordinator.ErrSessionLost, coordinator.ErrRemoved, coordinator.ErrClosed,
	} {
		m.Record(Lost, 0, kind, class, Cause(err))
	}
	if e.Op != "" {
		for _, err := range []error{
			coordinator.ErrUnavailable, coordinator.ErrRefused, coordinator.ErrSessionLost,
		} {
			m.Record(NotGranted, 0, kind, class, e.Op, Reason(event.Event{Err: err}))
		}
	}
	return kind, class
}

// Cause returns the label for the cause of a lost hold or an ended session.
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

// Reason returns the label for the error of an event.NotGranted. If the
// caller's context ended it is timeout or cancelled, even if the context's
// cause wraps an error of the service.
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
