package engine

import "time"

// How many requests of a session are under way at once.
const (
	MostChanges = mostChanges
	MostReads   = mostReads
)

// WithWallClock sets what the client takes for the wall clock. The monotonic
// one stays as it is.
func WithWallClock(now func() time.Time) Option { return func(c *Config) { c.wall = now } }

// StopAlarm keeps the session's alarm from ringing, as in a process that was
// paused and has woken up this very moment: the deadline has passed, and no
// timer has run yet.
func (s *Session) StopAlarm() { s.alarm.Stop() }
