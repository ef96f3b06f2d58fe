package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// If a queue has many contenders of few sessions, one watch of the whole queue,
// shared by all contenders of a session, costs less than the reads of each of
// them.
const (
	leastPlaces  = 16  // the smallest queue for which the watch pays
	leastEach    = 3   // the fewest contenders per session
	mostSessions = 16  // bounds how many sessions a release wakes
	mostPlaces   = 512 // bounds the cost of a view
)

// ShareWatch reports whether a shared watch pays in a queue of so many places
// and sessions.
func ShareWatch(places, sessions int) bool {
	return places >= max(leastPlaces, leastEach*sessions) && places <= mostPlaces &&
		sessions <= mostSessions
}

// QueueView is a view of a whole queue. It is shared and read-only.
type QueueView struct {
	Places   []driver.Place // in order
	Sessions int            // the number of different sessions
	// Record is the newest version of the queue's record from its watch. It may
	// be older or newer than Places.
	Record driver.Version
	Shown  time.Time // when the view arrived

	at map[string]int // by key
}

// At returns the index of a place, or -1.
func (v QueueView) At(p driver.Place) int {
	if i, ok := v.at[p.Key]; ok {
		return i
	}
	return -1
}

// ShareWatch reports whether a shared watch pays in the queue.
func (v QueueView) ShareWatch() bool { return ShareWatch(len(v.Places), v.Sessions) }

// WatchesQueues reports whether the service can watch a whole queue.
func (s *Session) WatchesQueues() bool { return s.can.QueueWatcher != nil }

// WatchQueue calls judge with each view of the queue until judge returns true;
// then it returns nil. All contenders of a session share two watches, of the
// queue and of its record, of which the caller has read the version known.
//
// Each view contains own. If own has left the queue, WatchQueue returns nil;
// then Ahead returns the reason. The errors are those of Await.
func (s *Session) WatchQueue(
	ctx context.Context, queue driver.Queue, own driver.Place, known driver.Version,
	judge func(QueueView) bool,
) error {
	return s.wait(ctx, "await", queue, func(ctx context.Context) error {
		w := s.queueWatch(queue, known)
		if w == nil {
			return ErrSessionLost
		}
		defer w.leave()
		seen := false
		late := time.NewTimer(SettleAfter)
		defer late.Stop()
		for {
			view, shown, changed, err := w.now()
			queued := view.At(own) >= 0
			switch {
			case err != nil:
				return err
			case queued && judge(view), !queued && seen:
				return nil
			}
			if seen = seen || queued; seen {
				shown = nil // arrivals behind own do not matter
			}
			select {
			case <-shown:
			case <-changed:
			case <-late.C:
				if !seen { // removed before the first view, or the service is slow
					return nil
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// QueueWatched reports whether this session has a shared watch of the queue
// that pays.
func (s *Session) QueueWatched(queue driver.Queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.queueWatches[queue]
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view.at == nil || w.view.ShareWatch() // there may be no view yet
}

// queueWatch watches a queue for contenders of a session. It starts with the
// first user, and ends SettleAfter after the last: in a contended queue the
// next user comes soon.
type queueWatch struct {
	session *Session
	queue   driver.Queue
	ctx     context.Context
	cancel  context.CancelFunc
	idle    *time.Timer // runs while there are no users

	mu    sync.Mutex // locked after the session's, never before
	users int
	view  QueueView
	shown chan struct{} // closed and replaced with each view
	// closed and replaced when an entry has left or the record has changed;
	// closed when err is set
	changed chan struct{}
	err     error
}

// queueWatch adds a user to the watch of a queue. It returns nil if the session
// is over.
func (s *Session) queueWatch(queue driver.Queue, known driver.Version) *queueWatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == event.StateLost { // close may already wait for wg
		return nil
	}
	w := s.queueWatches[queue]
	if w == nil {
		w = &queueWatch{
			session: s, queue: queue, view: QueueView{Record: known},
			shown: make(chan struct{}), changed: make(chan struct{}),
		}
		w.ctx, w.cancel = context.WithCancel(s.ctx)
		w.idle = time.AfterFunc(SettleAfter, func() { w.end(nil) })
		s.queueWatches[queue] = w
		s.wg.Go(func() { w.end(w.followPlaces()) })
		s.wg.Go(func() { w.end(w.followRecord(known)) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle.Stop()
	w.users++
	return w
}

func (w *queueWatch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users == 0 {
		w.idle.Reset(SettleAfter)
	}
}

// end ends the watch: with an error, which its users get, or with nil, if it
// has no users.
func (w *queueWatch) end(err error) {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && w.users > 0:
		return // a user has joined since the idle timer fired
	case err != nil && w.err == nil:
		w.err = err
		close(w.changed)
	}
	w.cancel()
	w.idle.Stop()
	if w.session.queueWatches[w.queue] == w {
		delete(w.session.queueWatches, w.queue)
	}
}

func (w *queueWatch) now() (v QueueView, shown, changed <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view, w.shown, w.changed, w.err
}

func (w *queueWatch) followPlaces() error {
	return w.session.retry(w.ctx, "await", w.queue, func() error {
		if err := w.session.can.QueueWatcher.WatchQueue(w.ctx, w.queue, w.show); err != nil {
			return err
		}
		return driver.Wrap(ErrUnavailable, errors.New("the watch of the queue ended"))
	})
}

// show stores a view. It wakes the users that have not seen their own entries
// yet, and all users if an entry has left.
func (w *queueWatch) show(places []driver.Place) bool {
	at, sessions := make(map[string]int, len(places)), make(map[string]struct{})
	for i, p := range places {
		at[p.Key] = i
		sessions[p.Session] = struct{}{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.view
	w.view = QueueView{Places: places, Sessions: len(sessions), Record: before.Record,
		Shown: time.Now(), at: at}
	close(w.shown)
	w.shown = make(chan struct{})
	left := false
	for _, p := range before.Places {
		left = left || w.view.At(p) < 0
	}
	if left {
		w.wake()
	}
	return true // its context ends it
}

// wake wakes the users. The caller holds w.mu.
func (w *queueWatch) wake() {
	if w.err == nil {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

func (w *queueWatch) followRecord(known driver.Version) error {
	for {
		var r driver.Record
		err := w.session.retry(w.ctx, "await", w.queue, func() (err error) {
			r, err = w.session.driver.Record(w.ctx, w.queue, known)
			return err
		})
		if err != nil {
			return err
		}
		known = r.Version
		w.mu.Lock()
		w.view.Record = known
		w.wake()
		w.mu.Unlock()
	}
}
