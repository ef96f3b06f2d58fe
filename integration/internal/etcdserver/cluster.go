package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/baton-go/baton/internal/freeport"
)

// startTimeout bounds one attempt to start a cluster. One node takes a third of
// a second, three about one; with Fsync on a slow disk it is dozens of writes
// of half a second.
const startTimeout = 2 * time.Minute

// With Fsync an election's votes and a leader's first entry wait for the disk.
// On a disk that takes half a second, an election would time out before a
// leader is elected.
const (
	fsyncHeartbeat = 200 * time.Millisecond
	fsyncElection  = 2 * time.Second
)

// Options describe a cluster. The zero value is one node.
type Options struct {
	// Nodes is 1 (also for 0) or 3; any odd number works.
	Nodes int
	// Fsync makes every write wait for the disk, as etcd 3.4 always does.
	// Without it data still survives kill -9, though not a power cut, and tests
	// do not depend on the disk's speed. With it elections take longer, and no
	// TTL below 3 s is granted.
	Fsync bool
	// Listen are further URLs for clients, of a single node:
	// "https://127.0.0.1:2379".
	Listen []string
	// Args are further arguments for every node:
	// "--quota-backend-bytes=200000".
	Args []string
	// Binary is the server's program; if empty, Binary builds it.
	Binary string
	// Dir is the parent of the data's directory; if empty, the default for
	// temporary files.
	Dir string
	// Hosts are the nodes' addresses, for nodes in network namespaces of their
	// own; empty for loopback.
	Hosts []string
	// Wrap changes the command of a node, from 0, before each start, for
	// example to run it in a namespace. It may be nil.
	Wrap func(node int, cmd *exec.Cmd)
}

// host returns the address of a node.
func (o Options) host(node int) string {
	if len(o.Hosts) == 0 {
		return "127.0.0.1"
	}
	return o.Hosts[node]
}

// Cluster is one or more etcd processes. All methods may be called
// concurrently.
type Cluster struct {
	nodes   []*Node
	dir     string
	ports   []int
	version string
}

// Start starts a cluster and waits until every node answers linearizable reads.
// On failure nothing is left behind.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	binary, err := o.binary(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := newCluster(binary, o)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (o Options) binary(ctx context.Context) (string, error) {
	if o.Binary != "" {
		return o.Binary, nil
	}
	return Binary(ctx)
}

func newCluster(binary string, o Options) (*Cluster, error) {
	count := max(1, o.Nodes)
	ports, err := freeport.Take(2 * count)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "baton-etcd-")
	if err != nil {
		freeport.Release(ports...)
		return nil, fmt.Errorf("etcdserver: %w", err)
	}
	c := &Cluster{dir: dir, ports: ports}
	heartbeat, election := Heartbeat, Election
	fsync := o.Fsync || !skipsFsync(binary)
	if fsync {
		heartbeat, election = fsyncHeartbeat, fsyncElection
	}
	args := append([]string{
		fmt.Sprintf("--heartbeat-interval=%d", heartbeat.Milliseconds()),
		fmt.Sprintf("--election-timeout=%d", election.Milliseconds()),
		"--log-level=warn",
		"--initial-cluster-state=new",
	}, o.Args...)
	if !fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	var members []string
	for i := range count {
		n := newNode(i, dir, freeport.On(o.host(i), ports[2*i]), freeport.On(o.host(i), ports[2*i+1]))
		n.wrap = o.Wrap
		members = append(members, n.Name()+"="+n.peerURL)
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		n.binary = binary
		n.args = append(n.arguments(o.Listen), append(args, "--initial-cluster="+strings.Join(members, ","))...)
	}
	return c, nil
}

// skipsFsync reports whether a server has the option that saves the waits for
// the disk. etcd 3.4 has not.
func skipsFsync(binary string) bool {
	out, err := exec.Command(binary, "--version").Output()
	return err != nil || !strings.HasPrefix(string(out), "etcd Version: 3.4.")
}

// start launches all nodes before it waits for any: none is ready without a
// quorum.
func (c *Cluster) start(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.Launch(); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := n.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return c.askVersion(ctx)
}

// askVersion retries until ctx ends: a server may stall at any time.
func (c *Cluster) askVersion(ctx context.Context) error {
	for {
		version, err := c.nodes[0].version(ctx)
		if err == nil {
			c.version = version
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("etcdserver: %s: version: %w", c.nodes[0].Name(), err)
		}
	}
}

// Endpoints returns the client addresses of all nodes, "127.0.0.1:port", in the
// order of Nodes.
func (c *Cluster) Endpoints() []string {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Endpoint())
	}
	return addrs
}

// Nodes returns the members.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node returns the i-th member, from 0.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Version returns the servers' version, such as "3.7.3".
func (c *Cluster) Version() string { return c.version }

// Client makes a client without a log, of the given nodes or of all. The caller
// closes it.
func (c *Cluster) Client(nodes ...*Node) (*clientv3.Client, error) {
	endpoints := c.Endpoints()
	if len(nodes) > 0 {
		endpoints = nil
		for _, n := range nodes {
			endpoints = append(endpoints, n.Endpoint())
		}
	}
	return NewClient(endpoints...)
}

// NewClient makes a client of the given addresses, without a log, for the
// tests' own requests. It notices a dead or paused server within three seconds.
// The caller closes it.
func NewClient(endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: time.Second,
		Logger:               zap.NewNop(),
	})
}

// Leader returns the node that leads, once the running nodes agree. It waits
// for the end of an election, and only briefly for paused or dead nodes.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, n := range c.nodes {
			if n.Running() && n.leads(ctx) {
				return n, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("etcdserver: no leader: %w", context.Cause(ctx))
		}
	}
}

// Follower returns some running node that does not lead.
func (c *Cluster) Follower(ctx context.Context) (*Node, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		if n != leader && n.Running() {
			return n, nil
		}
	}
	return nil, errors.New("etcdserver: no node but the leader is running")
}

// Log returns the end of every node's output.
func (c *Cluster) Log() string {
	var b strings.Builder
	for _, n := range c.nodes {
		fmt.Fprintf(&b, "--- etcd %s, process %d, running %v, %s\n%s\n", n.Name(), n.PID(), n.Running(), n.Endpoint(), n.Log())
	}
	return b.String()
}

// Close kills all nodes and deletes their files.
func (c *Cluster) Close() error {
	for _, n := range c.nodes {
		n.Kill()
	}
	freeport.Release(c.ports...)
	return os.RemoveAll(filepath.Clean(c.dir))
}
