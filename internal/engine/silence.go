package engine

import (
	"errors"
	"sync"
	"time"
)

// silentAfter is when the log says that no request is answered. A join, for
// one, is given up and sent again only after half the TTL.
const silentAfter = time.Second

var errNoAnswer = errors.New("no answer yet")

// silence is how long the service has answered no request of a session.
type silence struct {
	mu     sync.Mutex
	owed   int       // requests under way
	since  time.Time // the latest answer, or the first of these requests
	err    error     // of the latest attempt
	warned bool
}

// note counts requests that begin or end, and notes the outcome of an attempt.
func (q *silence) note(requests int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.owed += requests
	answered := !unanswered(err)
	if q.err = err; answered || q.owed == requests {
		q.since, q.warned = time.Now(), q.warned && !answered
	}
}

// warnOfSilence logs once for each outage that a request waits for.
func (s *Session) warnOfSilence() {
	q := &s.silence
	q.mu.Lock()
	silent, err := time.Since(q.since), q.err
	warn := q.owed > 0 && silent >= silentAfter && !q.warned
	q.warned = q.warned || warn
	q.mu.Unlock()
	if warn {
		s.client.config.Log.Warn("baton: the service does not answer, still trying", "service",
			s.client.String(), "silent_for", silent.Round(time.Millisecond), "error", err)
	}
}
