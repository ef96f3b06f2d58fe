package netproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// link is one client's connection with its connection to the server.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	ctx    context.Context // ends when the link is over or stranded
	cancel context.CancelFunc
	over   chan struct{} // closed when the link is aborted

	mu      sync.Mutex // guards the following fields against concurrent aborting and dialling
	server  *net.TCPConn
	aborted bool
	strayed *strand // nil unless it is stranded

	sniffing sync.Mutex // a sniffer reads one direction at a time
	sniffer  Sniffer
}

// run owns the link. It ends when both directions have, or when the link is
// aborted.
func (l *link) run() {
	defer l.proxy.running.Done()
	defer l.proxy.forget(l)
	defer l.abort()
	if !l.connect() {
		return
	}
	up := &pump{link: l, way: Up, from: l.client, to: l.server, queue: make(chan item, queued)}
	down := &pump{link: l, way: Down, from: l.server, to: l.client, queue: make(chan item, queued)}
	var pumps sync.WaitGroup
	for _, work := range []func(){up.read, up.write, down.read, down.write} {
		pumps.Go(work)
	}
	pumps.Wait()
	if s := l.stranded(); s != nil {
		l.linger(s, up.rest())
		return
	}
	l.close()
}

// connect dials the server. While the way up is cut or delayed, the server must
// not even see a connection, so connect waits at the gate as bytes do.
func (l *link) connect() bool {
	gate := &l.proxy.gates[Up]
	if !gate.enter(l.ctx, time.Now()) {
		return false
	}
	gate.leave()
	server, err := l.proxy.dial(l.ctx)
	if err != nil {
		l.proxy.turnedAway.Add(1)
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aborted {
		reset(server)
		return false
	}
	l.server = server
	return true
}

// abort resets both connections, which ends their readers and writers.
func (l *link) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abortLocked()
}

// abortLocked needs l.mu.
func (l *link) abortLocked() {
	if !l.aborted {
		l.aborted = true
		close(l.over)
	}
	l.cancel()
	reset(l.client)
	reset(l.server)
}

// close closes both connections orderly. It does nothing on an aborted link.
func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// inspect passes arrived bytes to the sniffer and its messages to the traps. It
// returns false if a trap was sprung, so that the bytes must not be passed on.
func (l *link) inspect(way Direction, b []byte) bool {
	l.sniffing.Lock()
	defer l.sniffing.Unlock()
	return l.proxy.spring(l, way, l.sniffer.Sniff(way, b))
}

// queued is how many chunks of one direction wait in the proxy before it stops
// reading.
const (
	queued = 256
	chunk  = 32 << 10
)

// item is queued to be passed on: bytes, or the end of the stream. Ends wait in
// the queue and at the gate, too; otherwise a cut would let a FIN through.
type item struct {
	data    []byte
	end     error // io.EOF: in order; anything else: reset
	arrived time.Time
}

// pump carries one direction of one link: read fills the queue, write empties
// it.
type pump struct {
	link     *link
	way      Direction
	from, to *net.TCPConn
	queue    chan item
	// broken: the receiver has ended and the rest is dropped. The link is not
	// aborted for that: bytes that this receiver sent before may still be held,
	// and must arrive late.
	broken bool
	stuck  []item // items that write could not pass when the link was stranded
}

func (p *pump) read() {
	buf := make([]byte, chunk)
	for {
		n, err := p.from.Read(buf)
		if n > 0 {
			p.link.proxy.traffic[p.way].arrived.Add(int64(n))
			if !p.link.inspect(p.way, buf[:n]) || !p.push(item{data: bytes.Clone(buf[:n])}) {
				return
			}
		}
		if err != nil {
			p.push(item{end: err})
			return
		}
	}
}

func (p *pump) push(it item) bool {
	it.arrived = time.Now()
	select {
	case p.queue <- it:
		return true
	case <-p.link.ctx.Done():
		return false
	}
}

func (p *pump) write() {
	for {
		select {
		case it := <-p.queue:
			if !p.pass(it) {
				return
			}
		case <-p.link.ctx.Done():
			return
		}
	}
}

// pass passes one item on when it is due, and reports whether more may follow.
func (p *pump) pass(it item) bool {
	if p.broken {
		return it.end == nil
	}
	gate := &p.link.proxy.gates[p.way]
	if !gate.enter(p.link.ctx, it.arrived) {
		p.stuck = append(p.stuck, it)
		return false
	}
	defer gate.leave()
	switch {
	case it.end == nil:
		p.broken = p.link.proxy.traffic[p.way].pass(p.to, it.data) != nil
		return true
	case errors.Is(it.end, io.EOF):
		_ = p.to.CloseWrite()
		return false
	default:
		p.link.abort()
		return false
	}
}

// rest returns the items that were not passed on, in order, after read and
// write have ended.
func (p *pump) rest() []item {
	items := p.stuck
	for {
		select {
		case it := <-p.queue:
			items = append(items, it)
		default:
			return items
		}
	}
}
