package netproxy

import (
	"io"
	"sync"
	"time"
)

const (
	// deliverWait bounds how long Deliver waits for servers that take no bytes.
	deliverWait = time.Second
	// farewell is how long a connection stays open after Deliver. A server may
	// drop requests of a connection that ends before it got to them.
	farewell = time.Second
)

// Strand breaks every connection for the client and not for the server: the
// client sees a reset, while what it has sent and a cut holds stays under way,
// on connections that the server still takes for the client's. What the server
// sends there is thrown away. The cut ends, and new connections work at once. A
// connection that has not reached the server yet has nothing under way there,
// and is reset.
//
// It is what a route that changes does: the client is told that the old one is
// gone, and packets that were queued on it arrive all the same. Deliver lets
// them; without it they wait until Close.
func (p *Proxy) Strand() {
	p.mu.Lock()
	for l := range p.links {
		l.strand()
	}
	p.mu.Unlock()
	p.Heal() // last, so that nothing slips through the gates
}

// Deliver lets what Strand left under way reach the servers, whatever is cut
// now, and closes those connections a second later. When it returns the bytes
// are written. That a server has closed its end long ago, and nobody will read
// them, is no error.
func (p *Proxy) Deliver() {
	p.mu.Lock()
	var stranded []*strand
	for l := range p.links {
		if s := l.stranded(); s != nil {
			s.once.Do(func() { close(s.deliver) })
			stranded = append(stranded, s)
		}
	}
	p.mu.Unlock()
	timeout := time.After(deliverWait)
	for _, s := range stranded {
		select {
		case <-s.delivered:
		case <-timeout:
			return
		}
	}
}

// strand is what a link has that was stranded.
type strand struct {
	once      sync.Once
	deliver   chan struct{} // closed by Deliver
	delivered chan struct{} // closed when the bytes are written, or cannot be
}

// strand gives the client up, and stops the pumps without a harm to the
// server's connection.
func (l *link) strand() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.aborted || l.strayed != nil:
	case l.server == nil:
		l.abortLocked()
	default:
		l.strayed = &strand{deliver: make(chan struct{}), delivered: make(chan struct{})}
		l.cancel() // first: the end of the client is nothing that should reach the server
		reset(l.client)
		_ = l.server.SetReadDeadline(time.Unix(1, 0))
	}
}

// stranded returns nil if the link is not.
func (l *link) stranded() *strand {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.strayed
}

// linger keeps the server's connection of a stranded link until its time has
// come.
func (l *link) linger(s *strand, held []item) {
	_ = l.server.SetReadDeadline(time.Time{})
	closed := make(chan struct{}) // by the server
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, l.server)
	}()
	defer func() { <-closed }()
	defer func() { _ = l.server.Close() }()
	select {
	case <-s.deliver:
	case <-l.over:
		close(s.delivered)
		return
	}
	for _, it := range held {
		if l.proxy.traffic[Up].pass(l.server, it.data) != nil { // nothing, for the end of a stream
			break
		}
	}
	close(s.delivered)
	select {
	case <-closed:
	case <-time.After(farewell):
	case <-l.over:
	}
}
