package memory

import (
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// direction is one way of a link: a packet first takes its time and then
// passes, unless the direction is held: then it waits in a queue. Nothing is
// lost, as on TCP, until the connection is reset.
type direction struct {
	delay time.Duration
	held  bool
	queue []func()
	reset int // how often the connection was reset
}

// carry lets deliver happen at the far end. The caller holds the service's
// mutex, and so does deliver. Without a delay it happens before carry returns.
func (x *direction) carry(s *Service, extra time.Duration, deliver func()) {
	wait := x.delay + extra
	if wait <= 0 {
		x.pass(deliver)
		return
	}
	sent := x.reset
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if sent == x.reset {
			x.pass(deliver)
		}
	})
}

func (x *direction) pass(deliver func()) {
	if x.held {
		x.queue = append(x.queue, deliver)
		return
	}
	deliver()
}

// release passes on what was held, in order.
func (x *direction) release() {
	x.held = false
	queue := x.queue
	x.queue = nil
	for _, deliver := range queue {
		deliver()
	}
}

// drop loses all that is under way.
func (x *direction) drop() {
	x.queue = nil
	x.reset++
}

// Cut holds both directions of this client's link until Heal. What is sent
// meanwhile is kept and passes late, in order, even when its caller has given
// up: as TCP retransmits. Reset loses it instead.
func (d *Driver) Cut() { d.hold(true, true) }

// HoldRequests holds what this client sends, until Heal. Replies and
// notifications still arrive.
func (d *Driver) HoldRequests() { d.hold(true, false) }

// HoldReplies holds what the service sends to this client, until Heal: its
// requests are applied, and it is not told.
func (d *Driver) HoldReplies() { d.hold(false, true) }

func (d *Driver) hold(requests, replies bool) {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.requests.held = d.requests.held || requests
	d.replies.held = d.replies.held || replies
}

// Heal ends Cut, HoldRequests and HoldReplies. What was held passes at once, in
// order.
func (d *Driver) Heal() {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.requests.release()
	d.replies.release()
}

// Delay makes every request, and every reply and notification, of this client
// take that long from now on. What is under way keeps its time.
func (d *Driver) Delay(request, reply time.Duration) {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.requests.delay, d.replies.delay = request, reply
}

// Reset breaks the connection. All that is under way is lost, every waiting
// call ends with driver.ErrUnavailable, and the client's watches at the service
// go. The client has a new connection at once, to which Cut and Delay still
// apply.
func (d *Driver) Reset() {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.requests.drop()
	d.disconnect(errReset)
	d.reconnect()
}

// Strand is Reset, but the requests that have not arrived stay under way: those
// held arrive at Deliver, those delayed at their time. The new connection is
// healed. So a request is overtaken by a later one of the same client.
func (d *Driver) Strand() {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.stranded = append(d.stranded, d.requests.queue...)
	d.requests.queue = nil
	d.requests.held, d.replies.held = false, false
	d.disconnect(errReset)
	d.reconnect()
}

// Deliver lets the requests that Strand left behind arrive, whose replies are
// lost.
func (d *Driver) Deliver() {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	stranded := d.stranded
	d.stranded = nil
	for _, deliver := range stranded {
		deliver()
	}
}

// Expire ends all sessions of this client at the service, as [Service.Expire]
// does one, and reports whether there was any. The client may open another one
// at once.
func (d *Driver) Expire() bool {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	sessions := d.sessionsInOrder()
	for _, session := range sessions {
		session.end(ByOperator)
	}
	return len(sessions) > 0
}

// sessionsInOrder returns this client's live sessions, oldest first.
func (d *Driver) sessionsInOrder() []*session {
	return slices.DeleteFunc(d.svc.sessionsInOrder(), func(s *session) bool { return s.driver != d })
}

// disconnect ends all calls, and the watches that this connection carried.
func (d *Driver) disconnect(cause error) {
	d.replies.drop()
	for _, session := range d.sessionsInOrder() {
		for _, w := range inOrder(session.watches) {
			d.svc.unregister(w)
		}
	}
	for c := range d.calls {
		c.finish(driver.Wrap(driver.ErrUnavailable, cause))
	}
}

// reconnect repeats what the old connection may have lost: a client that
// connects again learns at once which of its sessions are over.
func (d *Driver) reconnect() {
	for s := range d.untold {
		if s.over {
			s.tell()
		}
	}
}
