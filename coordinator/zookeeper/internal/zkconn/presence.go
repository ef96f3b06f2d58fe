package zkconn

import (
	"sync"
	"time"
)

// presence is whether the client is connected, with its session, right now.
type presence struct {
	mu    sync.Mutex
	up    chan struct{} // closed while connected
	again chan struct{} // closed by the next connection
	isUp  bool
	turns int // how often isUp has changed
	calls int // of set and soon
}

// afterSession is how long requests wait when the client says that it has a
// session. It says so before it has sent the watches that it still knows of,
// and does that beside the goroutine that takes answers: a watch whose answer
// came first would be sent once more, and the number of the latest change that
// is sent along would be read while it is written.
const afterSession = time.Millisecond

// soon is set(true), a moment later, unless there is news until then.
func (p *presence) soon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	call := p.calls
	time.AfterFunc(afterSession, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.calls == call {
			p.become(true)
		}
	})
}

func newPresence() *presence {
	return &presence{up: make(chan struct{}), again: make(chan struct{})}
}

// set reports a change; what is no change is ignored.
func (p *presence) set(up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.become(up)
}

// become is called with the mutex held.
func (p *presence) become(up bool) {
	if p.isUp == up {
		return
	}
	p.isUp = up
	p.turns++
	if !up {
		p.up = make(chan struct{})
		return
	}
	close(p.up)
	close(p.again)
	p.again = make(chan struct{})
}

// connected returns a channel that is closed when there is a connection.
func (p *presence) connected() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up
}

// reconnected returns a channel that is closed by the next new connection.
func (p *presence) reconnected() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.again
}

// generation is another one on each connection, and another one still while
// there is none. It changes when a connection is lost, before the client knows:
// a reply that came on a later connection finds another generation, even if the
// request was queued in the client before.
func (p *presence) generation() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turns
}
