package virtualetcd

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Link is the network between one client and the members: everything that
// dials the addresses of Endpoints. Faults apply to all its connections.
type Link struct {
	etcd  *Etcd
	index int

	mu       sync.Mutex
	held     [2]bool // by way
	only     *Member // nil: all members can be reached
	delays   [2]time.Duration
	events   int             // of watches that the members have sent
	lost     map[string]bool // keys of watches whose stream has ended
	dialled  []uint64
	attempts int           // to connect
	resets   int           // how often connections were broken
	turned   chan struct{} // closed and replaced at each change of the above
	conns    []*conn       // in the order in which they were made
	strays   []*conn       // stranded ones
}

func newLink(e *Etcd, index int) *Link {
	return &Link{
		etcd: e, index: index, turned: make(chan struct{}),
		dialled: make([]uint64, len(e.members)), lost: map[string]bool{},
	}
}

// Index counts the links of an Etcd from 0.
func (l *Link) Index() int { return l.index }

// host is the client's own address.
func (l *Link) host() string { return fmt.Sprintf("10.%d.%d.100:1", l.index>>8, l.index&255) }

// firstNet is the first number of all addresses before a move, deadNet that of
// addresses that lead nowhere.
const firstNet, deadNet = 10, 9

// ip is a member's present address on this link. It is one of no interface.
func (l *Link) ip(m *Member) string {
	moves, _ := m.lastMove()
	return fmt.Sprintf("%d.%d.%d.%d", firstNet+moves, l.index>>8, l.index&255, m.index+1)
}

func (l *Link) addr(m *Member) string { return l.at(l.ip(m)) }

// at is a host with the port of the members.
func (l *Link) at(host string) string { return fmt.Sprint(host, ":", firstPort+l.etcd.number) }

// leads notes an attempt to connect, and reports whether the address is one of
// a machine.
func (l *Link) leads(moves int, m *Member) bool {
	l.mu.Lock()
	l.attempts++
	l.mu.Unlock()
	now, when := m.lastMove()
	if moves >= 0 && moves < now && l.etcd.stale != nil {
		l.etcd.stale(l, time.Since(when))
	}
	return moves == now
}

// Dials counts the attempts to connect.
func (l *Link) Dials() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempts
}

// Events counts the events of watches that the members have sent.
func (l *Link) Events() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

func (l *Link) countEvents(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events += n
}

// loses notes watches whose stream has ended.
func (l *Link) loses(lists ...[]Watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range slices.Concat(lists...) {
		l.lost[w.Key] = true
	}
}

func (l *Link) hasLost(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost[key]
}

// Endpoints are the addresses of the members on this link.
func (l *Link) Endpoints() (all []string) {
	for _, m := range l.etcd.members {
		if l.etcd.named {
			all = append(all, l.at(fmt.Sprintf(hostNames, m.index+1, l.index, l.etcd.number)))
		} else {
			all = append(all, l.addr(m))
		}
	}
	return all
}

// change makes a change of the link, and lets what may pass now do so.
func (l *Link) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
	close(l.turned)
	l.turned = make(chan struct{})
	for _, c := range l.conns {
		for _, p := range c.pipes {
			p.again()
		}
	}
}

// Cut holds both directions until Heal. What is sent meanwhile arrives late and
// in order, as TCP sends it again, even if its sender has given up.
func (l *Link) Cut() { l.change(func() { l.held = [2]bool{true, true} }) }

// HoldRequests holds what the client sends, until Heal. It holds new
// connections, too.
func (l *Link) HoldRequests() { l.change(func() { l.held[up] = true }) }

// HoldReplies holds what the members send, until Heal.
func (l *Link) HoldReplies() { l.change(func() { l.held[down] = true }) }

// Reach cuts the client off from all members but one, until Heal.
func (l *Link) Reach(m *Member) { l.change(func() { l.only = m }) }

// Heal ends Cut, HoldRequests, HoldReplies and Reach.
func (l *Link) Heal() { l.change(func() { l.held, l.only = [2]bool{}, nil }) }

// open reports whether something passes between the client and a member. The
// caller holds l.mu.
func (l *Link) open(m *Member, w way) bool {
	return !l.held[w] && (l.only == nil || l.only == m)
}

// Delay sets how much longer requests and replies take, also those under way.
func (l *Link) Delay(request, reply time.Duration) {
	l.change(func() { l.delays = [2]time.Duration{request, reply} })
}

// Reset breaks all connections, for both sides. What is under way is lost.
// Holds and delays apply to new connections.
func (l *Link) Reset() {
	l.change(func() {
		l.resets++
		for _, c := range slices.Clone(l.conns) {
			c.abort()
		}
	})
}

// Strand breaks all connections for the client alone, and heals the link.
// Requests that were held stay under way, on connections that are still open
// for the members.
func (l *Link) Strand() {
	l.change(func() {
		l.resets++
		for _, c := range slices.Clone(l.conns) {
			c.strand()
		}
		l.held, l.only = [2]bool{}, nil
	})
}

// Deliver lets the stranded requests arrive. Their replies are lost.
func (l *Link) Deliver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.strays {
		c.deliver()
	}
	l.strays = nil
}

// Stranded reports whether requests are under way that Deliver would deliver.
func (l *Link) Stranded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.strays {
		if len(c.pipes[up].sent) > 0 {
			return true
		}
	}
	return false
}

// lose resets all connections, also stranded ones: the members have stopped.
func (l *Link) lose() {
	l.change(func() {
		for _, c := range slices.Concat(l.conns, l.strays) {
			c.abort()
		}
		l.strays = nil
	})
}

// loseMember resets all connections with a member.
func (l *Link) loseMember(m *Member) {
	l.change(func() {
		for _, c := range slices.Clone(l.conns) {
			if c.member == m {
				c.abort()
			}
		}
	})
}

// drop forgets a connection. The caller holds l.mu.
func (l *Link) drop(c *conn) {
	l.conns = slices.DeleteFunc(l.conns, func(other *conn) bool { return other == c })
}

// dial connects to a member. It takes a round trip.
func (l *Link) dial(ctx context.Context, m *Member) (net.Conn, error) {
	if err := l.pass(ctx, m, up); err != nil {
		return nil, err
	}
	c, err := l.connect(m)
	if passing := l.pass(ctx, m, down); passing != nil || err != nil {
		if c != nil {
			_ = c.client.Close()
		}
		if passing != nil {
			return nil, passing
		}
		return nil, err
	}
	return c.client, nil
}

// connect makes a connection that the member accepts.
func (l *Link) connect(m *Member) (*conn, error) {
	l.mu.Lock()
	c := newConn(l, m)
	l.conns = append(l.conns, c)
	l.mu.Unlock()
	if m.accept(c.server) {
		return c, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(c)
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address{c, l.addr(m)}, Err: syscall.ECONNREFUSED}
}

// pass waits until a packet that is sent now would have arrived.
func (l *Link) pass(ctx context.Context, m *Member, w way) error {
	sent := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	resets := l.resets
	takes := l.etcd.draw(longest, "dial", l.index, w)
	for {
		if l.resets != resets {
			return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNRESET}
		}
		wait := time.Until(sent.Add(takes + l.delays[w]))
		if l.open(m, w) && wait <= 0 {
			return nil
		}
		turned := l.turned
		l.mu.Unlock()
		err := sleep(ctx, wait, turned)
		l.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// sleep waits for a time, if it is positive, or until the channel is closed.
func sleep(ctx context.Context, d time.Duration, turned <-chan struct{}) error {
	var timer <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
		return nil
	case <-turned:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
