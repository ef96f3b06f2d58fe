package engine

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

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
