package virtualetcd

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// way is a direction of a link.
type way int

const (
	up   way = iota // requests
	down            // replies
)

// chunk is what was written to a pipe at one instant, or the end of its stream.
type chunk struct {
	data    []byte
	end     error // io.EOF or a reset; then data is empty
	written time.Time
	takes   time.Duration // without the delay of the link
}

// pipe carries the bytes of one direction of a connection, in order. Its fields
// are guarded by the link's mu.
type pipe struct {
	link *Link
	peer *Member
	way  way
	rand *rand.Rand // of the times that chunks take

	sent  []chunk // under way
	timer *time.Timer
	// strayed: the sender has lost the connection. What is under way stays so
	// until Deliver, and then arrives although the link is held.
	strayed, delivers bool

	arrived []byte
	end     error     // what a reader gets after arrived
	gone    bool      // the reader has closed its end: what arrives is dropped
	until   time.Time // the deadline of reads
	clock   *time.Timer
	changed sync.Cond // of arrived, end, gone or until
}

func newPipe(l *Link, m *Member, w way, r *rand.Rand) *pipe {
	p := &pipe{link: l, peer: m, way: w, rand: r}
	p.changed.L = &l.mu
	return p
}

// longest is how long a chunk takes at most, without a delay of the link.
const longest = 200 * time.Microsecond

// send puts bytes or the end of the stream under way. A sender may write a
// message in several pieces, as the scheduler has it. So those of one instant
// stay together: the random times, and with them the order of events, do not
// depend on the scheduler.
func (p *pipe) send(data []byte, end error) {
	if n := len(p.sent); n > 0 && end == nil {
		if last := &p.sent[n-1]; last.end == nil && last.written.Equal(time.Now()) {
			last.data = append(last.data, data...)
			return
		}
	}
	p.sent = append(p.sent, chunk{
		data: slices.Clone(data), end: end, written: time.Now(),
		takes: 1 + time.Duration(p.rand.Int64N(int64(longest))),
	})
	p.pump()
}

// pump starts the timer of the first chunk, unless it is held.
func (p *pipe) pump() {
	if p.timer != nil || len(p.sent) == 0 || !p.open() {
		return
	}
	wait := time.Until(p.sent[0].written.Add(p.sent[0].takes + p.link.delays[p.way]))
	if wait <= 0 { // it was held, or behind another one
		wait = 1 + time.Duration(p.rand.Int64N(int64(longest/100)))
	}
	p.timer = time.AfterFunc(wait, p.deliver)
}

// open reports whether chunks pass.
func (p *pipe) open() bool {
	if p.strayed {
		return p.delivers
	}
	return p.link.open(p.peer, p.way)
}

// deliver is called by the timer.
func (p *pipe) deliver() {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	p.timer = nil
	if len(p.sent) == 0 || !p.open() {
		return
	}
	c := p.sent[0]
	p.sent = p.sent[1:]
	switch {
	case p.gone || p.end != nil:
	case c.end != nil:
		p.end = c.end
	default:
		p.arrived = append(p.arrived, c.data...)
	}
	p.changed.Broadcast()
	p.pump()
}

// again starts the timer anew, after the link has changed.
func (p *pipe) again() {
	p.stop()
	p.pump()
}

func (p *pipe) stop() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// lose drops what is under way and what has arrived, and ends the stream.
func (p *pipe) lose(end error) {
	p.stop()
	p.sent, p.arrived = nil, nil
	if p.end == nil {
		p.end = end
	}
	p.changed.Broadcast()
}
