package netproxy

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/baton-go/baton/internal/freeport"
)

// Cut holds all bytes in both directions. Connections stay open and neither
// side notices; new connections are accepted and receive nothing. When Cut
// returns, no further byte passes.
func (p *Proxy) Cut() {
	p.CutUp()
	p.CutDown()
}

// CutUp holds the client's bytes. Replies and events still reach the client.
func (p *Proxy) CutUp() { p.gates[Up].hold() }

// CutDown holds the server's bytes. The client's requests still reach the
// server.
func (p *Proxy) CutDown() { p.gates[Down].hold() }

// Heal ends a cut in both directions. Held bytes are delivered now, late and in
// order, as are the ends of connections that were closed meanwhile.
func (p *Proxy) Heal() {
	p.gates[Up].open()
	p.gates[Down].open()
}

// DropHeld ends a cut without delivery: every open connection is reset, held
// bytes are dropped, and new connections work.
func (p *Proxy) DropHeld() {
	p.Reset() // first, so that no bytes pass the gates
	p.Heal()
}

// Delay makes all bytes of one direction arrive later by d from now on, also
// those in flight. Zero ends it. Order is kept.
func (p *Proxy) Delay(way Direction, d time.Duration) { p.gates[way].setDelay(d) }

// Reset resets all open connections: both sides see "connection reset by peer".
// Held bytes of those connections are dropped. New connections work. Stranded
// bytes are not affected: the client has lost their connections already.
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
// connections stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopListening()
}

// Reject accepts new connections and resets them at once. Open connections
// stay.
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
	// A process that is forked while the listener is closed keeps it open until
	// its exec.
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

// reset closes a connection with an RST instead of a FIN.
func reset(conn *net.TCPConn) {
	if conn != nil {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}
