package engine

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/patience"
)

// Session is a session at the service, from its opening to its end. All holds
// of a client belong to it. It is safe for concurrent use.
//
//	          no answer
//	connected <-------> suspended
//	    |      renewed      |
//	    +------> lost <-----+   at the deadline, when the service says so, by Close
//
// Two goroutines run while it lasts: renew, which sends renewals, and guard,
// which ends it. They are apart because a renewal may hang, and the deadline
// must not wait for it.
//
// A caller that asks whether the session is alive compares the deadline with
// the clock, and does not rely on a timer: after a pause of the process all
// timers are late, and the first one that runs may be the user's.
type Session struct {
	client *Client
	driver driver.Session
	can    driver.Capabilities // with fallbacks
	// The deadline is so much before the TTL ends, for clocks that run
	// differently and for services that expire sessions early.
	margin time.Duration

	ctx    context.Context // ends when the session does, with the cause
	cancel context.CancelCauseFunc
	// requests ends then too, with the cause that patience.Bind needs
	requests       context.Context
	cancelRequests context.CancelFunc

	wg sync.WaitGroup // renewal, and clean-up in the background

	joins, removals, reads chan struct{} // one element per request under way

	haste atomic.Int64 // when a caller last left a join, in nanoseconds after born; 0 if none has

	patience *patience.Patience // bounds attempts of a request
	longer   *patience.Patience // bounds attempts of a join
	silence  silence
	news     outbox[func()] // reports changes of the state, in their order

	closers closers
	closing atomic.Bool // the driver's Close was called
	// Times are stored as durations after born, which has a monotonic clock
	// reading: a change of the wall clock must not move the deadline.
	born time.Time
	// Atomic, since each check of a hold reads it; written under mu, so that a
	// renewal and the end of the session are decided one after the other.
	deadline atomic.Int64

	service atomic.Pointer[string] // its identity, nil until it was read

	wallDeadline atomic.Int64 // the deadline on the wall clock, in Unix nanoseconds; see Check

	// Locked after the mutex of a hold, never before: see Hold. No request is
	// sent and no observer called while it is locked.
	mu           sync.Mutex
	alarm        *time.Timer // fires at the deadline, for guard
	state        event.State
	changed      chan struct{}       // closed and replaced at each change of state
	renewErr     error               // of the latest renewal, if it failed
	answered     time.Time           // when the latest acknowledgement came
	holds        *list.List          // of *hold; nil after the end of the session
	young        *list.Element       // the first of them that has not settled, or nil
	ending       bool                // the holds are being told that the session has ended
	untold       *list.Element       // the first that has not been; nil after the last
	settling     bool                // settle will be called
	doubts       map[string]struct{} // see doubt
	ids          []string            // for reuse, see NewID
	queueWatches map[driver.Queue]*queueWatch
	strays       map[driver.Queue]*strays
	asked        chan struct{} // see ask; nil if it is not under way
}

// newSession returns a session for a driver's session, which was requested at
// sent. Its deadline counts from then. The caller starts renew and guard.
func newSession(client *Client, ds driver.Session, sent moment) *Session {
	session := &Session{
		client: client,
		driver: ds,
		can:    withFallbacks(ds),
		margin: ds.Slack() + ds.TTL()/marginsPerTTL,
		born:   sent.time,
		state:  event.StateConnected,
		holds:  list.New(),
		doubts: make(map[string]struct{}),

		answered: time.Now(),
		changed:  make(chan struct{}),
		joins:    make(chan struct{}, mostChanges),
		removals: make(chan struct{}, mostChanges),
		reads:    make(chan struct{}, mostReads),

		queueWatches: make(map[driver.Queue]*queueWatch),
		strays:       make(map[driver.Queue]*strays),
	}
	// One at a time and in order: else an observer could see that a session is
	// suspended after it has seen that it is connected again.
	session.news.deliver = func(tell func()) { tell() }
	session.news.report = func(int) {} // the events and lines are what counts
	// From Background: a session outlives the call that opens it.
	session.ctx, session.cancel = context.WithCancelCause(context.Background())
	session.requests, session.cancelRequests = context.WithCancel(context.Background())
	session.patience = patience.New(session.requests, ds.TTL()/AttemptsPerTTL)
	// A join that is repeated has to be ruled out first, which costs other
	// joins: see Join.
	session.longer = patience.New(session.requests, ds.TTL()/2)
	// From the moment at which the request was sent: the service counts from
	// some moment between that and the answer, nobody knows which.
	session.deadline.Store(int64(ds.TTL() - session.margin))
	session.wallDeadline.Store(sent.wall + int64(ds.TTL()-session.margin))
	session.alarm = time.NewTimer(time.Until(session.Deadline()))
	return session
}

