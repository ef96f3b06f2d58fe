package netproxy

import (
	"context"
	"sync"
	"time"
)

// holdWait bounds how long a cut waits for a started write: a write to a paused
// peer with full buffers might never end.
const holdWait = time.Second

// gate controls the bytes of one direction, for all connections. The zero gate
// is open.
type gate struct {
	mu      sync.Mutex
	held    bool
	delay   time.Duration
	passing int           // started writes
	changed chan struct{} // closed and cleared at each change; nil without waiters
}

// enter waits until bytes that arrived at the given time may pass. If it
// returns true, the caller must call leave; if false, ctx has ended.
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

// try enters if it can. Otherwise it returns the channel that the next change
// closes and, if only the delay remains, its length.
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

// hold closes the gate and waits for writes that have already passed it, so
// that a test can rely on the cut.
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

// shut closes the gate without waiting, for callers on which writes at the gate
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
