package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// place is a running service on which cases are measured.
type place interface {
	// addrs are the addresses for clients.
	addrs() []string
	version() string
	// pids are the IDs of the servers' processes.
	pids() []int
	// watches counts the watches of all clients that are served without delay.
	watches(ctx context.Context) (int, error)
	// answered counts the messages that the servers sent to clients, by method
	// where the servers tell them apart.
	answered(ctx context.Context) (map[string]float64, error)
	// rest waits until watches that outlive their purpose for a moment have
	// ended.
	rest(ctx context.Context) error
	// refresh resets the service as far as possible: earlier measurements must
	// not affect later ones.
	refresh(ctx context.Context) error
	close()
}

// open starts the servers of a place: "etcd" or "zookeeper", with suffix "-3"
// for three nodes.
func open(ctx context.Context, name string) (place, error) {
	service, many, _ := strings.Cut(name, "-")
	nodes := 1
	if many != "" {
		nodes = 3
	}
	if service == "etcd" {
		return openEtcd(ctx, nodes)
	}
	return openZooKeeper(ctx, nodes)
}

// server is a node of either service.
type server interface {
	Endpoint() string
	PID() int
}

func pids[S server](nodes []S) (ids []int) {
	for _, n := range nodes {
		ids = append(ids, n.PID())
	}
	return ids
}

// total adds up the counts of all addresses.
func total(addrs []string, count func(addr string) (int, error)) (sum int, err error) {
	for _, addr := range addrs {
		n, err := count(addr)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

type etcdPlace struct {
	cluster *etcdserver.Cluster
	client  *clientv3.Client
	rested  int // watches at the last rest
}

func openEtcd(ctx context.Context, nodes int) (place, error) {
	cluster, err := etcdserver.Start(ctx, etcdserver.Options{Nodes: nodes})
	if err != nil {
		return nil, err
	}
	p := &etcdPlace{cluster: cluster}
	if p.client, err = cluster.Client(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *etcdPlace) addrs() []string { return p.cluster.Endpoints() }
func (p *etcdPlace) version() string { return p.cluster.Version() }

func (p *etcdPlace) pids() []int { return pids(p.cluster.Nodes()) }

// watches counts those of the synced group: the others start in the past and
// are served every 100 ms.
func (p *etcdPlace) watches(ctx context.Context) (int, error) {
	return total(p.cluster.Endpoints(), func(addr string) (int, error) {
		g, err := gauges(ctx, "http://"+addr+"/metrics", "etcd_debugging_mvcc_watcher_total", "etcd_debugging_mvcc_slow_watcher_total")
		if err != nil {
			return 0, err
		}
		return g[0] - g[1], nil
	})
}

// rest waits until there are no more watches than at the last rest, or for
// longer than Baton's watches outlive their waits: then the watches are
// permanent.
func (p *etcdPlace) rest(ctx context.Context) error {
	const pause, enough = 15 * time.Millisecond, 20
	for i := 0; ; i++ {
		n, err := p.watches(ctx)
		if err != nil {
			return err
		}
		if n <= p.rested || i == enough {
			p.rested = n
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refresh compacts all old revisions: those of one subject must not affect the
// next.
func (p *etcdPlace) refresh(ctx context.Context) error {
	r, err := p.client.Get(ctx, "x", clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if _, err = p.client.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical()); err != nil &&
		!strings.Contains(err.Error(), "has been compacted") { // no write since
		return err
	}
	return nil
}

func (p *etcdPlace) close() {
	if p.client != nil {
		_ = p.client.Close()
	}
	_ = p.cluster.Close()
}

// gauges reads numbers from a page of metrics.
func gauges(ctx context.Context, url string, names ...string) ([]int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	values, found := make([]int, len(names)), 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() { // to the end, so that the connection is reused
		name, text, _ := strings.Cut(lines.Text(), " ")
		if i := slices.Index(names, name); i >= 0 {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			values[i] = int(v)
			found++
		}
	}
	if err := lines.Err(); err != nil || found < len(names) {
		return nil, errors.Join(fmt.Errorf("bench: %d of %v at %s", found, names, url), err)
	}
	return values, nil
}

type zkPlace struct {
	cluster *zkserver.Cluster
}

func openZooKeeper(ctx context.Context, nodes int) (place, error) {
	cluster, err := zkserver.Start(ctx, zkserver.Options{Nodes: nodes, JVM: []string{
		// The server's own defaults, which the tests' servers change: the full
		// compiler, a large initial heap (otherwise garbage is collected a
		// hundred times a second), large log files, and a check for empty
		// containers once a minute.
		"-XX:TieredStopAtLevel=4", "-XX:ReservedCodeCacheSize=128m", "-Xms512m", "-Xmx512m",
		"-Dzookeeper.preAllocSize=65536", "-Dznode.container.checkIntervalMs=60000",
	}})
	if err != nil {
		return nil, err
	}
	return &zkPlace{cluster}, nil
}

func (p *zkPlace) addrs() []string { return p.cluster.Endpoints() }
func (p *zkPlace) version() string { return p.cluster.Version() }

func (p *zkPlace) pids() []int { return pids(p.cluster.Nodes()) }

func (p *zkPlace) watches(ctx context.Context) (int, error) {
	return total(p.cluster.Endpoints(), func(addr string) (int, error) {
		m, err := zkserver.Monitor(ctx, addr)
		return int(m["watch_count"]), err
	})
}

// rest does nothing: no watches outlive their purpose.
func (p *zkPlace) rest(context.Context) error { return nil }

// refresh does nothing: ZooKeeper keeps no history in memory.
func (p *zkPlace) refresh(context.Context) error { return nil }

func (p *zkPlace) close() { _ = p.cluster.Close() }
