package memory

import (
	"cmp"
	"maps"
	"slices"
)

// watch is a call that waits at the service until something has happened. Its
// topics say what may make a difference: the key of an entry, for its removal,
// or the name of a queue, for any change of the queue or its record.
type watch struct {
	number  uint64
	call    *call
	session *session
	topics  []string
	// ready reports whether the call can be answered, and prepares the answer.
	// It is called after a change of one of the topics.
	ready func() bool
}

// register makes a call wait, unless its caller has gone: nobody would ever
// withdraw the watch then.
func (s *Service) register(session *session, c *call, ready func() bool, topics ...string) {
	if c.over {
		return
	}
	s.watched++
	w := &watch{number: s.watched, call: c, session: session, topics: topics, ready: ready}
	for _, topic := range topics {
		if s.waits[topic] == nil {
			s.waits[topic] = map[*watch]struct{}{}
		}
		s.waits[topic][w] = struct{}{}
	}
	session.watches[w] = struct{}{}
	c.watch = w
}

func (s *Service) unregister(w *watch) {
	for _, topic := range w.topics {
		delete(s.waits[topic], w)
		if len(s.waits[topic]) == 0 {
			delete(s.waits, topic)
		}
	}
	delete(w.session.watches, w)
	w.call.watch = nil
}

// notify answers those who wait for a topic and whose answer is ready.
func (s *Service) notify(topic string) {
	for _, w := range inOrder(s.waits[topic]) {
		if !w.ready() {
			continue
		}
		s.unregister(w)
		s.counts.wakeups++
		w.session.driver.counts.wakeups++
		w.call.reply(nil)
	}
}

// inOrder sorts watches by age: the order of wake-ups is the same in every run.
func inOrder(set map[*watch]struct{}) []*watch {
	return slices.SortedFunc(maps.Keys(set), func(a, b *watch) int {
		return cmp.Compare(a.number, b.number)
	})
}
