package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// call is one request from its sending to its reply. The service's mutex guards
// its fields; err may also be read once done is closed.
type call struct {
	driver *Driver
	op     Op
	fate   Fate
	apply  func(*call) // the step at the service; it calls reply, or registers a watch that does
	watch  *watch      // registered at the service
	over   bool        // the caller has its answer or has given up
	done   chan struct{}
	err    error
}

// do sends a request. The caller may read what apply writes only if do returns
// nil: a request can be applied after its caller has given up (G2).
func (d *Driver) do(ctx context.Context, req Request, apply func(*call)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	req.Driver, req.Context = d, ctx
	c := &call{driver: d, op: req.Op, apply: apply}
	if decide := d.svc.decide.Load(); decide != nil {
		c.fate = (*decide)(req)
	}
	if c.send() {
		return c.err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return c.cancelled(ctx.Err())
	}
}

// send sends the request and reports whether the call is over already, as it is
// without delays and faults.
func (c *call) send() bool {
	d := c.driver
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	if d.closed {
		c.finish(driver.Wrap(driver.ErrUnavailable, errClosed))
		return true
	}
	d.calls[c] = struct{}{}
	// From here on the request may outlive its caller.
	d.requests.carry(d.svc, c.fate.DelayRequest, c.arrive)
	if c.over {
		return true
	}
	c.done = make(chan struct{})
	return false
}

// arrive runs when the request arrives at the service.
func (c *call) arrive() {
	s := c.driver.svc
	switch {
	case c.fate.DropRequest: // no reply: the client detects the broken connection
		c.finish(driver.Wrap(driver.ErrUnavailable, errReset))
		return
	case s.stopped:
		c.reply(driver.Wrap(driver.ErrUnavailable, errStopped))
		return
	}
	s.counts.requests[c.op]++
	c.driver.counts.requests[c.op]++
	if c.fate.Err != nil {
		c.reply(classify(c.fate.Err))
		return
	}
	c.apply(c)
}

// reply sends the result to the client. To the caller, a dropped reply is a
// broken connection, at the time at which the reply would have arrived.
func (c *call) reply(err error) {
	if c.fate.DropReply {
		err = driver.Wrap(driver.ErrUnavailable, errReset)
	}
	d := c.driver
	d.replies.carry(d.svc, c.fate.DelayReply, func() { c.finish(err) })
}

// finish ends the call with a result, unless its caller has given up.
func (c *call) finish(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	delete(c.driver.calls, c)
	if c.done != nil { // else send has not returned yet, and reads over itself
		close(c.done)
	}
}

// cancelled ends the call when the caller's context has ended. An answer that
// arrived at the same moment wins. The cancellation of a watch is a message
// like any other. If it overtakes the request that registers the watch, that
// request registers nothing.
func (c *call) cancelled(cause error) error {
	d := c.driver
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	if c.over {
		return c.err
	}
	c.over, c.err = true, cause
	delete(d.calls, c)
	d.requests.carry(d.svc, 0, func() {
		if c.watch != nil {
			d.svc.unregister(c.watch)
		}
	})
	return cause
}

// watch is a call that waits at the service for changes of its topics. A topic
// is the key of an entry, for its removal, or the name of a queue, for any
// change of the queue or its record.
type watch struct {
	number  uint64
	call    *call
	session *session
	topics  []string
	// ready reports whether the call can be answered, and prepares the answer.
	// It is called after a change of one of the topics.
	ready func() bool
}

// register makes a call wait, unless its caller has given up: that caller would
// never cancel the watch.
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

// notify answers the calls that wait for a topic and have an answer now.
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

// inOrder sorts watches by age, so that wake-ups are deterministic.
func inOrder(set map[*watch]struct{}) []*watch {
	return slices.SortedFunc(maps.Keys(set), func(a, b *watch) int {
		return cmp.Compare(a.number, b.number)
	})
}
