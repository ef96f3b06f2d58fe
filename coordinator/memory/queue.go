package memory

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// queue is the queue of one name. It exists while it has entries.
type queue struct {
	name    driver.Queue
	entries []*entry // tokens rise
	past    past
	passed  string // the key of the last entry that left by Pass
}

// entry is one contender's entry. A foreign entry has no session.
type entry struct {
	driver.Entry
	queue   *queue
	session *session
	made    driver.Token   // Token, or the revision of its conversion
	version driver.Version // of its value
	written uint64         // the client's number of the latest Write
}

// contenderID identifies a contender, whose key changes with conversions.
type contenderID struct {
	queue driver.Queue
	id    string
}

// insert makes an entry at the current revision. Its key has the revision, so
// no other entry ever has it.
func (s *Service) insert(q *queue, owner *session, x driver.Entry) *entry {
	x.Key = fmt.Sprintf("e%d", s.revision)
	e := &entry{
		Entry: x, queue: q, session: owner,
		made: s.revision, version: driver.Version(s.revision),
	}
	s.entries[e.Key] = e
	if owner != nil {
		s.contenders[contenderID{q.name, e.ID}] = e
		owner.entries[e] = struct{}{}
	}
	return e
}

// erase is the inverse of insert.
func (s *Service) erase(e *entry) {
	delete(s.entries, e.Key)
	if e.session != nil {
		delete(s.contenders, contenderID{e.queue.name, e.ID})
		delete(e.session.entries, e)
	}
}

// add adds an entry at the end of a queue.
func (s *Service) add(name driver.Queue, owner *session, x driver.Entry) *entry {
	q := s.queues[name]
	if q == nil {
		q = &queue{name: name}
		s.queues[name] = q
	}
	s.revision++
	x.Token = s.revision
	e := s.insert(q, owner, x)
	q.entries = append(q.entries, e)
	by := ByClient
	if owner == nil {
		by = ByOperator
	}
	s.step(Step{Kind: StepJoined, By: by, Queue: name, Entry: e.Entry})
	s.notify(string(name))
	return e
}

// leave removes one entry. passed says that Pass does it.
func (s *Service) leave(e *entry, by Hand, passed bool) {
	s.revision++
	s.remove(e, by, passed)
	s.notify(string(e.queue.name))
}

// remove removes an entry and notifies its watchers. The caller raises the
// revision before, once for all entries that leave in one step, and notifies
// the watchers of the queue after the last of them.
func (s *Service) remove(e *entry, by Hand, passed bool) {
	q, i := e.queue, e.queue.ahead(e)
	q.entries = slices.Delete(q.entries, i, i+1)
	s.erase(e)
	if passed {
		q.passed = e.Key
	}
	if len(q.entries) == 0 {
		delete(s.queues, q.name)
	} else if s.stale != nil {
		q.past.record(e, s.revision, q.entries[0].Token)
	}
	s.step(Step{Kind: StepLeft, By: by, Queue: q.name, Entry: e.Entry, Passed: passed})
	s.notify(e.Key)
}

// convert replaces e by an entry with another key, mode and value.
func (s *Service) convert(e *entry, mode string, value []byte) *entry {
	s.revision++
	s.erase(e)
	x := e.Entry
	x.Mode, x.Value = mode, value
	q, i := e.queue, e.queue.ahead(e)
	to := s.insert(q, e.session, x)
	q.entries[i] = to
	if s.stale != nil {
		q.past.record(e, s.revision, q.entries[0].Token)
	}
	s.step(Step{Kind: StepConverted, By: ByClient, Queue: q.name, Entry: to.Entry})
	s.notify(e.Key)
	s.notify(string(q.name))
	return to
}

// ahead returns the number of entries ahead of e.
func (q *queue) ahead(e *entry) int {
	i, _ := slices.BinarySearchFunc(q.entries, e.Token, func(x *entry, t driver.Token) int {
		return cmp.Compare(x.Token, t)
	})
	return i
}

// find returns the entry with a key if it is in the queue.
func (s *Service) find(name driver.Queue, key string) *entry {
	if e := s.entries[key]; e != nil && e.queue.name == name {
		return e
	}
	return nil
}

// places returns the places of a queue, in order.
func (s *Service) places(name driver.Queue) []driver.Place {
	if q := s.queues[name]; q != nil {
		return q.first(len(q.entries))
	}
	return nil
}

// first returns the places of the first n entries.
func (q *queue) first(n int) []driver.Place {
	places := make([]driver.Place, n)
	for i := range places {
		places[i] = q.entries[i].Place
	}
	return places
}

// list copies the first entries of a queue with their values, all if limit is
// 0.
func (s *Service) list(name driver.Queue, limit int) []driver.Entry {
	q := s.queues[name]
	if q == nil {
		return nil
	}
	n := len(q.entries)
	if limit > 0 {
		n = min(n, limit)
	}
	entries := make([]driver.Entry, n)
	for i := range entries {
		entries[i] = q.entries[i].Entry
		entries[i].Value = bytes.Clone(entries[i].Value)
	}
	return entries
}
