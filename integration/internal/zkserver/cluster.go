// Package zkserver starts real ZooKeeper servers on loopback, one or three, as
// processes that a test can kill, pause and restart.
//
// ZooKeeper must be installed: an unpacked official archive at ZOOKEEPER_HOME,
// or Debian's package. Otherwise the error has the command that installs it.
//
// Proxies cannot cut peer links (election addresses are sent in messages); use
// network namespaces for that.
package zkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/baton-go/baton/internal/freeport"
)

// startTimeout bounds one attempt to start an ensemble. One node takes half a
// second, three about two.
const startTimeout = 2 * time.Minute

// Options describe an ensemble. The zero value is one node with short ticks.
type Options struct {
	// Nodes is 1 (also for 0) or 3; any odd number works.
	Nodes int
	// TickTime is 200 ms if it is zero. Sessions expire at multiples of it.
	TickTime time.Duration
	// MinSessionTimeout is 500 ms if it is zero; the server's own default is
	// two ticks. MaxSessionTimeout is 40 s if it is zero; the server's own
	// default is twenty ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// Fsync makes every write wait for the disk. Without it data still survives
	// kill -9, though not a power cut, and tests do not depend on the disk's
	// speed.
	Fsync bool
	// Config has further lines of zoo.cfg for every node, "name=value".
	Config []string
	// JVM has further arguments of java: "-Dzookeeper.…".
	JVM []string
	// Hosts are the nodes' addresses, for nodes in network namespaces of their
	// own; empty for loopback.
	Hosts []string
	// Wrap changes the command of a node, from 0, before each start, for
	// example to run it in a namespace. It may be nil.
	Wrap func(node int, cmd *exec.Cmd)
	// Quorum returns the address at which a node finds another node's quorum
	// port, addr, for example of a proxy that delays a follower. It may be nil.
	// (Such a link can be delayed, not cut: see the package comment.)
	Quorum func(from, to int, addr string) string
}

// host returns the address of a node.
func (o Options) host(node int) string {
	if len(o.Hosts) == 0 {
		return "127.0.0.1"
	}
	return o.Hosts[node]
}

// members returns the lines of zoo.cfg that name the servers, for one of them.
// ports has three ports for each server.
func (o Options) members(from int, ports []int) (lines []string) {
	if o.Nodes == 1 {
		return nil // a single server without such a line starts faster
	}
	for to := range o.Nodes {
		quorum := freeport.On(o.host(to), ports[3*to+1])
		if o.Quorum != nil && from != to {
			quorum = o.Quorum(from, to, quorum)
		}
		lines = append(lines, fmt.Sprintf("server.%d=%s:%d", to+1, quorum, ports[3*to+2]))
	}
	return lines
}

func (o Options) withDefaults() Options {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	o.Nodes = max(1, o.Nodes)
	or(&o.TickTime, 200*time.Millisecond)
	or(&o.MinSessionTimeout, 500*time.Millisecond)
	or(&o.MaxSessionTimeout, 40*time.Second)
	return o
}

// Cluster is one server or an ensemble. All methods may be called concurrently.
type Cluster struct {
	nodes   []*Node
	dir     string
	ports   []int
	version string
}

// Start starts a cluster and waits until every node serves. On failure nothing
// is left behind; ErrNotInstalled says that a program is missing.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	where, err := find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := newCluster(where, o.withDefaults())
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("%w (ZooKeeper from %s)", err, where.source)
	}
	return c, nil
}

func newCluster(where installation, o Options) (*Cluster, error) {
	ports, err := freeport.Take(3 * o.Nodes)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "baton-zookeeper-")
	if err != nil {
		freeport.Release(ports...)
		return nil, fmt.Errorf("zkserver: %w", err)
	}
	c := &Cluster{dir: dir, ports: ports}
	for i := range o.Nodes {
		n, err := newNode(where, o, dir, i, ports)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.nodes = append(c.nodes, n)
	}
	return c, nil
}

// start launches all nodes before it waits for any: none serves without a
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
	c.version = *c.nodes[0].release.Load() // set by AwaitReady
	return nil
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

// Version returns the servers' version, such as "3.8.0".
func (c *Cluster) Version() string { return c.version }

// Leader returns the node that leads, or the only one. It waits for the end of
// an election, and only briefly for paused or dead nodes.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	return c.await(ctx, "leader", "standalone")
}

// Follower returns some node that follows.
func (c *Cluster) Follower(ctx context.Context) (*Node, error) { return c.await(ctx, "follower") }

// await waits for a node in one of the modes.
func (c *Cluster) await(ctx context.Context, modes ...string) (*Node, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if n := c.inMode(ctx, modes); n != nil {
			return n, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("zkserver: no %s: %w", modes[0], context.Cause(ctx))
		}
	}
}

// inMode asks all nodes at once, so that a paused node does not delay the
// others.
func (c *Cluster) inMode(ctx context.Context, modes []string) *Node {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan *Node, len(c.nodes))
	for _, n := range c.nodes {
		go func() {
			if status, err := n.Status(ctx); err == nil && slices.Contains(modes, status.Mode) {
				found <- n
			} else {
				found <- nil
			}
		}()
	}
	for range c.nodes {
		if n := <-found; n != nil {
			return n
		}
	}
	return nil
}

// Log returns the end of every node's output.
func (c *Cluster) Log() string {
	var b strings.Builder
	for _, n := range c.nodes {
		fmt.Fprintf(&b, "--- ZooKeeper %s, process %d, running %v, %s\n%s\n",
			n.Name(), n.PID(), n.Running(), n.Endpoint(), telling(n.Log()))
	}
	return b.String()
}

// telling removes the messages that ZooKeeper logs for every connection, and
// the stack traces.
func telling(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "\tat ") && !strings.Contains(line, "Connection request from old client") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Close kills all nodes and deletes their files.
func (c *Cluster) Close() error {
	for _, n := range c.nodes {
		n.Kill()
	}
	freeport.Release(c.ports...)
	return os.RemoveAll(c.dir)
}