// guard ends the session when the service reports its end, or at the deadline.
func (s *Session) guard() {
	interval := min(s.TTL()/sleepChecksPerTTL, longestSleepCheck)
	check := time.NewTicker(interval)
	defer check.Stop()
	checked := time.Now()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-check.C:
			s.warnOfSilence(interval)
			// Else the process may have stood still: answers may be there that
			// nobody has read yet, and a suspension would be a false alarm.
			if time.Since(checked) < 2*interval {
				s.checkRenewals()
			}
			checked = time.Now()
			if s.mayHaveSlept(s.client.now()) {
				s.ask() // without waiting: the answer moves the deadline or ends s
			}
		case <-s.driver.Done():
			s.end(s.whyDone())
			return
		case <-s.alarm.C:
			s.expire() // if the deadline has moved, the alarm was set again
		}
	}
}

// whyDone is why the driver's session is over, if it says so.
func (s *Session) whyDone() error {
	if says, ok := s.driver.(interface{ Err() error }); ok {
		// Another error, for instance of a closed connection, would not tell
		// users that their holds are lost.
		if err := says.Err(); errors.Is(err, ErrSessionLost) {
			return err
		}
	}
	return driver.Wrap(ErrSessionLost, errors.New("the service ended it"))
}

// Client returns the session's client.
func (s *Session) Client() *Client { return s.client }

// ID returns the session's name at the service. For it and the next six methods
// see coordinator.Session.
func (s *Session) ID() string { return s.driver.ID() }

// TTL returns how long the service keeps the session without a renewal.
func (s *Session) TTL() time.Duration { return s.driver.TTL() }

// Margin is subtracted from the TTL.
func (s *Session) Margin() time.Duration { return s.margin }

// Deadline returns when the session counts as lost.
func (s *Session) Deadline() time.Time { return s.born.Add(time.Duration(s.deadline.Load())) }

// Context ends when the session does.
func (s *Session) Context() context.Context { return s.ctx }

// Err is Check without a context: it waits for two seconds at most.
func (s *Session) Err() error { return s.Check(context.Background()) }

