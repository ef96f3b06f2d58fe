package coordinator

// StopAlarm keeps the session's alarm from ringing, as in a process that was paused and has woken up this very
// moment: the deadline has passed, and no timer has run yet.
func (s *Session) StopAlarm() { s.alarm.Stop() }
