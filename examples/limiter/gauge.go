package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// gauge measures what the downstream sees of this process: it knows nothing of the semaphore.
type gauge struct {
	out   io.Writer
	began time.Time

	mu                   sync.Mutex
	running, most, calls int
	longest              time.Duration
}

func (g *gauge) begin(who string, slot int, waited time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running++
	g.calls++
	g.most, g.longest = max(g.most, g.running), max(g.longest, waited)
	fmt.Fprintf(g.out, "%6d ms  %s on connection %d, waited %d ms, %d running\n",
		time.Since(g.began).Milliseconds(), who, slot, waited.Milliseconds(), g.running)
}

func (g *gauge) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
}

func (g *gauge) summary(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Fprintf(g.out, "%d calls in %d ms, at most %d at a time of %d allowed; the longest wait was %d ms\n",
		g.calls, time.Since(g.began).Milliseconds(), g.most, limit, g.longest.Milliseconds())
}
