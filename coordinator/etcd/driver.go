package etcd

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/batch"
	"github.com/baton-go/baton/coordinator/etcd/internal/foreign"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
	"github.com/baton-go/baton/coordinator/etcd/internal/watch"
)

// Option configures a driver made from a client or a session.
type Option func(*options) error

type options struct {
	namespace string
	shared    bool // the layout is Concurrency
}

// The layouts of queues.
const (
	// Native is Baton's own layout.
	Native = "native"
	// Concurrency is that of etcd's package concurrency.
	Concurrency = foreign.Concurrency
)

// Layout selects the layout of queues: [Native], the default, or [Concurrency].
// Under Concurrency the other client's prefix, or lock name, is the name in
// Baton: concurrency.NewMutex(s, "/locks/orders"), etcdctl lock /locks/orders
// and mutex.New(c, "/locks/orders") exclude each other. A namespace and a "/"
// are put before it. The package's comment says how such queues differ.
func Layout(name string) Option {
	return func(o *options) error {
		if name != Native && name != Concurrency {
			return answer.Invalid("layout %q; want %s or %s", name, Native, Concurrency)
		}
		o.shared = name == Concurrency
		return nil
	}
}

// Namespace puts all keys of the driver below the given path, such as
// "apps/orders". Drivers of different namespaces share nothing. The default is
// the empty namespace, as in a URL without a path.
func Namespace(path string) Option {
	return func(o *options) (err error) {
		o.namespace, err = driver.Namespace(path)
		return err
	}
}

func apply(opts []Option) (o options, err error) {
	for _, opt := range opts {
		if opt == nil {
			return o, answer.Invalid("nil option")
		}
		if err := opt(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// FromClient makes a driver on an existing client, which may be one of package
// clientv3/namespace. The caller still owns the client: closing the driver does
// not close it. When the caller closes it, Baton's session ends, and further
// calls return driver.ErrClosed. It is an error if c is nil or an option breaks
// a rule.
func FromClient(c *clientv3.Client, opts ...Option) (driver.Driver, error) {
	if c == nil {
		return nil, answer.Invalid("nil client")
	}
	o, err := apply(opts)
	if err != nil {
		return nil, err
	}
	return newDriver(o, newGiven(c)), nil
}

// FromSession makes a driver that binds Baton's entries to the lease of s. s
// keeps and revokes the lease, and the end of s ends Baton's session. Baton
// renews the lease too, first in Open, since it does not know when s did.
//
// The driver has one session: Open returns driver.ErrInvalid unless it is asked
// for exactly the TTL of the lease, and driver.ErrSessionLost after an Open has
// succeeded, even if that session was closed. Closing the session removes
// Baton's entries and keeps the lease. If that fails, it goes on in the
// background until it succeeds or s ends.
func FromSession(s *concurrency.Session, opts ...Option) (driver.Driver, error) {
	if s == nil {
		return nil, answer.Invalid("nil session")
	}
	o, err := apply(opts)
	if err != nil {
		return nil, err
	}
	if o.shared {
		return nil, answer.Invalid("layout %s needs leases of the driver: "+
			"use FromClient", Concurrency)
	}
	service := newService(o.namespace, newGiven(s.Client()))
	return &externalDriver{service: service, owner: s, nonce: lease.NewNonce(), lock: newLock()}, nil
}

func newDriver(o options, c *source) driver.Driver {
	s := newService(o.namespace, c)
	if o.shared {
		return foreign.New(s, o.namespace)
	}
	return native{s}
}

// native is a driver with Baton's own layout.
type native struct{ *service }

// Open starts a session. It takes a grant and a transaction.
func (d native) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Begin(ctx, d.keys, ttl)
	if err != nil {
		return nil, err
	}
	return d.session(s), nil
}

// service is etcd as one client sees it, in any layout of queues.
type service struct {
	source    *source
	namespace string
	keys      keys.Layout
	streams   watch.Streams
	silence   lease.Silence
	cluster   atomic.Uint64 // of the latest session
}

func newService(namespace string, c *source) *service {
	return &service{source: c, namespace: namespace, keys: keys.New(namespace)}
}

// String names the service without secrets: "etcd://h1:2379,h2:2379/namespace".
func (d *service) String() string { return describe(d.source.endpoints(), d.namespace) }

func (d *service) Close(ctx context.Context) error { return d.source.close(ctx) }

func (d *service) session(s *lease.Session) *session {
	own := &session{Session: s, keys: d.keys, memory: newMemory()}
	if d.source.given == nil {
		own.batcher = batch.New(s.Conn.Client)
	}
	return own
}

// conn is the client for a session of the given TTL.
func (d *service) conn(ctx context.Context, ttl time.Duration) (lease.Conn, error) {
	if ttl < time.Second || ttl%time.Second != 0 || ttl/time.Second > clientv3.MaxLeaseTTL {
		return lease.Conn{}, answer.Invalid("TTL %v: etcd takes whole seconds, from 1s to %v",
			ttl, clientv3.MaxLeaseTTL*time.Second)
	}
	c, err := d.source.get(ctx)
	if err != nil {
		return lease.Conn{}, d.source.explain(err)
	}
	return lease.Conn{
		Client: c, Lead: d.source.lead, Streams: &d.streams, KeepAlive: d.source.keepAlive(c),
		Several: len(c.Endpoints()) > 1, TTL: ttl, Silence: &d.silence,
		Any: d.keys.Sentinel(0, ""), Go: d.source.late.start,
	}, nil
}

// longestLate is how long an opening goes on without its caller.
const longestLate = 500 * time.Millisecond

// Begin starts a session on a lease of its own. If ctx ends first, most likely
// the answer is a round trip away. So the opening goes on in the background,
// and ends the session that no caller waits for. Without an answer by
// longestLate the TTL ends what was made (O4).
func (d *service) Begin(
	ctx context.Context, layout lease.Layout, ttl time.Duration,
) (*lease.Session, error) {
	conn, err := d.conn(ctx, ttl)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, d.source.explain(context.Cause(ctx))
	}
	going, stop := context.WithCancel(context.WithoutCancel(ctx))
	var s *lease.Session
	done, left := make(chan error), make(chan struct{})
	started := conn.Go(func() {
		defer stop()
		var err error
		s, err = d.begin(going, conn, layout)
		select {
		case done <- err:
		case <-left:
			if err == nil {
				_ = s.Close(going)
			}
		}
	})
	if !started { // the driver was closed meanwhile
		stop()
		return nil, errDriverClosed
	}
	select {
	case err := <-done:
		return s, err
	case <-ctx.Done():
	}
	if !conn.Ready() { // nothing is under way, and the error tells why
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return s, err
		}
	} else {
		close(left)
		time.AfterFunc(longestLate, stop)
	}
	return nil, d.source.explain(conn.Failed(ctx, ctx.Err()))
}

