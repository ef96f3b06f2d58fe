package sql

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

const (
	// safety is the time between checks when notifications arrive. Otherwise it
	// is between shortest and longest.
	safety            = 2 * time.Second
	shortest, longest = time.Millisecond, 250 * time.Millisecond
	readTimeout       = 3 * time.Second
	silence           = 5 * time.Second // after which a client sends a notification, which all hear
	rest              = time.Minute     // without notifications, for a pool without free connections
)

// waiter is a call that waits until one of the entries with some tokens has
// left. 0 stands for the record, which has left its version.
type waiter struct {
	path    string
	tokens  map[int64]string // with their contenders
	version driver.Version
	end     chan error // has room for one

	// of run
	due      time.Time     // of the next check
	interval time.Duration // between checks
	behind   int64         // so many entries leave before it ends, or fewer
	since    time.Time     // this has been so
	dead     bool          // a session of an entry has expired
}

func (w *waiter) finish(err error) {
	select {
	case w.end <- err:
	default: // it has ended
	}
}

// Watch waits until a check shows that an entry has left. A notification is a
// hint to check at once: it can be lost, and others may be able to send one.
func (s *session) Watch(ctx context.Context, queue driver.Queue, places ...driver.Place) error {
	if len(places) == 0 {
		return invalid("nothing to watch")
	}
	w := &waiter{path: s.d.path(queue), tokens: map[int64]string{}}
	for _, p := range places {
		w.tokens[tokenOf(p)] = p.ID
	}
	if _, ok := w.tokens[0]; ok {
		return nil // no entry has such a place
	}
	return s.wait(ctx, w)
}

func (s *session) wait(ctx context.Context, w *waiter) error {
	w.end = make(chan error, 1)
	s.mu.Lock()
	s.waiters[w] = struct{}{}
	s.rouse()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiters, w)
		s.mu.Unlock()
	}()
	select {
	case err := <-w.end:
		return err
	case <-s.ctx.Done():
		return errLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run checks for all waiters of the session, in one goroutine from the first
// wait until the session is over.
func (s *session) run() {
	l := listener{s: s}
	defer l.drop()
	for s.ctx.Err() == nil {
		requests, yield := context.WithCancel(s.ctx)
		ctx, cancel := context.WithCancel(requests)
		s.mu.Lock()
		s.rouse, s.yield = cancel, yield
		waiters := slices.Collect(maps.Keys(s.waiters))
		gaveWay := s.gaveWay.Swap(false)
		s.mu.Unlock()
		if s.freed.Swap(false) {
			for _, w := range waiters {
				if w.dead {
					w.due = time.Time{}
				}
			}
		}
		if gaveWay {
			l.drop()
			l.asked = time.Now().Add(rest)
		}
		if due, pause := pick(waiters, time.Now()); len(due) > 0 {
			s.check(requests, due, l.pg != nil && l.probe == "")
		} else {
			timer := time.AfterFunc(pause, cancel)
			l.ask(requests)
			l.receive(ctx, waiters)
			timer.Stop()
		}
		yield()
	}
}

// pick returns the waiters to check, or the time until the next is due. With
// one that is due it returns those that will soon be, so that the waiters of a
// session come together in one check.
func pick(waiters []*waiter, now time.Time) (due []*waiter, pause time.Duration) {
	pause = math.MaxInt64
	for _, w := range waiters {
		pause = min(pause, w.due.Sub(now))
	}
	if pause > 0 {
		return nil, pause
	}
	for _, w := range waiters {
		if w.due.Sub(now) <= w.interval/2 {
			due = append(due, w)
		}
	}
	return due, 0
}

// check ends the waits that are over, and says when the others are due.
func (s *session) check(ctx context.Context, waiters []*waiter, notified bool) {
	began := time.Now()
	var list []*watched
	for _, w := range waiters {
		for token := range w.tokens {
			absent := token == 0 && w.version == 0 // of a record that does not exist
			list = append(list, &watched{waiter: w, token: token, found: absent})
		}
	}
	expired, err := s.find(ctx, list, notified)
	if err == nil {
		s.expire(expired)
	}
	if s.gaveWay.Load() {
		return // and check again
	}
	// Checks of many waiters take a quarter of the time at most.
	least := min(3*time.Since(began), safety)
	for w, st := range judge(list) {
		w.dead = st.dead
		if err != nil || st.over {
			w.finish(err)
			w.interval = safety // it deletes itself before
		} else {
			w.interval = max(w.pause(st, notified), least)
		}
		w.due = time.Now().Add(w.interval)
	}
}

// judge returns what a check shows of each waiter.
func judge(list []*watched) map[*waiter]state {
	states := map[*waiter]state{}
	for _, e := range list {
		st, known := states[e.waiter]
		if !known {
			st.remains = safety
		}
		st.over = st.over || !e.found
		st.behind = max(st.behind, e.token-e.first+1)
		switch {
		case e.token == 0 || !e.found:
		case e.remains <= 0: // its end frees the entry: see endExpired
			st.dead = true
		default:
			st.remains = min(st.remains, max(e.remains, shortest))
		}
		states[e.waiter] = st
	}
	return states
}

// state is what a check shows of a waiter.
type state struct {
	over    bool
	dead    bool // a session has expired
	behind  int64
	remains time.Duration // to the live session that expires first
}

// pause returns the time until the next check. Without notifications that is in
// proportion to the number of entries that leave before the wait ends, and to
// the time since that number changed. Their tokens bound the number.
func (w *waiter) pause(st state, notified bool) time.Duration {
	if notified {
		return min(safety, st.remains)
	}
	if st.behind != w.behind {
		w.behind, w.since = st.behind, time.Now()
	}
	step := min(max(time.Since(w.since)/8, shortest), longest)
	return min(step*time.Duration(min(st.behind, 1000)), longest, st.remains)
}
