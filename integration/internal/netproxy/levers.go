package netproxy

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/baton-go/baton/integration/internal/freeport"
)

// Cut holds all bytes in both directions. Connections stay open and no side
// learns anything; new connections are accepted and hear nothing. When Cut
// returns, no further byte passes.
func (p *Proxy) Cut() {
	p.CutUp()
	p.CutDown()
}

// CutUp holds what the client sends. Replies and events still reach the client.
func (p *Proxy) CutUp() { p.gates[Up].hold() }

// CutDown holds what the server sends. The client's requests still reach the
// server.
func (p *Proxy) CutDown() { p.gates[Down].hold() }

// Heal ends a cut in both directions. What was held is delivered now, in order,
// late; that includes the ends of connections that were closed meanwhile.
func (p *Proxy) Heal() {
	p.gates[Up].open()
	p.gates[Down].open()
}

// DropHeld ends a cut as a network that forgot everything would: every
// connection that is open is reset, what was held is never delivered, and new
// connections work.
func (p *Proxy) DropHeld() {
	p.Reset() // first, so that nothing slips through the gates
	p.Heal()
}

// Delay makes all bytes of one direction arrive later by d from now on, those
// under way included. Zero ends it. Order is kept.
func (p *Proxy) Delay(way Direction, d time.Duration) { p.gates[way].setDelay(d) }

// Reset resets all connections that are open: both sides see "connection reset
// by peer". Held bytes of those connections are gone. New connections work.
// What Strand left under way stays so: the client has those connections no
// more.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.stranded() == nil {
			l.abort()
		}
	}
}

// Refuse closes the listener: dialling fails with "connection refused". Open
// connections live on.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopListening()
}

// Reject takes new connections and resets them at once. Open connections live
// on.
func (p *Proxy) Reject() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reject = true
}

// Admit ends Refuse and Reject.
func (p *Proxy) Admit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reject = false
	if p.closed || p.listener != nil {
		return nil
	}
	ln, err := net.Listen("tcp", freeport.Addr(p.port))
	// A process that is started at the moment at which a listener is closed
	// keeps it open until it has its own program.
	for tries := 0; errors.Is(err, syscall.EADDRINUSE) && tries < 100; tries++ {
		time.Sleep(10 * time.Millisecond)
		ln, err = net.Listen("tcp", freeport.Addr(p.port))
	}
	if err != nil {
		return fmt.Errorf("netproxy: %w", err)
	}
	p.listener = ln
	p.running.Add(1)
	go p.accept(ln)
	return nil
}

// stopListening needs p.mu.
func (p *Proxy) stopListening() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// reset closes a connection so that the other end gets an RST instead of an
// orderly end.
func reset(conn *net.TCPConn) {
	if conn != nil {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}
