package engine

import (
	"context"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

// renew is the one renewal loop of a session: it asks every quarter of the TTL, counts from
// the sending, and tries again soon after a failure. It ends with the session.
//
// A renewal without an answer is given up after a quarter of the TTL, so that one
// request stuck on a silent member does not use up the time in which another could have
// succeeded.
func (s *Session) renew() {
	interval := s.TTL() / RenewalsPerTTL
	pauses := s.client.retry.pauses()
	timer := time.NewTimer(interval - time.Since(s.born))
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		sent := time.Now()
		switch err := s.renewOnce(interval); {
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

// renewOnce sends one renewal and waits for its answer, for the given time at most. It moves the deadline, or ends the
// session if the service says so or the answer comes too late; the error is ErrSessionLost then.
func (s *Session) renewOnce(bound time.Duration) error {
	ctx, cancel := context.WithTimeout(s.ctx, bound)
	defer cancel()
	sent := s.client.now()
	err := s.driver.Renew(ctx)
	if err == nil {
		left, ok := s.extend(sent)
		if !ok {
			s.expire()
			return ErrSessionLost
		}
		s.renewed(time.Since(sent.time), left)
		return nil
	}
	if errors.Is(err, ErrSessionLost) {
		s.end(err)
	}
	return err
}

// renewed tells of a renewal that took so long, and came when so much was left.
func (s *Session) renewed(took, left time.Duration) {
	if _, resumed := s.become(event.StateConnected); resumed {
		s.client.log.Info("baton: session resumed", "service", s.client.String(), "session", s.ID())
		s.client.Observe(event.Event{Kind: event.SessionResumed, Session: s.ID()})
	}
	s.client.Observe(event.Event{Kind: event.SessionRenewed, Session: s.ID(), Duration: took, Margin: left, Life: s.TTL() - s.margin})
}

// suspend tells that the service does not answer, with what error, and when the session is lost for it.
func (s *Session) suspend(err error, left time.Duration) {
	if _, suspended := s.become(event.StateSuspended); !suspended {
		return
	}
	s.client.log.Warn("baton: session suspended: the service does not answer",
		"service", s.client.String(), "session", s.ID(), "lost_in", left.Round(time.Millisecond), "error", err)
	s.client.Observe(event.Event{Kind: event.SessionSuspended, Session: s.ID(), Margin: left, Err: err})
}
