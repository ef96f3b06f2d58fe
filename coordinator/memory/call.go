package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/baton-go/baton/coordinator/driver"
)

// call is one request on its way, at the service, and back. Its fields are
// guarded by the service's mutex; err may also be read once done is closed.
type call struct {
	driver *Driver
	op     Op
	fate   Fate
	apply  func(*call) // the step at the service; it calls reply, or lets a watch do so
	watch  *watch      // registered at the service
	over   bool        // the caller has its answer or has gone
	done   chan struct{}
	err    error
}

// do sends a request. What apply writes may be read when do returned nil and
// not otherwise: a request can be applied after its caller has gone (G2).
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
		return c.abandon(ctx.Err())
	}
}

// send starts the request on its way and reports whether the answer is there
// already, which it is when nothing holds it up.
func (c *call) send() bool {
	d := c.driver
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	if d.closed {
		c.finish(driver.Wrap(driver.ErrUnavailable, errClosed))
		return true
	}
	d.calls[c] = struct{}{}
	// From here on the request may outlive its caller: delayed, held or
	// stranded.
	d.requests.carry(d.svc, c.fate.DelayRequest, c.arrive)
	if c.over {
		return true
	}
	c.done = make(chan struct{})
	return false
}

// arrive is the moment at which the service has the request.
func (c *call) arrive() {
	s := c.driver.svc
	switch {
	case c.fate.DropRequest: // no reply: the client's own side sees the break
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

// reply sends the outcome back. A dropped reply is a broken connection to the
// caller: it gets an error at the time at which the reply would have come.
func (c *call) reply(err error) {
	if c.fate.DropReply {
		err = driver.Wrap(driver.ErrUnavailable, errReset)
	}
	d := c.driver
	d.replies.carry(d.svc, c.fate.DelayReply, func() { c.finish(err) })
}

// finish hands the outcome to the caller, unless it has gone.
func (c *call) finish(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	delete(c.driver.calls, c)
	if c.done != nil { // else send has not returned yet, and looks at over itself
		close(c.done)
	}
}

// abandon is called when the context of the caller ended. An answer that came
// at the same moment wins. The withdrawal of a watch is a message like any
// other. If it overtakes the request that registers the watch, that registers
// nothing.
func (c *call) abandon(cause error) error {
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
