package zkconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/baton-go/baton/internal/dial"
)

const (
	roundPause    = 100 * time.Millisecond // mean minimum time of a round of all servers
	lookupTimeout = time.Second            // for one name
)

// target is one server to dial.
type target struct {
	addr string // IP address and port, or the configured server if it did not resolve
	host string // the configured name, for the certificate check
}

// connect connects to a server, with TLS if so configured.
func (c *Config) connect(ctx context.Context, t target) (net.Conn, error) {
	tcp := c.Dial
	if tcp == nil {
		tcp = dial.TCP
	}
	conn, err := tcp(ctx, t.addr)
	if err != nil || c.TLS == nil {
		return conn, err
	}
	conf := c.TLS
	if conf.ServerName == "" {
		conf = conf.Clone()
		conf.ServerName = t.host
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // without TLS's close alert
		return nil, fmt.Errorf("%s: TLS handshake failed: %w", t.addr, err)
	}
	return secure, nil
}

// rotation yields servers to try, in rounds. Each round resolves the names
// anew, since addresses change in container clusters, and shuffles, so that
// clients do not all move to one server. It is used by one goroutine at a time.
type rotation struct {
	servers []string
	lookup  func(ctx context.Context, host string) ([]string, error)

	round []target  // the rest of this round
	began time.Time // when this round began
}

func newRotation(servers []string) *rotation {
	return &rotation{servers: servers, lookup: net.DefaultResolver.LookupHost}
}

// next returns the next server. It fails only when ctx ends.
//
// The first servers of a round are tried at once. A new round begins no sooner
// than the pause after the last one began, so that a server that accepts and
// then hangs up is not dialled in a tight loop.
func (r *rotation) next(ctx context.Context) (target, error) {
	if len(r.round) == 0 {
		// Jitter, so that clients that lost a server together do not return
		// together.
		spread := roundPause/2 + rand.N(roundPause+1)
		select {
		case <-time.After(spread - time.Since(r.began)):
		case <-ctx.Done():
			return target{}, ctx.Err()
		}
		r.began = time.Now()
		r.round = r.resolve(ctx)
	}
	t := r.round[0]
	r.round = r.round[1:]
	return t, ctx.Err()
}

// resolve returns every address of every server, shuffled.
func (r *rotation) resolve(ctx context.Context) []target {
	var round []target
	for _, server := range r.servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			round = append(round, target{server, server}) // dialling it reports what is wrong
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, lookupTimeout)
		addrs, err := r.lookup(bounded, host)
		cancel()
		if err != nil || len(addrs) == 0 {
			addrs = []string{host}
		}
		for _, addr := range addrs {
			round = append(round, target{net.JoinHostPort(addr, port), host})
		}
	}
	rand.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
	return round
}
