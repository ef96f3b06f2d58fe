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
)

// Session is one session at the service, from its opening to its end. All holds
// of a client stand on it. It is safe for concurrent use.
type Session struct {
	client *Client
	driver driver.Session
	can    driver.Capabilities // with fallbacks
	margin time.Duration

	ctx    context.Context // ends when the session does, with the cause
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // renewal, and clean-up in the background

	joins, removals, reads chan struct{} // a place for each request of its kind that is under way

	patience *patience // with one attempt of a request
	longer   *patience // with that of a join
	silence  silence

	closing  atomic.Bool  // somebody calls, or has called, the driver's Close
	born     time.Time    // carries the monotonic clock
	deadline atomic.Int64 // nanoseconds after born; may only be moved under mu

	service atomic.Pointer[string] // its identity, once it was read

	wallDeadline atomic.Int64 // the same on the wall clock, in Unix nanoseconds; see Check

	mu           sync.Mutex
	alarm        *time.Timer // fires at the deadline; guard listens
	state        event.State
	changed      chan struct{}       // closed and replaced at each change of state
	holds        *list.List          // of *hold, see Hold; nil once the session has ended
	young        *list.Element       // the oldest of them that has not settled, if any
	settling     bool                // settle will be called
	doubts       map[string]struct{} // see doubt
	ids          []string            // that can be used again, see NewID
	queueWatches map[driver.Queue]*queueWatch
	// closed when the service has been asked; nil while nobody asks
	asked chan struct{}
}

// newSession returns a session on the driver's one, which was asked for at
// sent: its clock counts from then. The caller starts renew and guard.
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

		changed:  make(chan struct{}),
		joins:    make(chan struct{}, mostChanges),
		removals: make(chan struct{}, mostChanges),
		reads:    make(chan struct{}, mostReads),

		queueWatches: make(map[driver.Queue]*queueWatch),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.patience = &patience{life: s.ctx, lasts: ds.TTL() / RenewalsPerTTL}
	s.longer = &patience{life: s.ctx, lasts: ds.TTL() / 2}
	s.deadline.Store(int64(ds.TTL() - s.margin))
	s.wallDeadline.Store(sent.wall + int64(ds.TTL()-s.margin))
	s.alarm = time.NewTimer(time.Until(s.Deadline()))
	return s
}

// guard ends the session when the service says that it is over, or the clock.
func (s *Session) guard() {
	look := time.NewTicker(min(s.TTL()/looksPerTTL, lookAtLeast))
	defer look.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-look.C:
			s.warnOfSilence()
			if s.mayHaveSlept(s.client.now()) {
				s.ask()
			}
		case <-s.driver.Done():
			s.end(driver.Wrap(ErrSessionLost, errors.New("the service ended it")))
			return
		case <-s.alarm.C:
			s.expire() // if the deadline was moved meanwhile, the alarm was set again
		}
	}
}

// ID is the session's name at the service. For it, and for TTL, Margin,
// Deadline, Context, Err and State, see coordinator.Session.
func (s *Session) ID() string { return s.driver.ID() }

// TTL is how long the service keeps the session without a renewal.
func (s *Session) TTL() time.Duration { return s.driver.TTL() }

// Margin is taken off the TTL.
func (s *Session) Margin() time.Duration { return s.margin }

// Deadline is when the session counts as lost.
func (s *Session) Deadline() time.Time { return s.born.Add(time.Duration(s.deadline.Load())) }

// Context ends when the session does.
func (s *Session) Context() context.Context { return s.ctx }

// Err is Check without a bound: it waits for two seconds at most.
func (s *Session) Err() error { return s.Check(context.Background()) }

