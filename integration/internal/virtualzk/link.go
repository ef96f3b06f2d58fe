package virtualzk

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"
)

// Link is the network between one client process and the ensemble: all its
// connections. Like TCP it keeps the order of what one connection carries.
type Link struct {
	*Ensemble
	name     string
	dialled  map[dialled]int // for generators
	attempts int             // to connect
	index    int
	offset   time.Duration // in nanoseconds, so that no two send at once
	spread   time.Duration
	up, down direction
	only     int     // the one member that can be reached, or nobody: all
	wires    []*wire // that are not broken, in the order of dialling
	sessions []int64 // that began or went on here
	stranded []func()
	notices  int
}

// dialled is an attempt to connect.
type dialled struct {
	member int
	at     time.Duration
}

// direction is one direction of a link. It delays messages, and then delivers
// them or, while it is held, keeps them.
type direction struct {
	delay    time.Duration
	held     bool
	draining bool // it delivers what was held, one by one
	queue    []parcel
}

type parcel struct {
	of      *wire
	deliver func()
}

// wire is one connection: the client's end, and its member's.
type wire struct {
	*Link
	member     int
	client     *socket
	server     *conn // nil until the member has accepted
	ups, downs stream
	reset      bool // nothing arrives any more
	isStranded bool // what the client has sent waits for Deliver
	fates      map[int32]Fate
	batch      []write
	flushing   bool
}

// stream is one direction of a wire, with a generator of its own: messages of
// one instant on several wires draw the same numbers in any order.
type stream struct{ lane }

// Link makes the network of a client process. Each message takes a random time
// up to a microsecond, if the ensemble has a generator.
func (e *Ensemble) Link(name string) *Link {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := &Link{Ensemble: e, name: name, spread: time.Microsecond, only: nobody, index: len(e.links), dialled: map[dialled]int{}, offset: time.Duration(len(e.links))}
	e.links = append(e.links, l)
	return l
}

// Name returns the name that the link was made with.
func (l *Link) Name() string { return l.name }

// Dial connects to the member with an address, for zookeeper.Dialer.
func (l *Link) Dial(ctx context.Context, addr string) (net.Conn, error) {
	var moves, member int
	_, err := fmt.Sscanf(addr, "10.0.%d.%d:2181", &moves, &member)
	if err != nil || member < 1 || member > len(l.members) {
		return nil, fmt.Errorf("virtualzk: %q is no member", addr)
	}
	if !l.leads(moves, l.members[member-1]) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.Cause(ctx)}
	}
	w := &wire{Link: l, member: member - 1, fates: map[int32]Fate{}}
	w.client = newSocket(w, addr)
	accepted := make(chan error, 1)
	l.locked(func() {
		// Two sessions of a client may dial two members at one instant.
		now := dialled{w.member, time.Since(l.began)}
		l.dialled[now]++
		w.ups.rand = l.rng("up", l.name, l.index, now, l.dialled[now])
		w.downs.rand = l.rng("down", l.name, l.index, now, l.dialled[now])
		l.wires = append(l.wires, w)
		l.carry(&l.up, &w.ups, w, 0, func() { w.accept(accepted) })
	})
	select {
	case err = <-accepted:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = w.client.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: w.client.RemoteAddr(), Err: err}
	}
	return w.client, nil
}

// leads notes an attempt to connect, and reports whether the address is one of
// a machine.
func (l *Link) leads(moves int, m *member) (leads bool) {
	l.locked(func() {
		l.attempts++
		if leads = moves == m.moves; !leads && moves < m.moves && l.conf.Stale != nil {
			l.conf.Stale(l, time.Since(m.moved))
		}
	})
	return leads
}

// Dials counts the attempts to connect.
func (l *Link) Dials() (n int) {
	l.locked(func() { n = l.attempts })
	return n
}

// accept is what the member's machine does with a new connection.
func (w *wire) accept(accepted chan<- error) {
	m := w.members[w.member]
	var err error
	if m.up {
		m.accepted++
		w.server = &conn{
			member: m, number: m.accepted, wire: w, watching: map[spot]struct{}{},
		}
		m.conns = append(m.conns, w.server)
	} else {
		err = syscall.ECONNREFUSED
	}
	w.carry(&w.down, &w.downs, w, 0, func() { accepted <- err })
}

// apart is the least time between two messages of a wire.
const apart = 2 * window

// carry delivers something at the other end of a wire, in the lane's order.
func (l *Link) carry(d *direction, order *stream, w *wire, extra time.Duration, deliver func()) {
	at := time.Now().Add(d.delay + extra)
	if order.rand != nil {
		at = at.Add(1 + time.Duration(order.rand.Int64N(int64(l.spread))))
	}
	if !at.After(order.last) {
		at = order.last.Add(apart)
	}
	wait := time.Until(at)
	if wait <= 0 {
		l.arrive(d, w, deliver)
		return
	}
	order.last = at
	time.AfterFunc(wait, func() { l.locked(func() { l.arrive(d, w, deliver) }) })
}

func (l *Link) arrive(d *direction, w *wire, deliver func()) {
	switch {
	case w.reset:
	case w.isStranded && d == &l.up:
		l.stranded = append(l.stranded, deliver)
	case d.held || d.draining || !l.reaches(w):
		d.queue = append(d.queue, parcel{w, deliver})
	default:
		deliver()
	}
}

