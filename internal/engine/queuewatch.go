package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// A queue is crowded when it has many contenders of few sessions. Then a watch
// of the whole queue, shared by all contenders of a session, costs less than
// what each of them would read.
const (
	manyPlaces  = 16  // the smallest queue for which the watch pays
	manyEach    = 3   // the fewest contenders for each session
	fewSessions = 16  // bounds how many sessions one release wakes
	fewPlaces   = 512 // bounds what a view costs
)

// Crowded reports whether a queue of so many places and sessions is crowded.
func Crowded(places, sessions int) bool {
	return places >= max(manyPlaces, manyEach*sessions) && places <= fewPlaces &&
		sessions <= fewSessions
}

// QueueView is a whole queue as the service has shown it. It is shared: nobody
// changes it.
type QueueView struct {
	Places   []driver.Place // in order
	Sessions int            // how many different sessions they have
	// Record is the newest version of the queue's record that its watch has
	// shown. It may be older or newer than Places.
	Record driver.Version
	// Told is when the service showed it.
	Told time.Time

	at map[string]int // by key
}

// At is the index of a place, or -1.
func (v QueueView) At(p driver.Place) int {
	if i, ok := v.at[p.Key]; ok {
		return i
	}
	return -1
}

// Crowded reports whether the queue is crowded.
func (v QueueView) Crowded() bool { return Crowded(len(v.Places), v.Sessions) }

// WatchesQueues reports whether the service can watch a whole queue.
func (s *Session) WatchesQueues() bool { return s.can.QueueWatcher != nil }

// WatchQueue shows a contender its queue, again and again, until judge returns
// true; then it returns nil. All contenders of a session share two watches: of
// the queue and of its record, of which the caller knows the version known.
//
// Each view has own in it. When own is not in the queue any more, WatchQueue
// returns nil: Ahead then says why. For the rest it is like Await.
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
			stands := view.At(own) >= 0
			switch {
			case err != nil:
				return err
			case stands && judge(view), !stands && seen:
				return nil
			}
			if seen = seen || stands; seen {
				shown = nil // that others come is nothing to it
			}
			select {
			case <-shown:
			case <-changed:
			case <-late.C:
				if !seen { // it was removed before the watch has shown it, or the service is slow
					return nil
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// QueueWatched reports whether a contender of this session watches the whole
// queue, and it is crowded.
func (s *Session) QueueWatched(queue driver.Queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.queueWatches[queue]
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view.at == nil || w.view.Crowded() // there may be no view yet
}

// queueWatch watches one queue for all contenders of a session that want it. It
// begins with the first of them, and ends SettleAfter after the last: in a
// contended queue the next one comes soon.
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
	// closed and replaced when somebody has left or the record has changed;
	// closed when err is set
	changed chan struct{}
	err     error
}

// queueWatch adds a user to the watch of a queue. It returns nil when the
// session is over.
func (s *Session) queueWatch(queue driver.Queue, known driver.Version) *queueWatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == event.StateLost { // then wg may be waited for
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

// end ends the watch because of an error, which its users get, or of having
// none.
func (w *queueWatch) end(err error) {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && w.users > 0:
		return // somebody has joined when the idle timer had fired
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
		Told: time.Now(), at: at}
	close(w.shown)
	w.shown = make(chan struct{})
	left := false
	for _, p := range before.Places {
		left = left || w.view.At(p) < 0
	}
	if left {
		w.tell()
	}
	return true // it ends by its context
}

// tell wakes the users. The caller holds w.mu.
func (w *queueWatch) tell() {
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
		w.tell()
		w.mu.Unlock()
	}
}
