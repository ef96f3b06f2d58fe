// Package redisserver starts real Redis servers on loopback, as processes that
// a test can kill, pause and restart: single servers, replicas, Sentinels, and
// the masters of a cluster.
//
// Redis must be installed, from Debian's package redis-tools or at BATON_REDIS.
// Otherwise the error has the command that installs it. No service of the
// system is used or started.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/internal/freeport"
)

const startTimeout = 30 * time.Second

// ErrNotInstalled means that Redis is missing.
var ErrNotInstalled = errors.New("redisserver: no redis-server; install it with " +
	"apt-get update && apt-get install -y --no-install-recommends redis-tools " +
	"(which starts no service), or set BATON_REDIS to a redis-server")

// Options describe a server. The zero value is a server that loses its data
// when it ends.
type Options struct {
	// AppendOnly keeps every write, also over kill -9.
	AppendOnly bool
	// Sentinel makes the server a Sentinel; Config then has its lines.
	Sentinel bool
	// Cluster makes the server a member of a cluster, with a second port: by
	// default that is in the range of outgoing connections, and taken at times.
	// Redis 7 is needed.
	Cluster bool
	// Config has further lines of redis.conf.
	Config []string
}

// Server is one process. Its operations are those of [child.Server].
type Server struct {
	*child.Server
	addr  string
	dir   string
	ports []int // for clients, and for other members of a cluster
}

// find returns the server's program. In Debian's package redis-tools it has
// another name, and decides by the name it is called with what it does.
func find() (string, error) {
	if path := os.Getenv("BATON_REDIS"); path != "" {
		return path, nil
	}
	for _, name := range []string{"redis-server", "redis-check-rdb"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNotInstalled
}

// Start starts a server and waits until it serves. On failure nothing is left
// behind.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Server{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.ports, err = freeport.Take(2); err != nil {
		return nil, err
	}
	s.addr = freeport.Addr(s.Port())
	if s.dir, err = os.MkdirTemp("", "baton-redis-"); err != nil {
		return nil, err
	}
	config := filepath.Join(s.dir, "redis.conf")
	if err := os.WriteFile(config, []byte(strings.Join(s.config(o), "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	command := func() *exec.Cmd {
		args := []string{config}
		if o.Sentinel {
			args = append(args, "--sentinel")
		}
		cmd := exec.Command(program, args...)
		cmd.Args[0] = "redis-server"
		return cmd
	}
	s.Server = child.NewServer("redis:"+strconv.Itoa(s.Port()), filepath.Join(s.dir, "log"), command, s.serves)
	if err := s.Launch(); err != nil {
		return nil, err
	}
	return s, s.AwaitReady(ctx)
}

func (s *Server) config(o Options) []string {
	lines := []string{
		"port " + strconv.Itoa(s.Port()), "bind 127.0.0.1", "dir " + s.dir, "daemonize no",
		"protected-mode no",
	}
	if !o.Sentinel {
		lines = append(lines, `save ""`, "repl-diskless-sync-delay 0", "repl-timeout 5")
	}
	if o.Cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-node-timeout 3000",
			"cluster-port "+strconv.Itoa(s.ports[1]))
	}
	if o.AppendOnly {
		lines = append(lines, "appendonly yes", "appendfsync always")
	}
	return append(lines, o.Config...)
}

// Addr returns the server's address, "127.0.0.1:port".
func (s *Server) Addr() string { return s.addr }

// Port returns the server's port.
func (s *Server) Port() int { return s.ports[0] }

// Client returns a client of this server, which the caller closes.
func (s *Server) Client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: s.addr})
}

// Do sends one command to this server.
func (s *Server) Do(ctx context.Context, args ...any) (any, error) {
	c := s.Client()
	defer c.Close()
	return c.Do(ctx, args...).Result()
}

// Info returns the value of a line of INFO, or "".
func (s *Server) Info(ctx context.Context, name string) (string, error) {
	c := s.Client()
	defer c.Close()
	text, err := c.Info(ctx, "everything").Result()
	for _, line := range strings.Split(text, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return value, nil
		}
	}
	return "", err
}

// serves fails while the server loads its data.
func (s *Server) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := s.Do(ctx, "PING")
	return err
}

// Close kills the server and deletes its data.
func (s *Server) Close() error {
	if s.Server != nil {
		s.Kill()
	}
	freeport.Release(s.ports...)
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// Cluster is a cluster of masters. It has no replicas but those of Replicate.
type Cluster struct{ Masters, replicas []*Server }

// slots is the number of hash slots of a cluster.
const slots = 16384

// StartCluster starts a cluster of masters and waits until all serve.
func StartCluster(ctx context.Context, masters int) (_ *Cluster, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for range masters {
		s, err := Start(ctx, Options{AppendOnly: true, Cluster: true})
		if err != nil {
			return nil, err
		}
		c.Masters = append(c.Masters, s)
	}
	for i, s := range c.Masters {
		from, to := i*slots/masters, (i+1)*slots/masters-1
		if _, err := s.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", from, to); err != nil {
			return nil, err
		}
		first := c.Masters[0].ports
		if _, err := s.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", first[0], first[1]); err != nil {
			return nil, err
		}
	}
	return c, c.Await(ctx)
}

// Replicate adds a replica of a master, and waits until it follows.
func (c *Cluster) Replicate(ctx context.Context, master *Server) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	id, err := master.Do(ctx, "CLUSTER", "MYID")
	if err != nil {
		return nil, err
	}
	s, err := Start(ctx, Options{AppendOnly: true, Cluster: true})
	if err != nil {
		return nil, err
	}
	c.replicas = append(c.replicas, s)
	if _, err := s.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", master.ports[0], master.ports[1]); err != nil {
		return nil, err
	}
	if err := c.Await(ctx); err != nil {
		return nil, err
	}
	for { // it may not know the master yet
		if _, err = s.Do(ctx, "CLUSTER", "REPLICATE", id); err == nil {
			status, _ := s.Info(ctx, "master_link_status")
			if status == "up" {
				return s, nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("redisserver: %s does not follow %s: %w", s.addr, master.addr, errors.Join(err, ctx.Err()))
		}
	}
}

// Await waits until every master knows all slots and members.
func (c *Cluster) Await(ctx context.Context) error {
	for _, s := range c.Masters {
		for {
			info, err := s.Do(ctx, "CLUSTER", "INFO")
			if text, ok := info.(string); ok && strings.Contains(text, "cluster_state:ok") &&
				strings.Contains(text, fmt.Sprintf("cluster_known_nodes:%d", len(c.Masters)+len(c.replicas))) {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("redisserver: %s has no complete cluster: %v, %w", s.addr, info, err)
			}
		}
	}
	return nil
}

// Addrs returns the masters' addresses.
func (c *Cluster) Addrs() (all []string) {
	for _, s := range c.Masters {
		all = append(all, s.addr)
	}
	return all
}

// Log returns the ends of the members' logs.
func (c *Cluster) Log() string {
	var b strings.Builder
	for _, s := range append(c.replicas, c.Masters...) {
		fmt.Fprintf(&b, "%s:\n%s\n", s.addr, s.Log())
	}
	return b.String()
}

// Close kills all members and deletes their data.
func (c *Cluster) Close() (err error) {
	for _, s := range append(c.replicas, c.Masters...) {
		err = errors.Join(err, s.Close())
	}
	return err
}
