package engine

import "time"

// The bounds of a session's concurrent requests.
const (
	MostChanges = mostChanges
	MostReads   = mostReads

	// MostItems is the bound of an outbox.
	MostItems = mostItems
)

// WithWallClock replaces the client's wall clock, but not the monotonic clock.
func WithWallClock(now func() time.Time) Option { return func(c *Config) { c.wall = now } }

// Lose ends the session as at its deadline.
func (s *Session) Lose() { s.end(ErrSessionLost) }

// StopAlarm stops the session's timer, as in a process right after a pause: the
// deadline has passed, and no timer has run yet.
func (s *Session) StopAlarm() { s.alarm.Stop() }

// Suspend suspends the session.
func (s *Session) Suspend() { s.suspend(errNoAnswer, time.Second) }
