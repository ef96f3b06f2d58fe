package engine

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/patience"
)

// Session is a session at the service, from its opening to its end. All holds
// of a client belong to it. It is safe for concurrent use.
type Session struct {
	client *Client
	driver driver.Session
	can    driver.Capabilities // with fallbacks
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

	closing  atomic.Bool  // the driver's Close was called
	born     time.Time    // has a monotonic clock reading
	deadline atomic.Int64 // nanoseconds after born; written under mu

	service atomic.Pointer[string] // its identity, nil until it was read

	wallDeadline atomic.Int64 // the deadline on the wall clock, in Unix nanoseconds; see Check

	mu           sync.Mutex
	alarm        *time.Timer // fires at the deadline, for guard
	state        event.State
	changed      chan struct{}       // closed and replaced at each change of state
	renewErr     error               // of the latest renewal, if it failed
	answered     time.Time           // when the latest acknowledgement came
	holds        *list.List          // of *hold; nil after the end of the session
	young        *list.Element       // the first of them that has not settled, or nil
	settling     bool                // settle will be called
	doubts       map[string]struct{} // see doubt
	ids          []string            // for reuse, see NewID
	queueWatches map[driver.Queue]*queueWatch
	scans        map[driver.Queue]scan // see ReadDue
	asked        chan struct{}         // see ask; nil if it is not under way
}

// newSession returns a session for a driver's session, which was requested at
// sent. Its deadline counts from then. The caller starts renew and guard.
func newSession(c *Client, ds driver.Session, sent moment) *Session {
	s := &Session{
		client: c,
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
	}
	s.news.deliver = func(tell func()) { tell() }
	s.news.report = func(int) {} // the events and lines are what counts
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.requests, s.cancelRequests = context.WithCancel(context.Background())
	s.patience = patience.New(s.requests, ds.TTL()/AttemptsPerTTL)
	s.longer = patience.New(s.requests, ds.TTL()/2)
	s.deadline.Store(int64(ds.TTL() - s.margin))
	s.wallDeadline.Store(sent.wall + int64(ds.TTL()-s.margin))
	s.alarm = time.NewTimer(time.Until(s.Deadline()))
	return s
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
			if time.Since(checked) < 2*interval { // else the process may have stood still
				s.checkRenewals()
			}
			checked = time.Now()
			if s.mayHaveSlept(s.client.now()) {
				s.ask()
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
		if err := says.Err(); errors.Is(err, ErrSessionLost) {
			return err
		}
	}
	return driver.Wrap(ErrSessionLost, errors.New("the service ended it"))
}

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
		if !s.mayHaveSlept(now) {
			return nil
		}
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
	s.mu.Lock()
	late := time.Since(s.born) - time.Duration(s.deadline.Load())
	s.mu.Unlock()
	if late < 0 {
		return
	}
	s.end(driver.Wrap(ErrSessionLost, fmt.Errorf("no renewal acknowledged in time; the session "+
		"counts as lost %v after the last acknowledged one was sent", s.TTL()-s.margin)))
}

// extend moves the deadline after a renewal was acknowledged. After the
// deadline it does not, because callers may have seen the loss. left is the
// time that was left.
func (s *Session) extend(sent moment) (left time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.born)
	left = time.Duration(s.deadline.Load()) - now
	if s.ctx.Err() != nil || left <= 0 {
		return 0, false
	}
	life := s.TTL() - s.margin
	s.renewErr, s.answered = nil, time.Now()
	if d := sent.time.Sub(s.born) + life; d >= time.Duration(s.deadline.Load()) {
		s.deadline.Store(int64(d))
		s.wallDeadline.Store(sent.wall + int64(life))
		s.alarm.Reset(d - now)
	}
	return left, true
}

// become changes the state, unless it is lost. tell is called later.
func (s *Session) become(to event.State, tell func()) (from event.State, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.becomeLocked(to, tell)
}

