package engine

import (
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

// silentAfter is how long no request may be answered before the log says so: a
// join is given up, and sent again, only after half the TTL.
const silentAfter = time.Second

// silence knows for how long the service has answered no request of a session.
type silence struct {
	mu     sync.Mutex
	owed   int       // requests without an answer
	since  time.Time // the latest answer, or the first request after none was owed
	err    error     // of the latest attempt since
	warned bool
}

func (q *silence) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.owed++; q.owed == 1 {
		q.since, q.err = time.Now(), nil
	}
}

func (q *silence) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.owed--
}

// heard is called with the outcome of each attempt.
func (q *silence) heard(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err = err; !unanswered(err) {
		q.since, q.err, q.warned = time.Now(), nil, false
	}
}

// warnOfSilence logs once for each outage that a request waits for.
func (s *Session) warnOfSilence() {
	q := &s.silence
	q.mu.Lock()
	since, err := time.Since(q.since), q.err
	warn := q.owed > 0 && since >= silentAfter && !q.warned
	q.warned = q.warned || warn
	q.mu.Unlock()
	if state, _ := s.State(); !warn || state != event.StateConnected { // suspended: logged
		return
	}
	args := []any{"service", s.client.String(), "silent_for", since.Round(time.Millisecond)}
	if err != nil {
		args = append(args, "error", err)
	}
	s.client.config.Log.Warn("baton: the service does not answer, still trying", args...)
}
