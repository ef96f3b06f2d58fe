package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/integration/internal/zkwire"
)

// zooKeeperHarness starts a ZooKeeper that removes empty containers
// continuously instead of once a minute, so that a queue vanishes, and its
// sequence restarts, whenever a case leaves it empty for a moment.
func zooKeeperHarness(t *testing.T, nodes int, query string) coordinatortest.Harness {
	const longest = 40 * time.Second // granted for any longer TTL
	z := zooKeeperLevers{servers.NewZooKeeper(t, zkserver.Options{
		Nodes: nodes, MaxSessionTimeout: longest,
		JVM: []string{"-Dznode.container.checkIntervalMs=5", "-Dznode.container.maxPerMinute=1000000"},
	}), query}
	return coordinatortest.Harness{
		Start: z.start, TTL: 4 * time.Second, Patience: 20 * time.Second, Attempts: 3,
		OddTTL: longest + 20*time.Second, GrantedTTL: longest,
		Lacks: map[coordinatortest.Lever]string{
			coordinatortest.Compact:  "ZooKeeper keeps no history for clients that could be compacted",
			coordinatortest.Stall:    "a server that renews a session by a sync follows the others",
			coordinatortest.External: "the driver has no external sessions",
		},
	}
}

// zooKeeperLevers does what an operator or a fault does to the service.
type zooKeeperLevers struct {
	*zkserver.Cluster
	query string // of the URL
}

func (z zooKeeperLevers) start(t *testing.T) coordinatortest.Service {
	var mu sync.Mutex
	var clients []*zkwire.Counter // of the case
	return coordinatortest.Service{
		Connect: func() (coordinatortest.Client, error) {
			mu.Lock()
			defer mu.Unlock()
			counter := zkwire.NewCounter()
			clients = append(clients, counter)
			return z.connect(t, counter)
		},
		Expire: func(ctx context.Context, s driver.Session) error {
			mu.Lock()
			defer mu.Unlock()
			return z.expire(ctx, clients, s)
		},
		Remove:   z.remove,
		Restart:  z.restart,
		Watches:  func(ctx context.Context) (int, error) { return atRest(ctx, z.watches) },
		Sessions: z.sessions,
	}
}

func (z zooKeeperLevers) connect(t *testing.T, counter *zkwire.Counter) (coordinatortest.Client, error) {
	link := netproxy.NewNetwork(t, z.Endpoints(), netproxy.WithSniffer(counter.Sniffer))
	d, err := zookeeper.Open(&url.URL{Scheme: "zk", Host: strings.Join(link.Addrs(), ","), Path: "/" + chroot, RawQuery: z.query})
	events := func() int { return counter.Snapshot().Notifications }
	return coordinatortest.Client{Driver: d, Link: link, Events: events}, err
}

const chroot = "conformance"

// expire reads the session's password from its client's traffic, and ends the
// session over another connection. That closes the owner's connection, and the
// owner may reclaim the session in between. The server then closes the other
// connection, whether or not it ended the session; a second attempt tells.
func (z zooKeeperLevers) expire(ctx context.Context, clients []*zkwire.Counter, s driver.Session) error {
	id, err := strconv.ParseUint(s.ID(), 16, 64)
	if err != nil {
		return err
	}
	for _, counter := range clients {
		for _, known := range counter.Sessions() {
			if known.ID == int64(id) {
				return kill(ctx, known, z.Endpoints()[0])
			}
		}
	}
	return fmt.Errorf("no client was granted session %s", s.ID())
}

func kill(ctx context.Context, s zkwire.Session, addr string) error {
	err := s.Kill(ctx, addr)
	for again := 0; err != nil && again < 10; again++ {
		if err = s.Kill(ctx, addr); errors.Is(err, zkwire.ErrSessionGone) {
			return nil // by an earlier attempt
		}
	}
	return err
}

// remove deletes the node of a place. It closes the session that it uses, so
// that the session is not counted.
func (z zooKeeperLevers) remove(_ context.Context, queue driver.Queue, p driver.Place) error {
	c := zooKeeperConn(z.Endpoints()...)
	defer c.Close()
	root := "/" + chroot + "/~/" // of Baton's own layout
	if z.query != "" {
		root = "/" + chroot + "/"
	}
	return c.Delete(root+string(queue)+"/"+p.Key, -1)
}

func (z zooKeeperLevers) restart(ctx context.Context) error {
	var members []*child.Server
	for _, n := range z.Nodes() {
		members = append(members, n.Server)
	}
	return restart(ctx, members)
}

// watches sums over the members: a session's watches are at the member to which
// it is connected.
func (z zooKeeperLevers) watches(ctx context.Context) (int, error) {
	sum := 0
	for _, addr := range z.Endpoints() {
		sessions, err := zkserver.Watches(ctx, addr)
		if err != nil {
			return 0, err
		}
		for _, paths := range sessions {
			sum += len(paths)
		}
	}
	return sum, nil
}

// sessions asks the leader, which knows all sessions.
func (z zooKeeperLevers) sessions(ctx context.Context) (int, error) {
	leader, err := z.Leader(ctx)
	if err != nil {
		return 0, err
	}
	dump, err := zkserver.Sessions(ctx, leader.Endpoint())
	return len(dump.Sessions), err
}

// zooKeeperConn is a separate connection without a log.
func zooKeeperConn(addrs ...string) *zk.Conn {
	c, _, err := zk.Connect(addrs, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		panic(err) // only without addresses
	}
	return c
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
