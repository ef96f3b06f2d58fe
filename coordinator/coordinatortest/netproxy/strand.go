package netproxy

import (
	"io"
	"sync"
	"time"
)

const (
	// deliverWait bounds how long Deliver waits for servers that take no bytes.
	deliverWait = time.Second
	// lingerTime is how long a connection stays open after Deliver. A server
	// may drop unread requests of a closed connection.
	lingerTime = time.Second
)

// Strand breaks every connection for the client but not for the server: the
// client sees a reset, while its held bytes stay in flight, on connections that
// the server still considers the client's. Bytes from the server are dropped.
// The cut ends, and new connections work at once. A connection that has not
// reached the server yet is reset.
//
// A changed route has this effect: the client notices that the old connection
// has ended, but packets queued on the old route still arrive. Deliver delivers
// them; without it they wait until Close.
func (p *Proxy) Strand() {
	p.mu.Lock()
	for l := range p.links {
		l.strand()
	}
	p.mu.Unlock()
	p.Heal() // last, so that no bytes pass the gates
}

// Deliver delivers the stranded bytes to the servers, regardless of cuts, and
// closes those connections a second later. When it returns, the bytes are
// written. It is not an error if a server has closed its end.
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

// strand is the state of a stranded link.
type strand struct {
	once      sync.Once
	deliver   chan struct{} // closed by Deliver
	delivered chan struct{} // closed when the bytes are written, or cannot be
}

// strand resets the client's connection, and stops the pumps without harm to
// the server's connection.
func (l *link) strand() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.aborted || l.strayed != nil:
	case l.server == nil:
		l.abortLocked()
	default:
		l.strayed = &strand{deliver: make(chan struct{}), delivered: make(chan struct{})}
		l.cancel() // first: the end of the client must not reach the server
		reset(l.client)
		_ = l.server.SetReadDeadline(time.Unix(1, 0))
	}
}

// stranded returns nil if the link is not stranded.
func (l *link) stranded() *strand {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.strayed
}

// linger keeps the server's connection of a stranded link open until Deliver or
// Close.
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
		if l.proxy.traffic[Up].pass(l.server, it.data) != nil { // empty for the end of a stream
			break
		}
	}
	close(s.delivered)
	select {
	case <-closed:
	case <-time.After(lingerTime):
	case <-l.over:
	}
}
