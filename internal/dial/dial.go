// Package dial connects to servers that may be unreachable for a while, through
// name servers that may be, too.
package dial

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// again is the time between two attempts.
const again = 200 * time.Millisecond

// connector makes one attempt to connect to an IP address.
type connector = func(ctx context.Context, network, addr string) (net.Conn, error)

// through makes the connections of the process, see Replace.
var through atomic.Pointer[connector]

func init() { Replace(new(net.Dialer).DialContext) }

// Replace lets connect make all connections of this process, until restore. It
// is for tests in virtual time: no socket may be open in a bubble, and a driver
// that makes its own client has no other place for a network without sockets.
func Replace(connect connector) (restore func()) {
	before := through.Swap(&connect)
	return func() { through.Store(before) }
}

// Dialer connects to hosts by name. Its zero value is ready for use; it is safe
// for concurrent use.
type Dialer struct {
	Names Names

	connect connector // nil: that of the process
}

// TCP connects to an address, host:port, whose host may be a name.
func (d *Dialer) TCP(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || IsAddress(host) {
		return d.first(ctx, addr) // a malformed one, for its error
	}
	found, err := d.Names.Lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("dial tcp: %w", err)
	}
	addrs := make([]string, len(found))
	for i, a := range found {
		addrs[i] = net.JoinHostPort(a, port)
	}
	return d.first(ctx, addrs...)
}

// IsAddress reports whether a host is an IP address, which needs no lookup.
func IsAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// TCP connects to an address whose host is an IP address.
func TCP(ctx context.Context, addr string) (net.Conn, error) { return new(Dialer).first(ctx, addr) }

// first connects to the first address that accepts. Every 200 ms without an
// outcome, and after each failure, it begins another attempt beside those under
// way, at the next address that has not failed. It fails when all have.
//
// So it finds within 200 ms that packets pass again: a single attempt would
// repeat a lost packet only after a second, then two, then four. And an address
// that drops packets takes no time from the others.
func (d *Dialer) first(ctx context.Context, addrs ...string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx) // a connection outlives it
	defer cancel()
	connect := d.connect
	if connect == nil {
		connect = *through.Load()
	}
	type outcome struct {
		of   int
		conn net.Conn
		err  error
	}
	outcomes, ticker := make(chan outcome), time.NewTicker(again)
	defer ticker.Stop()
	done := make(chan struct{})
	defer close(done)
	attempt := func(i int) {
		conn, err := connect(ctx, "tcp", addrs[i])
		select {
		case outcomes <- outcome{i, conn, err}:
		case <-done:
			if err == nil {
				_ = conn.Close()
			}
		}
	}
	failed, left := make([]bool, len(addrs)), len(addrs)
	var failure error
	for i := 0; ; i = (i + 1) % len(addrs) {
		if failed[i] {
			continue
		}
		go attempt(i)
		select {
		case o := <-outcomes:
			if o.err == nil {
				return o.conn, nil
			}
			if failed[o.of] {
				continue
			}
			failed[o.of] = true
			if failure = join(failure, o.err); left == 1 {
				return nil, failure
			}
			left--
		case <-ticker.C:
		}
	}
}

// join joins errors in one line.
func join(a, b error) error {
	if a == nil {
		return b
	}
	return fmt.Errorf("%w; %w", a, b)
}
