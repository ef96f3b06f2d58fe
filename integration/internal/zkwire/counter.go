// Package zkwire reads ZooKeeper's client protocol in a proxy.
//
// It counts all requests of a connection, reads session IDs and passwords,
// recognises requests for netproxy's traps, and ends a session from outside, as
// an operator or another process would:
//
//	counter := zkwire.NewCounter()
//	proxy, err := netproxy.New(cluster.Endpoints(), netproxy.WithSniffer(counter.Sniffer))
//	...
//	before := counter.Snapshot()
//	... lock, unlock ...
//	spent := counter.Snapshot().Since(before) // spent.Requests: map[multi:2 delete:1]
//	err = counter.Session().Kill(ctx, cluster.Endpoints()[0])
//
// Bytes that are not ZooKeeper's protocol (four-letter words, TLS) are ignored.
package zkwire

import (
	"maps"
	"sync"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

// Counts has the messages of one or more connections.
type Counts struct {
	// Requests counts by operation name ("multi", "create2", "getChildren2")
	// the client's requests. Requests of its library are counted separately,
	// below.
	Requests map[string]int
	// Connects counts session handshakes, reconnects included.
	Connects int
	// Pings, Auths and SetWatches (re-registration of watches after a
	// reconnect) are housekeeping.
	Pings, Auths, SetWatches int
	// Watches counts the requests that set a watch.
	Watches int
	// Notifications counts watch events sent to the client.
	Notifications int
}

// Total returns the number of requests without housekeeping.
func (c Counts) Total() int {
	total := 0
	for _, n := range c.Requests {
		total += n
	}
	return total
}

// Since returns the counts since an earlier snapshot. Operations that did not
// occur are absent.
func (c Counts) Since(earlier Counts) Counts {
	d := Counts{
		Requests:      map[string]int{},
		Connects:      c.Connects - earlier.Connects,
		Pings:         c.Pings - earlier.Pings,
		Auths:         c.Auths - earlier.Auths,
		SetWatches:    c.SetWatches - earlier.SetWatches,
		Watches:       c.Watches - earlier.Watches,
		Notifications: c.Notifications - earlier.Notifications,
	}
	for op, n := range c.Requests {
		if n > earlier.Requests[op] {
			d.Requests[op] = n - earlier.Requests[op]
		}
	}
	return d
}

// Counter counts over all connections whose sniffers it made. Its methods may
// be called concurrently.
type Counter struct {
	mu       sync.Mutex
	counts   Counts
	sessions []Session
}

// NewCounter returns a counter at zero.
func NewCounter() *Counter {
	return &Counter{counts: Counts{Requests: map[string]int{}}}
}

// Sniffer makes the sniffer of one connection, for netproxy.WithSniffer.
func (c *Counter) Sniffer() netproxy.Sniffer { return &sniffer{counter: c} }

// Snapshot returns a copy of the counts so far.
func (c *Counter) Snapshot() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	counts.Requests = maps.Clone(counts.Requests)
	return counts
}

// Sessions returns the sessions that servers granted over these connections,
// oldest first, each once.
func (c *Counter) Sessions() []Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Session(nil), c.sessions...)
}

// Session returns the session that was granted last, or the zero Session.
func (c *Counter) Session() Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions) == 0 {
		return Session{}
	}
	return c.sessions[len(c.sessions)-1]
}

func (c *Counter) count(change func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.counts)
}

// granted records a session. A reconnect shows the same session again.
func (c *Counter) granted(s Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.sessions {
		if known.ID == s.ID {
			return
		}
	}
	c.sessions = append(c.sessions, s)
}
