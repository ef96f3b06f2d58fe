package virtualetcd

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/internal/dial"
)

// Driver makes a driver that makes its own client, as that of a URL does.
func (l *Link) Driver(namespace, query string) (driver.Driver, error) {
	return l.DriverOf(nil, namespace, query)
}

// DriverOf is Driver with credentials.
func (l *Link) DriverOf(user *url.Userinfo, namespace, query string) (driver.Driver, error) {
	return etcd.Open(&url.URL{
		User: user, Scheme: "etcd", Host: strings.Join(l.Endpoints(), ","), Path: "/" + namespace, RawQuery: query,
	})
}

// Client makes a client of etcd's own library. With a user it authenticates,
// with the user's name as password.
func (l *Link) Client(user string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: l.Endpoints(), Logger: zap.NewNop(), Username: user, Password: user,
		DialOptions: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(new(dial.Dialer).TCP),
		},
	})
}

// Lease is a lease of a concurrency.Session whose own keep-alives are never
// sent.
type Lease struct {
	client *clientv3.Client
	owner  *concurrency.Session
}

// Grant grants a lease.
func Grant(ctx context.Context, c *clientv3.Client, ttl time.Duration) (*Lease, error) {
	c.Lease = &unkept{c.Lease}
	resp, err := c.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return nil, err
	}
	owner, err := concurrency.NewSession(c, concurrency.WithLease(resp.ID))
	if err != nil {
		return nil, err
	}
	return &Lease{c, owner}, nil
}

// Driver makes a driver on the lease.
func (l *Lease) Driver(namespace string) (driver.Driver, error) {
	return etcd.FromSession(l.owner, etcd.Namespace(namespace))
}

// Open opens the one session of the lease's driver.
func (l *Lease) Open(ctx context.Context, namespace string, ttl time.Duration) (driver.Session, error) {
	d, err := l.Driver(namespace)
	if err != nil {
		return nil, err
	}
	return d.Open(ctx, ttl)
}

// Revoke ends the lease. It is no error if it has ended.
func (l *Lease) Revoke(ctx context.Context) error {
	l.owner.Orphan()
	_, err := l.client.Revoke(ctx, l.owner.Lease())
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

type unkept struct{ clientv3.Lease }

func (unkept) KeepAlive(
	ctx context.Context, _ clientv3.LeaseID,
) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	kept := make(chan *clientv3.LeaseKeepAliveResponse)
	context.AfterFunc(ctx, func() { close(kept) })
	return kept, nil
}
