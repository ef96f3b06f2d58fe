package memory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// queue is the ordered entries of one name. It exists while it has any.
type queue struct {
	name    driver.Queue
	entries []*entry // tokens rise
	// places are those of entries, side by side: a view of 10,000 is one copy
	// then, and not a walk through 10,000 entries.
	places []driver.Place
	byKey  map[string]*entry
	byID   map[string]*entry
	past   past
	passed string // the key of the last one that left by Pass
}

// entry is one contender's entry. A foreign one has no seat.
type entry struct {
	driver.Entry
	queue   *queue
	seat    *seat
	made    driver.Token   // the revision that made it: Token, or that of its conversion
	version driver.Version // of its value
	written uint64         // the client's number of the latest Write
	watches []*watch       // numbers rise
	passing bool           // it leaves by Pass
}

// watch is one registered wait. That of a Watch fires once, for the first of its entries that
// goes. That of a Head or Record has no entries, and fires when ready says so after a
// change of the queue.
type watch struct {
	number  uint64
	call    *call
	seat    *seat
	entries []*entry
	queue   driver.Queue
	ready   func() bool
}

// add puts an entry at the end of the queue. The key is made of the token, so it
// is never used for another entry: neither in this queue nor in a later one of
// the same name.
func (s *Service) add(name driver.Queue, st *seat, x driver.Entry) *entry {
	l := s.queues[name]
	if l == nil {
		l = &queue{name: name, byKey: map[string]*entry{}, byID: map[string]*entry{}}
		s.queues[name] = l
	}
	s.revision++
	s.entries++
	x.Token = s.revision
	x.Key = fmt.Sprintf("e%d", s.revision)
	e := &entry{Entry: x, queue: l, seat: st, made: s.revision, version: driver.Version(s.revision)}
	l.entries = append(l.entries, e)
	l.places = append(l.places, e.Place)
	l.byKey[e.Key] = e
	if e.ID != "" {
		l.byID[e.ID] = e
	}
	by := ByOperator
	if st != nil {
		st.entries[e] = struct{}{}
		by = ByClient
	}
	s.step(StepJoined, by, name, e.Entry)
	return e
}

// remove takes an entry out and fires its watches. The caller has raised the
// revision, once for all that goes in one step.
func (s *Service) remove(e *entry, by Hand) {
	l := e.queue
	i := l.ahead(e)
	l.entries = slices.Delete(l.entries, i, i+1)
	l.places = slices.Delete(l.places, i, i+1)
	delete(l.byKey, e.Key)
	delete(l.byID, e.ID)
	if e.seat != nil {
		delete(e.seat.entries, e)
	}
	s.entries--
	if e.passing {
		l.passed = e.Key
	}
	if len(l.entries) == 0 {
		delete(s.queues, l.name)
	} else if s.stale != nil {
		l.past.record(e, s.revision, l.entries[0].Token)
	}
	s.tell(Step{Kind: StepLeft, By: by, Queue: l.name, Entry: e.Entry, Passed: e.passing})
	s.fire(e)
}

// convert puts an entry in the place of e: the same in all but key, mode and value.
func (s *Service) convert(e *entry, mode string, value []byte) *entry {
	s.revision++
	l, i := e.queue, e.queue.ahead(e)
	x := e.Entry
	x.Key, x.Mode, x.Value = fmt.Sprintf("e%d", s.revision), mode, value
	to := &entry{Entry: x, queue: l, seat: e.seat, made: s.revision, version: driver.Version(s.revision)}
	l.entries[i], l.places[i] = to, to.Place
	delete(l.byKey, e.Key)
	l.byKey[to.Key], l.byID[to.ID] = to, to
	delete(e.seat.entries, e)
	e.seat.entries[to] = struct{}{}
	if s.stale != nil {
		l.past.record(e, s.revision, l.entries[0].Token)
	}
	s.step(StepConverted, ByClient, l.name, to.Entry)
	s.fire(e)
	return to
}

// fire wakes those who watch an entry that has gone.
func (s *Service) fire(e *entry) {
	// Taken off first: unregister searches the entry's watches, which must not change
	// under this loop.
	fired := e.watches
	e.watches = nil
	for _, w := range fired {
		s.unregister(w)
		w.call.passed = e.passing && s.says()
		s.wake(w)
	}
}

// says reports whether the service says what it need not say.
func (s *Service) says() bool { return s.mute == nil || s.mute.IntN(2) == 0 }

// ahead is the number of entries in front of e.
func (l *queue) ahead(e *entry) int {
	i, _ := slices.BinarySearchFunc(l.entries, e.Token, func(x *entry, t driver.Token) int {
		return cmp.Compare(x.Token, t)
	})
	return i
}

// find returns the entry of a place if it stands in the queue.
func (s *Service) find(name driver.Queue, p driver.Place) *entry {
	l := s.queues[name]
	if l == nil {
		return nil
	}
	return l.byKey[p.Key]
}

// register makes a watch of entries that all stand in their queue.
func (s *Service) register(st *seat, c *call, entries []*entry) *watch {
	s.watched++
	s.watches++
	w := &watch{number: s.watched, call: c, seat: st, entries: entries}
	for _, e := range entries {
		e.watches = append(e.watches, w)
	}
	s.track(w)
	return w
}

// await makes a watch that fires when ready, which looks at the queue or its record, says so.
func (s *Service) await(st *seat, c *call, name driver.Queue, ready func() bool) {
	s.watched++
	s.watches++
	w := &watch{number: s.watched, call: c, seat: st, queue: name, ready: ready}
	if s.waits[name] == nil {
		s.waits[name] = map[*watch]struct{}{}
	}
	s.waits[name][w] = struct{}{}
	s.track(w)
}

func (s *Service) track(w *watch) {
	w.seat.watches[w] = struct{}{}
	w.call.driver.watches[w] = struct{}{}
	w.call.watch = w
}

// changed wakes those who wait for a head or record and have what they wait
// for. It is called after each change to a queue or its record, when all of the
// change is done.
func (s *Service) changed(name driver.Queue) {
	for _, w := range inOrder(s.waits[name]) {
		if w.ready() {
			s.unregister(w)
			s.wake(w)
		}
	}
}

// unregister takes a watch away from all its entries. Watches of one entry are
// ordered by number, so 10,000 of them on one entry can go one by one.
func (s *Service) unregister(w *watch) {
	for _, e := range w.entries {
		i, found := slices.BinarySearchFunc(e.watches, w.number, func(x *watch, n uint64) int {
			return cmp.Compare(x.number, n)
		})
		if found {
			e.watches = slices.Delete(e.watches, i, i+1)
		}
	}
	if delete(s.waits[w.queue], w); w.ready != nil && len(s.waits[w.queue]) == 0 {
		delete(s.waits, w.queue)
	}
	delete(w.seat.watches, w)
	delete(w.call.driver.watches, w)
	w.call.watch = nil
	s.watches--
}

// wake sends the notification of a watch that fired. What it tells is remembered as it
// was sent: the session's later views must not be older (V1).
func (s *Service) wake(w *watch) {
	s.counts.wakeups++
	w.call.driver.counts.wakeups++
	w.call.told = s.revision
	w.call.reply(nil)
}