// Check returns nil while the session is alive by the clock, and then why it
// ended. If the machine may have slept it asks the service; if ctx ends before
// the answer, it returns context.Cause(ctx).
func (s *Session) Check(ctx context.Context) error {
	for {
		now := s.client.now()
		if s.overdue(now.time) {
			if err := s.Ended(); err != nil {
				return err
			}
			continue // the deadline has moved
		}
		// After the deadline, which needs no request: the common case costs
		// two readings of clocks.
		if !s.mayHaveSlept(now) {
			return nil
		}
		// Before ask: a renewal that is answered in between must wake this
		// call, too.
		_, changed := s.State()
		select {
		case <-s.ask():
		case <-changed: // perhaps by a renewal
		case <-s.ctx.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Ended is Check without asking the service, for callers that send a request.
func (s *Session) Ended() error {
	if !s.overdue(time.Now()) {
		return nil
	}
	// If the deadline has passed, it waits until the contexts of all holds have
	// ended: a caller that learns of the loss here may tell others, who then
	// must not see a hold alive. An end with another cause, before the
	// deadline, may still be under way in another goroutine.
	s.expire()
	return context.Cause(s.ctx) // nil if the deadline has moved
}

// overdue reports whether the session has ended or its deadline has passed.
func (s *Session) overdue(now time.Time) bool {
	return s.ctx.Err() != nil || now.Sub(s.born) >= time.Duration(s.deadline.Load())
}

// State returns the session's state, and a channel that is closed when it
// changes.
func (s *Session) State() (event.State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

// expire ends the session unless a renewal has moved its deadline.
func (s *Session) expire() {
	// With mu, as extend has it: of a late renewal and the deadline one comes
	// first, and the other one sees that.
	s.mu.Lock()
	late := time.Since(s.born) - time.Duration(s.deadline.Load())
	s.mu.Unlock()
	if late < 0 {
		return
	}
	// Without mu: end calls what locks it. extend refuses from the deadline on,
	// so nothing can move it in between.
	s.end(driver.Wrap(ErrSessionLost, fmt.Errorf("no renewal acknowledged in time; the session "+
		"counts as lost %v after the last acknowledged one was sent", s.TTL()-s.margin)))
}

// become changes the state, unless it is lost. tell is called later.
func (s *Session) become(to event.State, tell func()) (from event.State, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.becomeLocked(to, tell)
}

// becomeLocked is become for a caller that holds s.mu.
func (s *Session) becomeLocked(to event.State, tell func()) (from event.State, changed bool) {
	from = s.state
	// Lost is final: a renewal whose answer comes late must not revive it.
	if from == to || from == event.StateLost {
		return from, false
	}
	s.state = to
	close(s.changed)
	s.changed = make(chan struct{})
	if tell != nil {
		s.news.put(tell) // calls observers, hence not with s.mu held
	}
	return from, true
}

// end ends the session with a cause, once. The context ends first: a caller
// that sees any other sign of the end must not get nil from Err. When end
// returns, also for the second of two concurrent callers, all contexts of the
// holds have ended, so the caller may tell the service.
func (s *Session) end(cause error) {
	s.cancel(cause)
	// After the context: a request that ends here looks there for the cause.
	s.cancelRequests()
	// Before the state, and by each caller: the second one may return to a user
	// before the first one has gone on.
	s.endHolds()
	was, first := s.become(event.StateLost, nil)
	if !first {
		return
	}
	// From here on there is one caller.
	s.alarm.Stop()
	cause = context.Cause(s.ctx)       // the first one, of concurrent calls
	s.news.flush(context.Background()) // an observer sees no suspension after the end
	s.client.Observe(event.Event{Kind: event.SessionEnded, Session: s.ID(), State: was, Err: cause})
	if !errors.Is(cause, ErrClosed) {
		s.client.config.Log.Warn("baton: session lost; all holds on it are lost",
			"service", s.client.String(), "session", s.ID(), "error", cause)
	}
	// After the session's own event: observers learn why before they learn
	// what. A hold that is released meanwhile is not in the list, and reports
	// its release.
	s.mu.Lock()
	all := s.holds
	s.holds, s.young = nil, nil
	s.mu.Unlock()
	// Without mu: each locks its own mutex first.
	for e := all.Front(); e != nil; e = e.Next() {
		e.Value.(*hold).lost()
	}
	if errors.Is(cause, ErrClosed) {
		return // Close calls close
	}
	// At the service the session ends at least a margin later, and up to a TTL
	// later than that if the answers to its renewals were lost. Closing it
	// frees the names sooner.
	s.client.closeLater(s)
}

// awaitMargin waits until the margin after a loss has passed, in which nobody
// else can hold the names: work whose context has ended may need it to stop. It
// returns sooner if the service has ended the session, or ctx ends.
func (s *Session) awaitMargin(ctx context.Context) {
	margin := s.TTL() / marginsPerTTL
	over := time.NewTimer(min(margin, time.Until(s.Deadline())+margin)) // shorter after a pause of the process
	defer over.Stop()
	select {
	case <-over.C:
	case <-s.driver.Done():
	case <-ctx.Done():
	}
}

// Go calls f in a goroutine that close waits for, so f must end soon after
// Context does. If the session is over it returns false.
func (s *Session) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// close may already wait for wg, and Add must not race with Wait. The state
	// is lost before close is called, and mu makes the two steps one.
	if s.state == event.StateLost {
		return false
	}
	s.wg.Go(f)
	return true
}
