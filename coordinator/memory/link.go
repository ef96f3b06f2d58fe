package memory

import (
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// direction is one direction of a link. It delays a packet, and then delivers
// it or, while held, queues it. As on TCP, only a reset loses packets.
type direction struct {
	delay time.Duration
	held  bool
	queue []func()
	reset int // how often the connection was reset
}

// carry calls deliver at the far end: without a delay, before it returns. It is
// called, and calls deliver, with the service's mutex held.
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

// release delivers held packets in order.
func (x *direction) release() {
	x.held = false
	queue := x.queue
	x.queue = nil
	for _, deliver := range queue {
		deliver()
	}
}

// drop loses all packets under way.
func (x *direction) drop() {
	x.queue = nil
	x.reset++
}

// Cut holds both directions of this client's link until Heal. Messages sent
// meanwhile arrive late and in order, even if their callers have given up, as
// TCP retransmits. Reset loses them instead.
func (d *Driver) Cut() { d.hold(true, true) }

// HoldRequests holds this client's requests until Heal. Replies and
// notifications still arrive.
func (d *Driver) HoldRequests() { d.hold(true, false) }

// HoldReplies holds replies and notifications to this client until Heal. Its
// requests are applied.
func (d *Driver) HoldReplies() { d.hold(false, true) }

func (d *Driver) hold(requests, replies bool) {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.requests.held = d.requests.held || requests
	d.replies.held = d.replies.held || replies
}

// Heal ends Cut, HoldRequests and HoldReplies. Held messages arrive at once, in
// order.
func (d *Driver) Heal() {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.requests.release()
	d.replies.release()
}

// Delay sets how long requests, and replies and notifications, of this client
// take. It does not affect messages under way.
func (d *Driver) Delay(request, reply time.Duration) {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.requests.delay, d.replies.delay = request, reply
}

// Reset breaks the connection. Messages under way are lost, waiting calls end
// with driver.ErrUnavailable, and the service drops the client's watches. The
// client reconnects at once. Cut and Delay still apply.
func (d *Driver) Reset() {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.requests.drop()
	d.disconnect(errReset)
	d.reconnect()
}

// Strand is Reset and Heal, but requests under way are not lost: held ones
// arrive at Deliver, delayed ones at their time. So later requests of the same
// client can overtake them.
func (d *Driver) Strand() {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.stranded = append(d.stranded, d.requests.queue...)
	d.requests.queue = nil
	d.requests.held, d.replies.held = false, false
	d.disconnect(errReset)
	d.reconnect()
}

// Deliver lets the stranded requests arrive. Their replies are lost.
func (d *Driver) Deliver() {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	stranded := d.stranded
	d.stranded = nil
	for _, deliver := range stranded {
		deliver()
	}
}

// Expire ends all sessions of this client at the service, and reports whether
// there was any. The client may open another one at once.
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

// disconnect ends all calls and watches of the connection.
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

// reconnect repeats notifications that the old connection may have lost: a
// client that reconnects learns at once which of its sessions are over.
func (d *Driver) reconnect() {
	for s := range d.unnotified {
		if s.over {
			s.notifyEnd()
		}
	}
}
