package dial

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookupTimeout bounds one lookup. The system's resolver waits five seconds
	// for a name server before it asks the next, once per search domain.
	lookupTimeout = time.Minute
	// lookupPatience is how long a caller waits for a lookup if it could use
	// the addresses of an earlier one.
	lookupPatience = 200 * time.Millisecond
)

// resolver resolves a name to addresses.
type resolver = func(ctx context.Context, host string) ([]string, error)

// resolves is the resolver of the process, see ReplaceNames.
var resolves atomic.Pointer[resolver]

func init() { ReplaceNames(net.DefaultResolver.LookupHost) }

// ReplaceNames lets resolve answer all lookups of this process, until restore.
// It is for tests in virtual time, like [Replace].
func ReplaceNames(resolve func(ctx context.Context, host string) ([]string, error)) (restore func()) {
	before := resolves.Swap(&resolve)
	return func() { resolves.Store(before) }
}

// Names resolves host names. A lookup runs in the background and outlives the
// call that began it: a caller with little time does not begin anew at a name
// server that does not answer. Until it is done, and if it fails, the latest
// known addresses are used. Its zero value is ready for use; it is safe for
// concurrent use.
type Names struct {
	// Resolve resolves a name. Nil is that of the process, which is
	// net.DefaultResolver's unless a test has replaced it.
	Resolve resolver

	mu     sync.Mutex
	hosts  map[string]*host
	closed bool
}

// Close ends the lookups under way, without waiting for that. Later ones fail.
func (n *Names) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, h := range n.hosts {
		if h.under != nil {
			h.under.end()
		}
	}
}

type host struct {
	known []string // of the latest lookup that succeeded
	under *lookup  // the lookup under way, or nil
}

type lookup struct {
	end   context.CancelFunc
	done  chan struct{} // closed when addrs and err are set
	addrs []string
	err   error
}

// Lookup returns the addresses of a host: at least one if there is no error.
func (n *Names) Lookup(ctx context.Context, name string) ([]string, error) {
	l, known := n.begin(name)
	var patience <-chan time.Time
	if len(known) > 0 {
		patience = time.After(lookupPatience)
	}
	select {
	case <-l.done:
		if len(l.addrs) == 0 && len(known) > 0 {
			return known, nil
		}
		return l.addrs, l.err
	case <-patience:
		return known, nil
	case <-ctx.Done():
		return nil, &net.DNSError{Err: "no answer yet", Name: name, IsTimeout: true, UnwrapErr: context.Cause(ctx)}
	}
}

// begin returns the lookup of a host under way, which it begins if there is
// none, and the addresses known before.
func (n *Names) begin(name string) (l *lookup, known []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = make(map[string]*host)
	}
	h := n.hosts[name]
	if h == nil {
		h = new(host)
		n.hosts[name] = h
	}
	if h.under == nil {
		ctx, end := context.WithTimeout(context.Background(), lookupTimeout)
		if n.closed {
			end()
		}
		h.under = &lookup{end: end, done: make(chan struct{})}
		go n.run(ctx, name, h, h.under)
	}
	return h.under, h.known
}

func (n *Names) run(ctx context.Context, name string, h *host, l *lookup) {
	defer l.end()
	resolve := n.Resolve
	if resolve == nil {
		resolve = *resolves.Load()
	}
	l.addrs, l.err = resolve(ctx, name)
	if l.err == nil && len(l.addrs) == 0 {
		l.err = &net.DNSError{Err: "no addresses", Name: name}
	}
	n.mu.Lock()
	if h.under = nil; l.err == nil {
		h.known = l.addrs
	}
	n.mu.Unlock()
	close(l.done)
}
