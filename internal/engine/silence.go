package engine

import (
	"errors"
	"sync"
	"time"
)

const (
	// silentAfter is when the log says that no request is answered. A join, for
	// one, is sent again only after half the TTL.
	silentAfter = time.Second
	// silencePause is the least time between two of these warnings.
	silencePause = time.Minute
)

var errNoAnswer = errors.New("no answer yet")

// silence is how long the service has answered no request of a session.
type silence struct {
	mu      sync.Mutex
	owed    int       // requests under way
	since   time.Time // the latest answer to one, or the first of these
	err     error     // of the latest attempt without an answer
	checked time.Time
	warned  time.Time
}

func (q *silence) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.owed == 0 {
		q.since, q.err = time.Now(), errNoAnswer
	}
	q.owed++
}

// attempted notes the outcome of an attempt.
func (q *silence) attempted(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !unanswered(err):
		q.since = time.Now()
	case errors.Is(err, ErrUnavailable): // and not because the caller gave up
		q.err = err
	}
}

func (q *silence) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.owed--
}

// warnOfSilence is called every interval. A late call follows a pause of the
// process, whose answers may not have been read yet.
func (s *Session) warnOfSilence(interval time.Duration) {
	q := &s.silence
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	late := now.Sub(q.checked) > 2*interval
	q.checked = now
	silent, err := now.Sub(q.since), q.err
	if late || q.owed == 0 || silent < silentAfter || now.Sub(q.warned) < silencePause {
		return
	}
	q.warned = now
	s.Go(func() { // a log that blocks must not delay guard
		s.client.config.Log.Warn("baton: the service has not answered, still trying", "service",
			s.client.String(), "silent_for", silent.Round(time.Millisecond), "error", err)
	})
}