// release ends a hold. What was held arrives in order, each at an instant of
// its own.
func (l *Link) release(d *direction) {
	d.held = false
	if !d.draining {
		l.drain(d)
	}
}

func (l *Link) drain(d *direction) {
	for d.draining = true; !d.held; {
		i := slices.IndexFunc(d.queue, func(p parcel) bool { return l.reaches(p.of) })
		if i < 0 {
			break
		}
		p := d.queue[i]
		d.queue = slices.Delete(d.queue, i, i+1)
		if p.of.reset {
			continue
		}
		p.deliver()
		if r := p.of.ups.rand; r != nil {
			after := 1 + time.Duration(r.Int64N(int64(l.spread)))
			time.AfterFunc(after, func() { l.locked(func() { l.drain(d) }) })
			return
		}
	}
	d.draining = false
}

// Cut holds both directions until Heal. What is sent meanwhile arrives late and
// in order, also if its sender has given up. A new connection waits, too.
func (l *Link) Cut() { l.locked(func() { l.up.held, l.down.held = true, true }) }

// HoldRequests holds what the client sends, until Heal.
func (l *Link) HoldRequests() { l.locked(func() { l.up.held = true }) }

// HoldReplies holds what the members send, until Heal.
func (l *Link) HoldReplies() { l.locked(func() { l.down.held = true }) }

// Reach cuts the client off from all members but one, until Heal.
func (l *Link) Reach(member int) {
	l.locked(func() {
		l.only = member
		for _, d := range []*direction{&l.up, &l.down} { // it may have been another
			if !d.held && !d.draining {
				l.drain(d)
			}
		}
	})
}

func (l *Link) reaches(w *wire) bool { return l.only == nobody || l.only == w.member }

// Heal ends Cut, HoldRequests, HoldReplies and Reach.
func (l *Link) Heal() {
	l.locked(func() {
		l.only = nobody
		l.release(&l.up)
		l.release(&l.down)
	})
}

// Delay sets how long messages take in each direction, from now on.
func (l *Link) Delay(request, reply time.Duration) {
	l.locked(func() { l.up.delay, l.down.delay = request, reply })
}

// Spread sets the greatest random time that each message takes besides.
func (l *Link) Spread(most time.Duration) { l.locked(func() { l.spread = max(1, most) }) }

// Reset breaks all connections at both ends. What is under way is lost.
func (l *Link) Reset() {
	l.locked(func() {
		for _, w := range slices.Clone(l.wires) {
			w.breakOff()
		}
	})
}

func (w *wire) breakOff() {
	w.reset = true
	w.forget()
	w.client.fail(syscall.ECONNRESET)
	if w.server != nil {
		w.server.close()
	}
}

// forget removes a wire that Reset and Strand need not break any more.
func (w *wire) forget() {
	w.wires = slices.DeleteFunc(w.wires, func(other *wire) bool { return other == w })
}

// Strand breaks the client's ends, and heals the link. What the client has sent
// still arrives: what was held at Deliver, the rest at its time.
func (l *Link) Strand() {
	l.locked(func() {
		for _, p := range l.up.queue {
			p.of.isStranded = true
		}
		for _, p := range l.up.queue {
			if !p.of.reset {
				l.stranded = append(l.stranded, p.deliver)
			}
		}
		l.up.queue = nil
		for _, w := range slices.Clone(l.wires) {
			w.forget()
			w.client.fail(syscall.ECONNRESET)
			w.hangUp()
		}
		l.only = nobody
		l.release(&l.up)
		l.release(&l.down)
	})
}

// Deliver has the stranded requests arrive.
func (l *Link) Deliver() {
	l.locked(func() {
		stranded := l.stranded
		l.stranded = nil
		for _, deliver := range stranded {
			deliver()
		}
	})
}

// Sessions returns the live sessions that have been on this link.
func (l *Link) Sessions() (live []int64) {
	l.locked(func() {
		for _, id := range l.sessions {
			if l.Ensemble.sessions[id] != nil {
				live = append(live, id)
			}
		}
	})
	return live
}

// Notices returns how many notices of watches were sent to the client.
func (l *Link) Notices() (n int) {
	l.locked(func() { n = l.notices })
	return n
}

// close is the client's closing of its end.
func (w *wire) close() {
	w.forget()
	w.hangUp()
}

// hangUp tells the member that the client has closed, after all that it has
// sent.
func (w *wire) hangUp() {
	w.carry(&w.up, &w.ups, w, 0, func() {
		if w.server != nil {
			w.server.close()
		}
	})
}

// closeDown tells the client that the member has closed.
func (w *wire) closeDown() {
	w.carry(&w.down, &w.downs, w, 0, func() {
		w.forget()
		w.client.fail(io.EOF)
	})
}

// sendDown sends a message to the client, with the fate of its request. arrived
// is called if it reaches the client.
func (w *wire) sendDown(xid int32, message []byte, arrived func()) {
	fate := w.fates[xid]
	delete(w.fates, xid)
	if fate.DropReply {
		w.carry(&w.down, &w.downs, w, fate.DelayReply, w.breakOff)
		return
	}
	w.carry(&w.down, &w.downs, w, fate.DelayReply, func() {
		if w.client.put(message) {
			arrived()
		}
	})
}
