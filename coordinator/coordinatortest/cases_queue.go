package coordinatortest

import (
	"errors"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// queueCases need a QueueWatcher.
var queueCases = []testCase{
	{name: "Q1/a queue is shown with what the session has finished", body: queueFresh},
	{name: "Q1/each change is shown", body: queueChanges},
	{name: "Q1/a conversion is shown", needs: []Lever{Converter}, body: queueConversion},
}

// queueWatcher is a WatchQueue under way.
type queueWatcher struct {
	*outcome
	mu     sync.Mutex
	latest []driver.Place // what was shown last
	late   bool           // show was called after it had returned false
}

// watchQueue starts to watch a queue, until a view has as many places as until.
// While the service is unavailable it begins again.
func (e *env) watchQueue(s session, queue driver.Queue, until int) *queueWatcher {
	w := &queueWatcher{}
	w.outcome = e.start(func() error {
		for {
			over := false
			err := s.WatchQueue(e.ctx, queue, func(places []driver.Place) bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.late = w.late || over
				w.latest = places
				over = len(places) == until
				return !over
			})
			if !errors.Is(err, driver.ErrUnavailable) || !sleep(e.ctx, e.Settle/20) {
				return err
			}
		}
	})
	return w
}

// shows reports whether exactly these places were shown last.
func (w *queueWatcher) shows(places ...driver.Place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Equal(w.latest, places)
}

// showsQueue waits until the watcher was shown exactly these places.
func (e *env) showsQueue(w *queueWatcher, after string, want ...driver.Joined) {
	places := make([]driver.Place, len(want))
	for i, j := range want {
		places[i] = j.Place
	}
	e.eventually("WatchQueue shows "+sprint(ids(places))+" after "+after, func() bool { return w.shows(places...) })
}

// queueFresh: the first view has what the session did before, and lacks what it removed.
func queueFresh(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	for range 5 {
		first, own, gone := e.join(a, queue), e.join(b, queue), e.join(b, queue)
		e.leave(b, queue, gone.Place)
		var view []driver.Place
		err := b.WatchQueue(e.soon(), queue, func(places []driver.Place) bool { view = places; return false })
		e.ok(err, "WatchQueue whose first view ends it")
		e.same(ids(view), []string{first.Place.ID, own.Place.ID}, "the first view:")
		e.leave(a, queue, first.Place)
		e.leave(b, queue, own.Place)
	}
}

// queueChanges: of joins and leavings, of its own session and of another one, and when a session ends.
func queueChanges(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	w := e.watchQueue(b, queue, 4)
	first := e.join(a, queue)
	e.showsQueue(w, "a join", first)
	second := e.join(b, queue)
	e.showsQueue(w, "a join of its own session", first, second)
	third := e.join(a, queue)
	e.leave(a, queue, first.Place)
	e.showsQueue(w, "a join and a leaving", second, third)
	e.ok(a.Close(e.soon()), "Close")
	e.showsQueue(w, "the end of a session", second)
	e.leave(b, queue, second.Place)
	e.eventually("WatchQueue shows nobody after all have left", func() bool { return w.shows() })
	for range 4 {
		e.join(b, queue)
	}
	if err := e.ends(w.outcome, e.Patience, "WatchQueue whose show returns false"); err != nil {
		e.fail("nil", "WatchQueue whose show returns false: %v", err)
	}
	e.leave(b, queue, e.join(b, queue).Place)
	e.settle()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late {
		e.fail("show is not called again", "WatchQueue calls show after it has returned false")
	}
}

// queueConversion: the entry that was converted stands where it stood.
func queueConversion(e *env) {
	q := e.trio()
	w := e.watchQueue(q.behind, q.queue, 0)
	e.showsQueue(w, "three joins", q.first, q.own, q.last)
	q.own = e.convert(q.s, q.queue, q.own, "r", "")
	e.showsQueue(w, "a conversion", q.first, q.own, q.last)
}
