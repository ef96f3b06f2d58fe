package zkconn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-go/baton/internal/dial"
)

const (
	roundPause   = 100 * time.Millisecond // mean minimum time of a round of all servers
	longestPause = 2 * time.Second        // likewise, in a long outage
	// pausesPerOutage: a pause is this part of the outage so far. So a service
	// that returns is found soon compared with how long it was away.
	pausesPerOutage = 8
	// outageForgotten is longer than a round, in which each server may take
	// seconds.
	outageForgotten = 5 * time.Minute

	// lookupPatience is how long a round waits for further addresses when it
	// has some.
	lookupPatience = 300 * time.Millisecond
)

// target is one server to dial.
type target struct {
	addr string // IP address and port, or the configured server if it did not resolve
	host string // the configured name, for the certificate check
	err  error  // why it did not resolve
}

// connect connects to a server, with TLS if so configured.
func (c *Config) connect(ctx context.Context, t target) (net.Conn, error) {
	if t.err != nil {
		return nil, t.err
	}
	connect := c.Dial.Connect
	if connect == nil {
		connect = dial.TCP
	}
	conn, err := connect(ctx, t.addr)
	if err != nil {
		return nil, err
	}
	secure, err := c.TLS.Client(ctx, conn, t.host)
	if err != nil {
		return nil, fmt.Errorf("%s: TLS handshake failed: %w", t.addr, err)
	}
	return secure, nil
}

// outage is since when no server has accepted a session, for all sessions of a
// driver, so that a new one does not begin with short pauses again.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero: there is none
	tried time.Time // when a session last tried
}

// lasts returns how long the outage has lasted, which began at the given time
// unless it is under way. If no session has tried for a while, its end was not
// noticed.
func (o *outage) lasts(began time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.since.IsZero() || now.Sub(o.tried) > outageForgotten {
		o.since = began
	}
	o.tried = now
	return now.Sub(o.since)
}

func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = time.Time{}
}

// rotation yields servers to try, in rounds. Each round resolves the names
// anew, since addresses change in container clusters, and shuffles, so that
// clients do not all move to one server. It is used by one goroutine at a time.
type rotation struct {
	servers []string
	names   *dial.Names
	outage  *outage
	random  *rand.Rand
	waits   func(why error) // called while no name resolves

	round []target  // the rest of this round
	began time.Time // when this round began
	tried bool      // a round has begun since the last connection
	life  time.Duration
	quick time.Time // until then pauses are short
	last  string    // the address of the last connection
}

func (c *Config) newRotation() *rotation {
	return &rotation{
		servers: c.Servers, names: &c.names, outage: &c.outage, random: c.Dial.Random(),
		waits: func(error) {},
	}
}

// connected notes a connection of a session with this TTL to the server that
// next returned last. When the connection is lost the rotation begins with a
// new round: the addresses of the old one may be days old.
func (r *rotation) connected(t target, ttl time.Duration) {
	r.outage.over()
	r.round, r.tried, r.life, r.last = nil, false, ttl, t.addr
}

// next returns the next server. It fails only when ctx ends.
//
// The first servers of a round are tried at once. A new round begins no sooner
// than the pause after the last one began, so that a server that accepts and
// then hangs up is not dialled in a tight loop.
func (r *rotation) next(ctx context.Context) (target, error) {
	for len(r.round) == 0 {
		select {
		case <-time.After(r.pause() - time.Since(r.began)):
		case <-ctx.Done():
			return target{}, ctx.Err()
		}
		if r.began = time.Now(); !r.tried {
			r.tried, r.quick = true, r.began.Add(r.life)
		}
		if r.round = r.resolve(ctx); ctx.Err() != nil {
			return target{}, ctx.Err()
		}
	}
	t := r.round[0]
	r.round = r.round[1:]
	return t, ctx.Err()
}

// pause is short while a session can be saved, and then grows with the outage:
// thousands of clients would keep the servers from electing a leader. It has
// jitter, so that clients that lost a server together do not return together.
func (r *rotation) pause() time.Duration {
	mean := roundPause
	if r.tried {
		if lasts := r.outage.lasts(r.began); !time.Now().Before(r.quick) {
			mean = min(max(mean, lasts/pausesPerOutage), longestPause)
		}
	}
	return mean/2 + time.Duration(r.random.Int64N(int64(mean)+1))
}

// resolve returns every address of every server, shuffled, but the last one
// connected to at the end: its server may have gone.
//
// It looks up all names at once. While a name server does not answer, the round
// has the other addresses, and those known from an earlier lookup.
func (r *rotation) resolve(ctx context.Context) (round []target) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		of      int
		targets []target
	}
	var lookups int
	some := false
	results, all := make(chan result, len(r.servers)), make([][]target, len(r.servers))
	for i, server := range r.servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil || dial.IsAddress(host) {
			all[i], some = []target{{addr: server, host: host, err: err}}, true
			continue
		}
		lookups++
		go func() { results <- result{i, r.lookup(ctx, server, host, port)} }()
	}
	for late := time.After(lookupPatience); lookups > 0 && ctx.Err() == nil; {
		select {
		case found := <-results:
			if !some {
				late = time.After(lookupPatience)
			}
			all[found.of], some = found.targets, true
			lookups--
		case <-late:
			if some { // else there is nothing else to do
				lookups = 0
			} else {
				r.waits(noAnswerYet(strings.Join(r.servers, ",")))
			}
		case <-ctx.Done():
		}
	}
	round = slices.Concat(all...) // in the order of the servers, whichever came first
	r.random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
	for i, t := range round {
		if t.addr == r.last {
			round = append(append(round[:i:i], round[i+1:]...), t)
			break
		}
	}
	return round
}

// noAnswerYet is the error of a name that is being looked up.
func noAnswerYet(name string) error {
	return &net.DNSError{Err: "no answer yet from a name server", Name: name, IsTimeout: true}
}

func (r *rotation) lookup(ctx context.Context, server, host, port string) (found []target) {
	addrs, err := r.names.Lookup(ctx, host)
	if err != nil {
		return []target{{addr: server, host: host, err: err}}
	}
	for _, addr := range addrs {
		found = append(found, target{addr: net.JoinHostPort(addr, port), host: host})
	}
	return found
}
