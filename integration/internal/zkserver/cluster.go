// Package zkserver starts real ZooKeeper servers on loopback, one or three, as
// processes that a test can kill, pause and start again.
//
// ZooKeeper itself has to be there: an unpacked official archive at
// ZOOKEEPER_HOME, or Debian's package. A machine without is told the command
// that helps.
//
// Peer links cannot be cut by proxies (election addresses travel in messages);
// take network namespaces for that.
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

	"github.com/baton-go/baton/integration/internal/freeport"
)

// startTimeout bounds one attempt to start an ensemble. One node takes half a
// second, three about two.
const startTimeout = 2 * time.Minute

// Options say what ensemble to start. The zero value is one node with quick
// ticks.
type Options struct {
	// Nodes is 1 (also for 0) or 3; any odd number works.
	Nodes int
	// TickTime is 200 ms if it is zero. Sessions expire at multiples of it.
	TickTime time.Duration
	// MinSessionTimeout is 500 ms if it is zero; the server's own default is
	// two ticks. MaxSessionTimeout is 40 s if it is zero; the server's own
	// default is twenty ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// Fsync makes every write wait for the disk. Without it data survives kill
	// -9 all the same, though not a power cut, and tests do not depend on the
	// disk's mood.
	Fsync bool
	// Config has further lines of zoo.cfg for every node, "name=value".
	Config []string
	// JVM has further arguments of java: "-Dzookeeper.…".
	JVM []string
	// Hosts are the nodes' addresses, for nodes in network namespaces of their
	// own; empty for loopback.
	Hosts []string
	// Wrap changes the command of a node, from 0, before each start: to run it
	// in a namespace, say. It may be nil.
	Wrap func(node int, cmd *exec.Cmd)
	// Quorum is the address at which a node finds another one's quorum port,
	// addr: a proxy that delays what a follower is told, say. It may be nil.
	// (Such a link can be delayed, not cut: see the package comment.)
	Quorum func(from, to int, addr string) string
}

// host is the address of a node.
func (o Options) host(node int) string {
	if len(o.Hosts) == 0 {
		return "127.0.0.1"
	}
	return o.Hosts[node]
}

// members are the lines of zoo.cfg that name the servers, as one of them sees
// them. ports has three for each server.
func (o Options) members(from int, ports []int) (lines []string) {
	if o.Nodes == 1 {
		return nil // such a line makes it an ensemble, which starts more slowly
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
// is left behind; ErrNotInstalled says that the machine lacks something.
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
	c.version = *c.nodes[0].release.Load() // AwaitReady has asked for it
	return nil
}

// Endpoints are the client addresses of all nodes, "127.0.0.1:port", in the
// order of Nodes.
func (c *Cluster) Endpoints() []string {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Endpoint())
	}
	return addrs
}

// Nodes are the members.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node is the i-th member, from 0.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Version is the servers' version, "3.8.0".
func (c *Cluster) Version() string { return c.version }

// Leader is the node that leads, or the only one. It waits for an election to
// end; nodes that are paused or dead are not asked for longer than a moment.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	return c.await(ctx, "leader", "standalone")
}

// Follower is some node that follows.
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

// inMode asks all nodes at once, so that one that is paused does not keep the
// others waiting.
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

// Log is the end of every node's output.
func (c *Cluster) Log() string {
	var b strings.Builder
	for _, n := range c.nodes {
		fmt.Fprintf(&b, "--- ZooKeeper %s, process %d, running %v, %s\n%s\n",
			n.Name(), n.PID(), n.Running(), n.Endpoint(), telling(n.Log()))
	}
	return b.String()
}

// telling leaves out what every connection of a client makes ZooKeeper say, and
// the stack below each exception.
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
