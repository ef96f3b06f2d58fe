package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
)

// Option sets a detail of a driver that is made from a client or a session.
type Option func(*options) error

type options struct {
	namespace string
	shared    bool
}

// Namespace puts all keys of the driver below the given path, such as
// "apps/orders". Drivers of different namespaces have nothing in common. The
// default is the empty namespace, as in a URL without a path.
func Namespace(path string) Option {
	return func(o *options) (err error) {
		o.namespace, err = driver.Namespace(path)
		return err
	}
}

func apply(opts []Option) (o options, err error) {
	for _, opt := range opts {
		if opt == nil {
			return o, invalid("nil option")
		}
		if err := opt(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// FromClient makes a driver on a client that exists already, and that may be one of
// package clientv3/namespace. The client stays the caller's: closing the driver
// does not close it. It is an error if c is nil or an option breaks a rule.
func FromClient(c *clientv3.Client, opts ...Option) (driver.Driver, error) {
	if c == nil {
		return nil, invalid("nil client")
	}
	o, err := apply(opts)
	if err != nil {
		return nil, err
	}
	return newDriver(o, given{c}), nil
}

// FromSession makes a driver that binds Baton's entries to the lease of s. Keeping
// and revoking the lease stay with s, whose end is the end of Baton's session.
//
// The driver has one session to give: Open returns driver.ErrInvalid unless it is asked for
// exactly the TTL of the lease, and driver.ErrSessionLost after the lease was
// adopted once, even when that session was closed. Closing the session
// removes Baton's entries and leaves the lease.
func FromSession(s *concurrency.Session, opts ...Option) (driver.Driver, error) {
	if s == nil {
		return nil, invalid("nil session")
	}
	o, err := apply(opts)
	if err != nil {
		return nil, err
	}
	if o.shared {
		return nil, invalid("layout %s needs leases that the driver keeps by itself: use FromClient", Concurrency)
	}
	d := newService(o.namespace, given{s.Client()})
	d.lease = newBorrowed(s)
	return d, nil
}

// service is etcd as one client sees it; it implements driver.Driver.
type service struct {
	clients   clients
	namespace string
	keys      layout
	streams   streams
	lease     *borrowed // nil unless made by FromSession
}

func newDriver(o options, c clients) driver.Driver {
	s := newService(o.namespace, c)
	if o.shared {
		return newHost(s)
	}
	return s
}

func newService(namespace string, c clients) *service {
	return &service{clients: c, namespace: namespace, keys: newLayout(namespace)}
}

// String names the service without secrets: "etcd://h1:2379,h2:2379/namespace".
func (d *service) String() string { return describe(d.clients.endpoints(), d.namespace) }

// Close closes the client if the driver made it.
func (d *service) Close(ctx context.Context) error { return d.clients.close(ctx) }

// Open starts a session: see driver.Driver. It takes a grant and a transaction.
func (d *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if ttl < time.Second || ttl%time.Second != 0 || ttl/time.Second > clientv3.MaxLeaseTTL {
		return nil, invalid("TTL %v: etcd takes whole seconds, from 1s to %v",
			ttl, clientv3.MaxLeaseTTL*time.Second)
	}
	c, err := d.clients.get(ctx)
	if err != nil {
		return nil, d.clients.explain(err)
	}
	open := d.grant
	if d.lease != nil {
		open = d.adopt
	}
	s, err := open(ctx, c, ttl)
	if err != nil {
		return nil, d.clients.explain(err)
	}
	return s, nil
}

// grant opens a session on a lease of its own. If it fails after the grant,
// the lease is revoked if ctx still allows; its TTL ends it otherwise (O4).
func (d *service) grant(ctx context.Context, c *clientv3.Client, ttl time.Duration) (*session, error) {
	secs := int64(ttl / time.Second)
	lease, err := c.Grant(d.clients.lead(ctx), secs)
	if err != nil {
		return nil, wrap(ctx, err)
	}
	if lease.TTL != secs {
		// The server's floor was applied. Going on with its value would be a session
		// that outlives its holders by more than the caller agreed to.
		_, _ = c.Revoke(d.clients.lead(ctx), lease.ID)
		return nil, invalid("asked for a TTL of %v, etcd grants %v (its floor is 1.5 election timeouts)",
			ttl, time.Duration(lease.TTL)*time.Second)
	}
	s := newSession(d, c, lease.ID, ttl)
	if err := s.begin(ctx, newNonce()); err != nil {
		_, _ = c.Revoke(d.clients.lead(ctx), lease.ID)
		return nil, err
	}
	return s, nil
}

// withLeader makes a member that knows no leader refuse at once with ErrNoLeader. Without it a
// write hangs there for the server's own timeout of 5 s and more, and a
// serializable read goes on answering from the past; refused, the next attempt goes
// to another member.
//
// Renew must not ask for that: KeepAliveOnce repeats at once what is refused so.
//
// A client that the driver made asks for it by itself, see dialer.intercept: added to what clientv3 has put there by then it
// costs less. So requests call lead of their clients, which knows.
func withLeader(ctx context.Context) context.Context {
	if _, has := metadata.FromOutgoingContext(ctx); has {
		return clientv3.WithRequireLeader(ctx)
	}
	return metadata.NewOutgoingContext(ctx, requireLeader) // the same with fewer copies
}

var requireLeader = metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