func (s *Session) becomeLocked(to event.State, tell func()) (from event.State, changed bool) {
	from = s.state
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
	s.cancelRequests()
	s.endHolds()
	was, first := s.become(event.StateLost, nil)
	if !first {
		return
	}
	s.alarm.Stop()
	cause = context.Cause(s.ctx)       // the first one, of concurrent calls
	s.news.flush(context.Background()) // an observer sees no suspension after the end
	s.client.Observe(event.Event{Kind: event.SessionEnded, Session: s.ID(), State: was, Err: cause})
	if !errors.Is(cause, ErrClosed) {
		s.client.config.Log.Warn("baton: session lost; all holds on it are lost",
			"service", s.client.String(), "session", s.ID(), "error", cause)
	}
	s.mu.Lock()
	all := s.holds
	s.holds, s.young = nil, nil
	s.mu.Unlock()
	for e := all.Front(); e != nil; e = e.Next() {
		e.Value.(*hold).lost()
	}
	if errors.Is(cause, ErrClosed) {
		return // Close calls close
	}
	// At the service the session ends at least a margin later. Closing it frees
	// the names sooner than its TTL.
	s.client.closeLater(s)
}

// endHolds notifies the holds that the session's context has ended, before
// observers and the log, which may block.
func (s *Session) endHolds() {
	s.mu.Lock()
	var all []*hold
	if s.holds != nil { // nil after the first caller of end has returned from here
		for e := s.holds.Front(); e != nil; e = e.Next() {
			all = append(all, e.Value.(*hold))
		}
	}
	s.mu.Unlock()
	for _, h := range all {
		h.ended()
	}
}

// SettleAfter is how long a hold lasts before it is watched and converted.
const SettleAfter = 250 * time.Millisecond

type hold struct {
	since                time.Time
	settled, ended, lost func()
}

// Hold calls settled after SettleAfter. When the session ends it calls ended,
// perhaps more than once, before the service can be told; ended must not block.
// Then it calls lost, in the goroutine that ends the session, so that Close
// returns after lost. If the session is not alive it calls none of them. stop
// reports whether it prevents the call of lost; a second call reports false.
func (s *Session) Hold(settled, ended, lost func()) (stop func() bool, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds == nil {
		return func() bool { return false }, false
	}
	e := s.holds.PushBack(&hold{time.Now(), settled, ended, lost})
	if s.young == nil {
		s.young = e
	}
	if !s.settling {
		s.settling = true
		time.AfterFunc(SettleAfter, s.settle)
	}
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.holds == nil || e.Value == nil {
			return false
		}
		if s.young == e {
			s.young = e.Next()
		}
		s.holds.Remove(e)
		e.Value = nil
		return true
	}, true
}

// settle serves all holds: a timer per hold takes some 5 % of the client's CPU,
// and most holds are released before they settle.
func (s *Session) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.young != nil; s.young = s.young.Next() {
		h := s.young.Value.(*hold)
		if left := SettleAfter - time.Since(h.since); left > 0 {
			time.AfterFunc(left, s.settle)
			return
		}
		go h.settled()
	}
	s.settling = false
}

// close ends the session at the service, after end, and waits for its
// goroutines.
func (s *Session) close(ctx context.Context) error {
	var err error
	if s.closing.CompareAndSwap(false, true) {
		err = s.endAtService(ctx)
	}
	s.wg.Wait()
	s.news.flush(ctx)
	return err
}

// endAtService calls the driver's Close until it is answered or ctx ends. Its
// attempts are bounded like those of other requests: one to a member that hangs
// would keep the names locked for the TTL.
func (s *Session) endAtService(ctx context.Context) error {
	return s.client.config.retry(ctx, ctx, func() error {
		attempt, cancel := context.WithTimeout(ctx, s.TTL()/AttemptsPerTTL)
		defer cancel()
		err := s.driver.Close(attempt)
		slow := attempt.Err() != nil && ctx.Err() == nil
		if err != nil && slow && !errors.Is(err, ErrUnavailable) {
			return driver.Wrap(ErrUnavailable, context.DeadlineExceeded)
		}
		return err
	}, func(err error) {
		s.client.Observe(event.Event{Kind: event.Retried, Session: s.ID(), Op: "close", Err: err})
	})
}