// Check returns nil while the session is alive by the clock, and then why it
// ended. When the machine may have slept it waits for the service's answer; if
// ctx ends before, it returns context.Cause(ctx).
func (s *Session) Check(ctx context.Context) error {
	for {
		now := s.client.now()
		if s.overdue(now.time) {
			if err := s.Ended(); err != nil {
				return err
			}
			continue // the deadline was moved meanwhile
		}
		if !s.mayHaveSlept(now) {
			return nil
		}
		_, changed := s.State()
		select {
		case <-s.ask():
		case <-changed: // by a renewal, perhaps
		case <-s.ctx.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Ended is Check without the question, for callers that send a request anyway.
func (s *Session) Ended() error {
	if !s.overdue(time.Now()) {
		return nil
	}
	s.expire()
	return context.Cause(s.ctx) // nil if the deadline was moved meanwhile
}

// overdue reports whether the session has ended, or has to by the clock.
func (s *Session) overdue(now time.Time) bool {
	return s.ctx.Err() != nil || now.Sub(s.born) >= time.Duration(s.deadline.Load())
}

// State is the session's state, and a channel that is closed when it changes.
func (s *Session) State() (event.State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

// expire ends the session unless a renewal has moved its deadline meanwhile.
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
// deadline that is too late: the loss may have been seen. left is what was left
// until then.
func (s *Session) extend(sent moment) (left time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.born)
	left = time.Duration(s.deadline.Load()) - now
	if s.ctx.Err() != nil || left <= 0 {
		return 0, false
	}
	life := s.TTL() - s.margin
	if d := sent.time.Sub(s.born) + life; d >= time.Duration(s.deadline.Load()) {
		s.deadline.Store(int64(d))
		s.wallDeadline.Store(sent.wall + int64(life))
		s.alarm.Reset(d - now)
	}
	return left, true
}

func (s *Session) become(to event.State) (from event.State, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from = s.state
	if from == to || from == event.StateLost {
		return from, false
	}
	s.state = to
	close(s.changed)
	s.changed = make(chan struct{})
	return from, true
}

// end ends the session for the given cause, once. The context ends before
// anything else: a caller that sees any sign of the end must not get from Err
// that the session is alive.
func (s *Session) end(cause error) {
	s.cancel(cause)
	was, first := s.become(event.StateLost)
	if !first {
		return
	}
	s.alarm.Stop()
	cause = context.Cause(s.ctx) // of two that end it at once, the first
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
		return // close does the rest
	}
	// The service may still have the session: by our clock it ends a margin
	// earlier than there. Ending it there too frees the names sooner. The net
	// below is the TTL.
	s.client.later(s)
}

// SettleAfter is how long a hold lasts before it is worth more than its grant.
const SettleAfter = 250 * time.Millisecond

type hold struct {
	since         time.Time
	settled, lost func()
}

// Hold calls settled after SettleAfter, and lost when the session ends, in the
// goroutine that ends it, so that Close returns after lost. If the session is
// not alive it calls neither. stop reports whether it keeps lost from being
// called; a second stop reports false.
func (s *Session) Hold(settled, lost func()) (stop func() bool, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds == nil {
		return func() bool { return false }, false
	}
	e := s.holds.PushBack(&hold{time.Now(), settled, lost})
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

// settle serves all holds. Most are released before they settle, and a timer
// for each takes some 5 % of the client's CPU.
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

// close ends the session at the service, after end, and waits for what it
// started.
func (s *Session) close(ctx context.Context) error {
	var err error
	if s.closing.CompareAndSwap(false, true) {
		err = s.driver.Close(ctx)
	}
	s.wg.Wait()
	return err
}

// Go runs f in a goroutine that the session owns: closing waits for it, so f
// must end soon after Context does. When the session is over it returns false.
func (s *Session) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == event.StateLost { // then wg may be waited for
		return false
	}
	s.wg.Go(f)
	return true
}

// renew renews the session every quarter of the TTL, and soon after a failure.
// A renewal without an answer is given up after a quarter of the TTL, so that
// one request stuck on a silent member does not use up the time in which
// another could have succeeded.
func (s *Session) renew() {
	interval := s.TTL() / RenewalsPerTTL
	pauses := s.client.config.pauses()
	timer := time.NewTimer(interval - time.Since(s.born))
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		sent := time.Now()
		switch err := s.renewOnce(s.ctx, interval); {
		case err == nil:
			pauses.Reset()
			timer.Reset(max(0, interval-time.Since(sent)))
		case errors.Is(err, ErrSessionLost):
			return
		default:
			s.suspend(err, time.Until(s.Deadline()))
			timer.Reset(min(pauses.NextBackOff(), interval))
		}
	}
}

// renewOnce sends one renewal, and moves the deadline. The error is
// ErrSessionLost if it has ended the session.
func (s *Session) renewOnce(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	sent := s.client.now()
	err := s.driver.Renew(ctx)
	if err == nil {
		left, ok := s.extend(sent)
		if !ok {
			s.expire()
			return ErrSessionLost
		}
		s.silence.note(0, nil)
		s.renewed(time.Since(sent.time), left)
		return nil
	}
	if errors.Is(err, ErrSessionLost) {
		s.end(err)
	}
	return err
}

func (s *Session) renewed(took, left time.Duration) {
	if _, resumed := s.become(event.StateConnected); resumed {
		s.client.config.Log.Info("baton: session resumed",
			"service", s.client.String(), "session", s.ID())
		s.client.Observe(event.Event{Kind: event.SessionResumed, Session: s.ID()})
	}
	s.client.Observe(event.Event{Kind: event.SessionRenewed,
		Session: s.ID(), Duration: took, Margin: left, Life: s.TTL() - s.margin})
}

func (s *Session) suspend(err error, left time.Duration) {
	if _, suspended := s.become(event.StateSuspended); !suspended {
		return
	}
	s.client.config.Log.Warn("baton: session suspended: the service does not answer",
		"service", s.client.String(), "session", s.ID(),
		"lost_in", left.Round(time.Millisecond), "error", err)
	s.client.Observe(event.Event{Kind: event.SessionSuspended,
		Session: s.ID(), Margin: left, Err: err})
}
