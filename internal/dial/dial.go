// Package dial connects to servers that may be unreachable for a while.
package dial

import (
	"context"
	"net"
	"time"
)

// again is the time between two attempts.
const again = 200 * time.Millisecond

// TCP connects to an address. Every 200 ms without an outcome it begins another
// attempt beside those under way, and returns the first outcome, so it finds
// within 200 ms that packets pass again. A single attempt would repeat a lost
// packet only after a second, then two, then four.
func TCP(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx) // a connection outlives it
	defer cancel()
	type outcome struct {
		conn net.Conn
		err  error
	}
	outcomes, ticker := make(chan outcome), time.NewTicker(again)
	defer ticker.Stop()
	done := make(chan struct{})
	defer close(done)
	attempt := func() {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		select {
		case outcomes <- outcome{conn, err}:
		case <-done:
			if err == nil {
				_ = conn.Close()
			}
		}
	}
	for {
		go attempt()
		select {
		case o := <-outcomes:
			return o.conn, o.err
		case <-ticker.C:
		}
	}
}