// Go calls f in a goroutine that close waits for, so f must end soon after
// Context does. If the session is over it returns false.
func (s *Session) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == event.StateLost { // close may already wait for wg
		return false
	}
	s.wg.Go(f)
	return true
}

// renew sends a renewal every tenth of the TTL, whether or not those before
// were answered, so that one to a silent member costs no more time. After a
// failure the next follows soon, and each one within mostAway, so that the
// session is renewed half a second after an outage: see docs/ttl.md. After an
// outage the first interval is shorter, by a random time, so that the clients
// of a service do not go on together.
func (s *Session) renew() {
	interval, conf := s.TTL()/driver.RenewalsPerTTL, &s.client.config
	pauses := conf.pauses(min(max(s.TTL()/retriesPerTTL, shortestPause), longestPause))
	results, failing, away := make(chan error), false, false
	sent, due := s.born, s.born.Add(interval)
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case sent = <-timer.C:
			if due = sent.Add(interval); away {
				due = sent.Add(min(interval, mostAway))
			}
			timer.Reset(time.Until(due))
			s.wg.Go(func() {
				select {
				case results <- s.renewOnce(s.ctx, s.TTL()/AttemptsPerTTL):
				case <-s.ctx.Done():
				}
			})
		case err := <-results:
			away = err != nil && !errors.Is(err, ErrRefused) // a refusal will not pass soon
			switch {
			case away:
				timer.Reset(min(pauses.NextBackOff(), time.Until(due)))
			case err == nil && failing:
				pauses.Reset()
				sooner := time.Duration(conf.Jitter * rand.Float64() * float64(interval))
				due = sent.Add(interval - sooner)
				timer.Reset(time.Until(due))
			}
			failing = err != nil
		}
	}
}

// renewOnce sends one renewal, and moves the deadline. The error is nil if a
// later one has been acknowledged meanwhile, and ErrSessionLost if it has ended
// the session.
func (s *Session) renewOnce(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	sent := s.client.now()
	err := s.driver.Renew(ctx)
	switch {
	case err == nil:
		left, ok := s.extend(sent)
		if !ok {
			s.expire()
			return ErrSessionLost
		}
		s.renewed(time.Since(sent.time), left)
	case errors.Is(err, ErrSessionLost):
		s.end(err)
	case s.Deadline().After(sent.time.Add(s.TTL() - s.margin)):
		return nil
	default:
		s.mu.Lock()
		s.renewErr = err
		s.mu.Unlock()
	}
	return err
}

// checkRenewals suspends the session if no renewal was acknowledged for a
// while.
func (s *Session) checkRenewals() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.answered) >= s.TTL()/suspendedPerTTL {
		err := cmp.Or(s.renewErr, errNoAnswer)
		s.becomeLocked(event.StateSuspended, s.suspended(err, time.Until(s.Deadline())))
	}
}

func (s *Session) renewed(took, left time.Duration) {
	s.become(event.StateConnected, func() {
		s.client.config.Log.Info("baton: session resumed",
			"service", s.client.String(), "session", s.ID())
		s.client.Observe(event.Event{Kind: event.SessionResumed, Session: s.ID()})
	})
	s.client.Observe(event.Event{Kind: event.SessionRenewed,
		Session: s.ID(), Duration: took, Margin: left, Life: s.TTL() - s.margin})
}

func (s *Session) suspend(err error, left time.Duration) {
	s.become(event.StateSuspended, s.suspended(err, left))
}

// suspended returns the function that reports it.
func (s *Session) suspended(err error, left time.Duration) func() {
	return func() {
		s.client.config.Log.Warn("baton: session suspended: it cannot be renewed",
			"service", s.client.String(), "session", s.ID(),
			"lost_in", left.Round(time.Millisecond), "error", err)
		s.client.Observe(event.Event{Kind: event.SessionSuspended,
			Session: s.ID(), Margin: left, Err: err})
	}
}
