package memory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// Op is a kind of request.
type Op string

// The requests of a driver, one for each method.
const (
	OpOpen       Op = "open"
	OpRenew      Op = "renew"
	OpJoin       Op = "join"
	OpAhead      Op = "ahead"
	OpWatch      Op = "watch"
	OpWatchQueue Op = "watch-queue"
	OpConvert    Op = "convert"
	OpWrite      Op = "write"
	OpLeave      Op = "leave"
	OpForget     Op = "forget"
	OpCheck      Op = "check"
	OpRemove     Op = "remove"
	OpList       Op = "list"
	OpQueues     Op = "queues"
	OpHead       Op = "head"
	OpRecord     Op = "record"
	OpSetRecord  Op = "set-record"
	OpClose      Op = "close"
)

// Request is one request as it is sent, for the function given to [Service.OnRequest].
type Request struct {
	Op     Op
	Driver *Driver // the client that sends it
	// Session is the ID of the session; empty for OpOpen.
	Session string
	// Queue and ID are the queue and the contender it is about, where there is one.
	Queue driver.Queue
	ID    string
	// Context is that of the call. Its values tell requests of one goroutine from those of another.
	Context context.Context
}

// Fate is what happens to one request. The zero Fate is to pass unharmed.
type Fate struct {
	// DelayRequest and DelayReply are added to the delays of the client's link. A
	// request may arrive after its caller's context has ended, and is applied then
	// as ever. The reply of a Watch, or of a Head or Record that waited, is its notification.
	DelayRequest, DelayReply time.Duration

	// DropRequest breaks the connection before the request arrives: it is never
	// applied, and the caller gets driver.ErrUnavailable.
	DropRequest bool

	// DropReply breaks the connection after the request was applied: the caller gets the
	// same driver.ErrUnavailable and cannot know.
	DropReply bool

	// Err is the service's answer; nothing is applied. An error that is none of
	// package driver's sentinels counts as driver.ErrRefused.
	Err error
}

// OnRequest lets decide choose the fate of every request, from now on and for all
// clients. Nil ends it. It is called in the goroutine of the caller before the request is sent,
// by many at once and with no lock held: it may use all levers of the service.
func (s *Service) OnRequest(decide func(Request) Fate) {
	if decide == nil {
		s.hook.Store(nil)
		return
	}
	s.hook.Store(&decide)
}

func (s *Service) fate(req Request) Fate {
	if decide := s.hook.Load(); decide != nil {
		return (*decide)(req)
	}
	return Fate{}
}

// The service's own errors: what a client finds behind the sentinel.
var (
	errReset    = errors.New("memory: connection reset")
	errStopped  = errors.New("memory: connection refused: service is stopped")
	errClosed   = errors.New("memory: driver is closed")
	errExpired  = errors.New("memory: session is over")
	errNoEntry  = errors.New("memory: no such entry")
	errNotEmpty = errors.New("memory: queue is not empty")
	errFenced   = errors.New("memory: join was overtaken by a later forget")
	errVersion  = errors.New("memory: the record has another version")
	errLate     = errors.New("memory: write was overtaken by a later one")
)

// classify makes sure that an injected error is one that G3 allows.
func classify(err error) error {
	for _, kind := range []error{
		driver.ErrUnavailable, driver.ErrSessionLost, driver.ErrGone,
		driver.ErrTaken, driver.ErrStale, driver.ErrRefused, driver.ErrInvalid,
	} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return driver.Wrap(driver.ErrRefused, err)
}

// Once gives a fate to the first request of a kind, and harms no other: for [Service.OnRequest].
//
//	svc.OnRequest(memory.Once(memory.OpJoin, memory.Fate{DropReply: true})) // applied, and the caller does not hear of it
func Once(op Op, fate Fate) func(Request) Fate {
	var done atomic.Bool
	return func(r Request) Fate {
		if r.Op == op && done.CompareAndSwap(false, true) {
			return fate
		}
		return Fate{}
	}
}

// Expire ends all sessions of this client at the service, as [Service.Expire]
// does one, and reports whether there was any. The client may open another one
// at once.
func (d *Driver) Expire() bool {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	found := false
	for _, seat := range d.svc.seatsInOrder() {
		if seat.client.driver == d {
			d.svc.end(seat, ByOperator)
			found = true
		}
	}
	return found
}

// RemoveGrant deletes the entry of a grant as an operator would who has its
// token, that of a lock, a permit or a term. It reports whether there was one;
// see [Service.Remove] for what follows.
func (s *Service) RemoveGrant(token driver.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.queues {
		for _, e := range l.entries {
			if e.Token == token {
				s.erase(e)
				return true
			}
		}
	}
	return false
}

// Tally is an observer that keeps what it is told, for tests: give it to a
// client by coordinator.WithObserver. The zero Tally is ready to use, must not
// be copied, and may be used by many goroutines at once.
type Tally struct {
	mu     sync.Mutex
	events []event.Event
}

// Observe keeps an event.
func (t *Tally) Observe(e event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

// Count is the number of events of a kind.
func (t *Tally) Count(kind event.Kind) int {
	n := 0
	for _, e := range t.Events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// Events are all events, in the order in which they were told.
func (t *Tally) Events() []event.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.events)
}
