// Package observe turns the events of Baton's clients into metrics. Use package
// promobserve for Prometheus and otelobserve for OpenTelemetry, or implement a
// [Sink] for another system.
//
// # Labels
//
// Names are not labels, because each would be a time series for ever. Labels
// are the kind of the recipe and the class of the name, if you give a [Class].
//
//	kind       mutex, rwlock, semaphore, election, group, partition-shard,
//	           double-barrier; semaphore-locks and semaphore-leases, if a
//	           semaphore is shared with other clients
//	class      the result of your Class
//	op         lock, try-lock, read-lock, try-read-lock, acquire, try-acquire,
//	           campaign, try-campaign, join (of a group), hold (of a shard),
//	           enter; of retries and clean-ups, the request
//	contended  true, false
//	reason     timeout, cancelled, taken, deadlock, unavailable, session_lost,
//	           removed, refused, closed, invalid, other
//	cause      session_lost, removed, closed, other
//	result     ok, refused
//	state      connected, suspended
//
// Events of different goroutines may arrive out of order, so a gauge can be off
// by one for an instant. Counters of failures are recorded as zero when a
// recipe is created, for its kind and class, since a counter that begins with a
// failure does not show as a rise. So create recipes before their first call is
// due.
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
	// are the values of the metric's labels, in their order. ctx has the values
	// of the context of the call that the metric is about, if there is one, for
	// exemplars. It does not end.
	Record(ctx context.Context, metric ID, v float64, values ...string)
}

// Class returns the class of a name, for instance the part before the first
// "/". Keep classes few, because each is the value of a label. Class is called
// concurrently, for each event.
type Class func(kind, name string) string

