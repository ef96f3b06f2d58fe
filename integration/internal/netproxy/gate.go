package netproxy

import (
	"context"
	"sync"
	"time"
)

// holdWait bounds how long a cut waits for a write that has begun: one to a
// paused peer with full buffers might never end.
const holdWait = time.Second

// gate lets the bytes of one direction pass, all connections together. The zero
// gate is open.
type gate struct {
	mu      sync.Mutex
	held    bool
	delay   time.Duration
	passing int           // writes that have begun
	changed chan struct{} // closed and forgotten at each change; nil when nobody waits
}

// enter waits until something that arrived at the given time may pass. After
// true the caller has to call leave; after false ctx is over.
func (g *gate) enter(ctx context.Context, arrived time.Time) bool {
	for {
		changed, wait, ok := g.try(ctx, arrived)
		if changed == nil {
			return ok
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-changed:
		case <-timer:
		case <-ctx.Done():
			return false
		}
	}
}

// try enters if it can. Otherwise it returns the channel that tells of the next
// change and, if only the delay is in the way, how long that is.
func (g *gate) try(ctx context.Context, arrived time.Time) (changed <-chan struct{}, wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Under the lock: a link that DropHeld has aborted must not pass once the
	// gate is open again.
	if ctx.Err() != nil {
		return nil, 0, false
	}
	if !g.held {
		if wait = time.Until(arrived.Add(g.delay)); wait <= 0 {
			g.passing++
			return nil, 0, true
		}
	}
	return g.changes(), wait, false
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passing--; g.passing == 0 && g.held {
		g.announce()
	}
}

// hold closes the gate and waits for those who have passed it already, so that
// a test that has cut a direction can rely on it.
func (g *gate) hold() {
	timeout := time.After(holdWait)
	for {
		g.mu.Lock()
		g.held = true
		passing, changed := g.passing, g.changes()
		g.mu.Unlock()
		if passing == 0 {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			return
		}
	}
}

// shut closes the gate without waiting: for a caller on whom those at the gate
// may depend.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = false
	g.announce()
}

func (g *gate) setDelay(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = d
	g.announce()
}

// changes and announce need g.mu.
func (g *gate) changes() <-chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}

func (g *gate) announce() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}
