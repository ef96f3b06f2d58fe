package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
)

// etcdHarness starts an etcd with the default election timeout of a second.
// Leases are then granted for at least two seconds, so a TTL of one second is
// one that only the server knows to be too short.
func etcdHarness(t *testing.T, nodes int, query string) coordinatortest.Harness {
	o := etcdserver.Options{Nodes: nodes, Args: []string{"--heartbeat-interval=100", "--election-timeout=1000"}}
	e := etcdLevers{servers.NewEtcd(t, o), query}
	return coordinatortest.Harness{
		Start: e.start, TTL: 3 * time.Second, Patience: 20 * time.Second, Attempts: 3,
		OddTTL: time.Second, GrantedTTL: 2 * time.Second, Lacks: elsewhere,
	}
}

var elsewhere = map[coordinatortest.Lever]string{
	coordinatortest.Stall:  "package virtualetcd has such a member; here a disk would have to hang",
	coordinatortest.Events: "package virtualetcd counts them",
}

// etcdLevers does what an operator or a fault does to the service.
type etcdLevers struct {
	*etcdserver.Cluster
	query string // of the URL
}

func (e etcdLevers) start(t *testing.T) coordinatortest.Service {
	return coordinatortest.Service{
		Connect:  func() (coordinatortest.Client, error) { return e.connect(t) },
		Expire:   e.expire,
		Remove:   e.remove,
		Restart:  e.restart,
		Compact:  e.compact,
		Watches:  func(ctx context.Context) (int, error) { return atRest(ctx, e.watches) },
		Sessions: e.sessions,
	}
}

func (e etcdLevers) connect(t *testing.T) (coordinatortest.Client, error) {
	link := netproxy.NewNetwork(t, e.Endpoints())
	d, err := etcd.Open(&url.URL{Scheme: "etcd", Host: strings.Join(link.Addrs(), ","), Path: "/conformance", RawQuery: e.query})
	c := coordinatortest.Client{Driver: d, Link: link}
	if e.query == "" {
		c.External = func(context.Context) (driver.Driver, error) { return external(t, link.Addrs()) }
	}
	return c, err
}

// external makes a driver on the lease of a concurrency.Session whose own
// keep-alives are never sent.
func external(t *testing.T, addrs []string) (driver.Driver, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = client.Close() })
	client.Lease = unkept{client.Lease}
	owner, err := concurrency.NewSession(client, concurrency.WithTTL(3))
	if err != nil {
		return nil, err
	}
	return etcd.FromSession(owner, etcd.Namespace("conformance"))
}

type unkept struct{ clientv3.Lease }

func (unkept) KeepAlive(
	ctx context.Context, _ clientv3.LeaseID,
) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	kept := make(chan *clientv3.LeaseKeepAliveResponse)
	context.AfterFunc(ctx, func() { close(kept) })
	return kept, nil
}

// as makes a client for one request. A client that was kept would have to
// reconnect after each restart.
func (e etcdLevers) as(do func(*clientv3.Client) error) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

func (e etcdLevers) expire(ctx context.Context, s driver.Session) error {
	lease, err := strconv.ParseUint(s.ID(), 16, 64)
	if err != nil {
		return err
	}
	return e.as(func(c *clientv3.Client) error {
		_, err := c.Revoke(ctx, clientv3.LeaseID(lease))
		return err
	})
}

// remove deletes the key of a place, whose handle is "key@revision".
func (e etcdLevers) remove(ctx context.Context, _ driver.Queue, p driver.Place) error {
	key := p.Key[:max(0, strings.LastIndexByte(p.Key, '@'))]
	return e.as(func(c *clientv3.Client) error {
		resp, err := c.Delete(ctx, key)
		if err == nil && resp.Deleted != 1 {
			err = fmt.Errorf("key %q does not exist", key)
		}
		return err
	})
}

func (e etcdLevers) restart(ctx context.Context) error {
	var members []*child.Server
	for _, n := range e.Nodes() {
		members = append(members, n.Server)
	}
	return restart(ctx, members)
}

func (e etcdLevers) compact(ctx context.Context) error {
	return e.as(func(c *clientv3.Client) error {
		now, err := c.Get(ctx, "/")
		if err == nil {
			_, err = c.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
		}
		return err
	})
}

// sessions counts the leases at one member, after a linearizable read there:
// the member then knows of all earlier grants and revocations.
func (e etcdLevers) sessions(ctx context.Context) (n int, err error) {
	c, err := e.Client(e.Node(0))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := c.Get(ctx, "/"); err != nil {
		return 0, err
	}
	resp, err := c.Leases(ctx)
	if err != nil {
		return 0, err
	}
	return len(resp.Leases), nil
}

// watches sums the members' gauges of open watches. Each session has one for
// itself.
func (e etcdLevers) watches(ctx context.Context) (int, error) {
	sum := 0
	for _, addr := range e.Endpoints() {
		n, err := gauge(ctx, addr, "etcd_debugging_mvcc_watcher_total")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// gauge reads one metric of a member.
func gauge(ctx context.Context, addr, name string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Close = true // the member may be restarted before the next request
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			return int(n), err
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", addr, name)
}