// begin is Begin with a context that does not end with its caller. If it fails
// after the grant, it revokes the lease if ctx still allows.
func (d *service) begin(
	ctx context.Context, conn lease.Conn, layout lease.Layout,
) (*lease.Session, error) {
	id, err := conn.Grant(ctx)
	if err != nil {
		return nil, d.source.explain(err)
	}
	s, err := lease.Begin(ctx, conn, layout, id, d.keys.Sentinel(id, lease.NewNonce()))
	if err != nil {
		_ = conn.Revoke(ctx, id)
		if errors.Is(err, driver.ErrSessionLost) { // the lease has ended, or a member does not know it
			err = cmp.Or(d.oneCluster(ctx, conn.Client), driver.Wrap(driver.ErrUnavailable, errEarly))
		}
		return nil, d.source.explain(err)
	}
	before := d.cluster.Swap(s.Cluster)
	if before == 0 || before == s.Cluster {
		return s, nil
	}
	if err := d.oneCluster(ctx, conn.Client); err != nil { // else it was made anew
		_ = s.Close(ctx)
		return nil, err
	}
	return s, nil
}

// errEarly is no ErrSessionLost: there was no session, and the next Open gets
// another lease (O3).
var errEarly = errors.New("etcd: the lease ended before its session began")

// session implements driver.Session with Baton's own layout.
type session struct {
	*lease.Session
	keys    keys.Layout
	memory  memory
	batcher *batch.Batcher // nil on an external client

	ownWatches ownWatches
}

// send sends one of the two requests of an uncontended lock.
func (s *session) send(
	ctx context.Context, queue driver.Queue, op clientv3.Op,
) (clientv3.OpResponse, error) {
	if s.batcher == nil {
		return s.Do(ctx, op)
	}
	return s.batcher.Send(ctx, queue, op)
}

// Capabilities are all but Revoker. For ReuseIDs see the package's comment.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Handoff: s, Converter: s, Writer: s, HeadWatcher: s, QueueWatcher: s, Operator: s,
		OwnWatched: true, ReuseIDs: true,
	}
}
