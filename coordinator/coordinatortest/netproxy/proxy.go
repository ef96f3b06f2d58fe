package netproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/internal/freeport"
)

// Direction is the way that bytes travel.
type Direction int

const (
	// Up is from the client to the server.
	Up Direction = iota
	// Down is from the server to the client.
	Down
)

// Option changes a proxy that New makes.
type Option func(*Proxy)

// WithSniffer makes the proxy show each connection's bytes to a sniffer of its
// own, made by newSniffer.
func WithSniffer(newSniffer func() Sniffer) Option {
	return func(p *Proxy) { p.newSniffer = newSniffer }
}

// Proxy forwards connections to one of its targets. All methods may be called
// concurrently.
type Proxy struct {
	newSniffer func() Sniffer
	port       int
	gates      [2]gate
	traffic    [2]traffic
	accepted   atomic.Int64
	turnedAway atomic.Int64
	running    sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while refusing
	reject   bool
	closed   bool
	targets  []string // starts with the last one that answered
	links    map[*link]struct{}
	traps    []*Trap
}

// traffic counts the bytes of one direction that arrived and that were passed
// on.
type traffic struct{ arrived, passed atomic.Int64 }

// pass writes to the other end. The bytes count before they are written, so
// that the receiver finds them counted; bytes that the other end did not take
// are subtracted again.
func (t *traffic) pass(to io.Writer, b []byte) error {
	t.passed.Add(int64(len(b)))
	n, err := to.Write(b)
	t.passed.Add(int64(n - len(b)))
	return err
}

// New starts a proxy on a free loopback port. A new connection uses the target
// of the previous one or, if that does not answer, the next that does.
func New(targets []string, options ...Option) (*Proxy, error) {
	if len(targets) == 0 {
		return nil, errors.New("netproxy: no targets")
	}
	ports, err := freeport.Take(1)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		newSniffer: func() Sniffer { return &rawSniffer{} },
		port:       ports[0],
		targets:    slices.Clone(targets),
		links:      map[*link]struct{}{},
	}
	for _, option := range options {
		option(p)
	}
	if err := p.Admit(); err != nil {
		freeport.Release(p.port)
		return nil, err
	}
	return p, nil
}

// Addr returns the address for the client. It does not change.
func (p *Proxy) Addr() string { return freeport.Addr(p.port) }

// Use sends new connections to the given targets, in this order of preference.
// Open connections stay; Reset moves them.
func (p *Proxy) Use(targets ...string) {
	if len(targets) == 0 {
		panic("netproxy: Use without a target")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = slices.Clone(targets)
}

// Stats are a proxy's counts so far.
type Stats struct {
	// Accepted is the number of connections accepted from the client, Open how
	// many of them are open at both ends, TurnedAway how many were reset at
	// once (Reject) or found no target.
	Accepted, Open, TurnedAway int64
	// BytesUp and BytesDown were passed on; HeldUp and HeldDown are held, or
	// were dropped.
	BytesUp, BytesDown, HeldUp, HeldDown int64
}

// Stats returns the counts. The byte counts move at slightly different moments.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	open := 0
	for l := range p.links {
		if l.stranded() == nil {
			open++
		}
	}
	p.mu.Unlock()
	up, down := p.traffic[Up].passed.Load(), p.traffic[Down].passed.Load()
	return Stats{
		Accepted: p.accepted.Load(), Open: int64(open), TurnedAway: p.turnedAway.Load(),
		BytesUp: up, BytesDown: down,
		HeldUp:   p.traffic[Up].arrived.Load() - up,
		HeldDown: p.traffic[Down].arrived.Load() - down,
	}
}

// Close resets all connections, stops listening and waits for every goroutine
// of the proxy. Remaining traps are never sprung.
func (p *Proxy) Close() {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.stopListening()
	for l := range p.links {
		l.abort()
	}
	p.mu.Unlock()
	p.running.Wait()
	if !already {
		freeport.Release(p.port)
	}
}

// accept owns one listener until it is closed, by Refuse or Close.
func (p *Proxy) accept(ln net.Listener) {
	defer p.running.Done()
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// For example out of file descriptors, or a reset by the client:
			// neither ends the proxy.
			time.Sleep(time.Millisecond)
			continue
		}
		p.admit(conn.(*net.TCPConn))
	}
}

func (p *Proxy) admit(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.reject {
		p.turnedAway.Add(1)
		reset(client)
		return
	}
	p.accepted.Add(1)
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{proxy: p, client: client, sniffer: p.newSniffer(), ctx: ctx, cancel: cancel, over: make(chan struct{})}
	p.links[l] = struct{}{}
	p.running.Add(1)
	go l.run()
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// dial connects to the first target that answers and remembers it.
func (p *Proxy) dial(ctx context.Context) (*net.TCPConn, error) {
	p.mu.Lock()
	targets := slices.Clone(p.targets)
	p.mu.Unlock()
	dialer := net.Dialer{Timeout: 2 * time.Second}
	var errs error
	for i, target := range targets {
		conn, err := dialer.DialContext(ctx, "tcp", target)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		p.prefer(targets, i)
		return conn.(*net.TCPConn), nil
	}
	return nil, fmt.Errorf("netproxy: no target answers: %w", errs)
}

// prefer moves the target that answered to the front, unless Use has changed
// the targets since.
func (p *Proxy) prefer(targets []string, i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i > 0 && slices.Equal(p.targets, targets) {
		p.targets = append(slices.Clone(targets[i:]), targets[:i]...)
	}
}