// New returns an observer that records metrics in a Sink. With a nil class the
// label is empty. The metrics of clients that share an observer add up.
func New(s Sink, class Class) event.Observer {
	m, ctx := &meter{Sink: s, class: class}, context.Background()
	for _, cause := range []error{coordinator.ErrSessionLost, coordinator.ErrClosed} {
		m.Record(ctx, SessionsEnded, 0, Cause(cause))
	}
	for _, id := range []ID{SessionsOpened, SessionsSuspended, SessionsResumed, EventsDropped} {
		m.Record(ctx, id, 0)
	}
	for _, s := range []event.State{event.StateConnected, event.StateSuspended} {
		m.Record(ctx, Sessions, 0, s.String())
	}
	m.Record(ctx, Retries, 0, "session")
	for _, op := range []string{"leave", "forget"} {
		m.Record(ctx, CleanUpsPending, 0, op)
		m.Record(ctx, CleanUpFailures, 0, op)
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
	ctx := context.Background()
	if e.Context != nil {
		ctx = context.WithoutCancel(e.Context) // its Err may block
	}
	switch e.Kind {
	case event.SessionOpened:
		m.Record(ctx, SessionsOpened, 1)
		m.Record(ctx, SessionOpen, e.Duration.Seconds())
		m.Record(ctx, Sessions, 1, connected.String())
	case event.SessionRenewed:
		m.Record(ctx, Renewal, e.Duration.Seconds())
		m.Record(ctx, RenewalMargin, float64(e.Margin)/float64(e.Life))
	case event.SessionSuspended:
		m.Record(ctx, SessionsSuspended, 1)
		m.Record(ctx, Sessions, -1, connected.String())
		m.Record(ctx, Sessions, 1, suspended.String())
	case event.SessionResumed:
		m.Record(ctx, SessionsResumed, 1)
		m.Record(ctx, Sessions, 1, connected.String())
		m.Record(ctx, Sessions, -1, suspended.String())
	case event.SessionEnded:
		m.Record(ctx, SessionsEnded, 1, Cause(e.Err))
		m.Record(ctx, Sessions, -1, e.State.String())
	case event.Dropped:
		m.Record(ctx, EventsDropped, float64(e.Count))
	case event.Retried:
		m.Record(ctx, Retries, 1, e.Op)
	case event.Cleaning:
		m.Record(ctx, CleanUpsPending, 1, e.Op)
	case event.CleanupFailed:
		m.Record(ctx, CleanUpFailures, 1, e.Op)
	case event.CleanedUp:
		m.Record(ctx, CleanUpsPending, -1, e.Op)
		m.Record(ctx, CleanUps, 1, e.Op)
	default:
		m.queue(ctx, e)
	}
}

// queue records an event of a contender or hold.
func (m *meter) queue(ctx context.Context, e event.Event) {
	kind, class, ok := m.labels(e)
	if !ok {
		return
	}
	switch e.Kind {
	case event.Joined:
		m.Record(ctx, Waiters, 1, kind, class)
	case event.Granted:
		if e.Local {
			m.Record(ctx, LocalGrants, 1, kind, class)
		} else {
			m.Record(ctx, Waiters, -1, kind, class)
		}
		m.Record(ctx, Holders, 1, kind, class)
		m.Record(ctx, Grants, 1, kind, class, e.Op, strconv.FormatBool(e.Waited))
		m.Record(ctx, Wait, e.Duration.Seconds(), kind, class, e.Op)
		if e.Waited {
			m.Record(ctx, HandOver, e.HandOver.Seconds(), kind, class)
		}
	case event.NotGranted:
		if e.Token != 0 {
			m.Record(ctx, Waiters, -1, kind, class)
		}
		m.Record(ctx, NotGranted, 1, kind, class, e.Op, Reason(e))
	case event.Deadlocked:
		m.Record(ctx, Deadlocks, 1, kind, class)
	case event.Reentered:
		m.Record(ctx, Reentries, 1, kind, class)
	case event.Converted:
		result := "ok"
		if e.Err != nil {
			result = "refused"
		}
		m.Record(ctx, Conversions, 1, kind, class, result)
	case event.Kept:
		m.Record(ctx, KeptTurns, 1, kind, class)
	case event.GivenUp:
		m.Record(ctx, KeptTurns, -1, kind, class)
		if e.HandOver > 0 {
			m.Record(ctx, PassOn, e.HandOver.Seconds(), kind, class)
		}
	case event.HeldLong:
		m.Record(ctx, HeldLong, 1, kind, class)
		m.Record(ctx, LongHolders, 1, kind, class)
	case event.HeldTooLong:
		m.Record(ctx, HeldTooLong, 1, kind, class)
	case event.Released:
		m.Record(ctx, Releases, 1, kind, class)
		if e.Err != nil {
			m.Record(ctx, ReleaseFailures, 1, kind, class)
		}
		m.over(ctx, e, kind, class)
	case event.Lost:
		m.Record(ctx, Lost, 1, kind, class, Cause(e.Err))
		m.over(ctx, e, kind, class)
	}
}

// over records the end of a hold.
func (m *meter) over(ctx context.Context, e event.Event, kind, class string) {
	m.Record(ctx, Holders, -1, kind, class)
	m.Record(ctx, Hold, e.Duration.Seconds(), kind, class)
	if e.Long {
		m.Record(ctx, LongHolders, -1, kind, class)
	}
}

// calls are the recipes that acquire, and the values of their label op.
var calls = map[string][]string{
	"mutex":           {"lock", "try-lock"},
	"rwlock":          {"lock", "try-lock", "read-lock", "try-read-lock"},
	"semaphore":       {"acquire", "try-acquire"},
	"election":        {"campaign", "try-campaign"},
	"group":           {"join"},
	"partition-shard": {"hold"},
	"double-barrier":  {"enter"},
}

// labels returns the kind and class of an event's queue. It sets the counters
// of failures to zero before the first event with these labels, when a recipe
// is created: a counter that begins with a failure shows no rise. ok is false
// if there is nothing to record.
func (m *meter) labels(e event.Event) (kind, class string, ok bool) {
	kind, _, _ = strings.Cut(string(e.Queue), "/")
	if e.Kind == event.Created && calls[kind] == nil {
		return "", "", false
	}
	if m.class != nil {
		_, name, _ := e.Queue.Split()
		// A Class may cut the name within a character. Sinks panic at invalid
		// UTF-8.
		class = strings.ToValidUTF8(m.class(kind, name), "\uFFFD")
	}
	if m.first(kind, class, "") {
		m.zero(kind, class)
	}
	if e.Kind == event.Granted || e.Kind == event.NotGranted { // else Op is no call
		m.zeroOp(kind, class, e.Op)
	}
	return kind, class, true
}

// first reports whether labels have not been seen before.
func (m *meter) first(kind, class, op string) bool {
	_, known := m.known.LoadOrStore([3]string{kind, class, op}, true)
	return !known
}

// zero records zeros for a kind and class.
func (m *meter) zero(kind, class string) {
	ctx := context.Background()
	for _, id := range []ID{
		Deadlocks, Waiters, Holders, LongHolders, Releases, ReleaseFailures, HeldLong, HeldTooLong,
	} {
		m.Record(ctx, id, 0, kind, class)
	}
	for _, err := range []error{
		coordinator.ErrSessionLost, coordinator.ErrRemoved, coordinator.ErrClosed,
	} {
		m.Record(ctx, Lost, 0, kind, class, Cause(err))
	}
	for _, op := range calls[kind] {
		m.zeroOp(kind, class, op)
	}
}

// zeroOp records zeros for an operation, once.
func (m *meter) zeroOp(kind, class, op string) {
	if !m.first(kind, class, op) {
		return
	}
	for _, err := range []error{
		coordinator.ErrUnavailable, coordinator.ErrRefused, coordinator.ErrSessionLost,
	} {
		m.Record(context.Background(), NotGranted, 0, kind, class, op, Reason(event.Event{Err: err}))
	}
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
	case errors.Is(e.Err, engine.ErrDeadlock):
		return "deadlock"
	case errors.Is(e.Err, coordinator.ErrUnavailable):
		return "unavailable"
	case errors.Is(e.Err, coordinator.ErrRefused):
		return "refused"
	case errors.Is(e.Err, coordinator.ErrInvalid):
		return "invalid"
	}
	return Cause(e.Err)
}
