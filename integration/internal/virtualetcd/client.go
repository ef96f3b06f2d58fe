package virtualetcd

import (
	"context"
	"net"
	"net/url"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd"
)

// Driver makes a driver that makes its own client, as that of a URL does.
func (l *Link) Driver(namespace, query string) (driver.Driver, error) {
	return etcd.Open(&url.URL{
		Scheme: "etcd", Host: strings.Join(l.Endpoints(), ","), Path: "/" + namespace, RawQuery: query,
	})
}

// Client makes a client of etcd's own library. With a user it authenticates,
// with the user's name as password.
func (l *Link) Client(user string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: l.Endpoints(), Logger: zap.NewNop(), Username: user, Password: user,
		DialOptions: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return l.etcd.dial(ctx, "tcp", addr)
			}),
		},
	})
}

// External makes a driver on the lease of a concurrency.Session whose own
// keep-alives are never sent. c is the client of the lease.
func External(c *clientv3.Client, namespace string, ttl int) (driver.Driver, error) {
	c.Lease = unkept{c.Lease}
	owner, err := concurrency.NewSession(c, concurrency.WithTTL(ttl))
	if err != nil {
		return nil, err
	}
	return etcd.FromSession(owner, etcd.Namespace(namespace))
}

type unkept struct{ clientv3.Lease }

func (unkept) KeepAlive(
	ctx context.Context, _ clientv3.LeaseID,
) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	kept := make(chan *clientv3.LeaseKeepAliveResponse)
	context.AfterFunc(ctx, func() { close(kept) })
	return kept, nil
}
