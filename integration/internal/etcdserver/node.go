package etcdserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/baton-go/baton/integration/internal/child"
)

// probeTimeout bounds one probe of a node. A starting or paused node accepts
// the connection and does not answer.
const probeTimeout = time.Second

// Node is one member. Its operations are those of [child.Server]: Kill, Pause,
// Resume, Restart, Launch, AwaitReady, Running, Log.
type Node struct {
	*child.Server
	addr    string
	peerURL string
	dataDir string
	binary  string
	args    []string
	wrap    func(node int, cmd *exec.Cmd)
}

func newNode(i int, dir, addr, peerAddr string) *Node {
	name := fmt.Sprintf("n%d", i)
	n := &Node{addr: addr, peerURL: "http://" + peerAddr, dataDir: filepath.Join(dir, name)}
	command := func() *exec.Cmd {
		cmd := exec.Command(n.binary, n.args...)
		cmd.Env = environment()
		if n.wrap != nil {
			n.wrap(i, cmd)
		}
		return cmd
	}
	n.Server = child.NewServer(name, filepath.Join(dir, name+".log"), command, n.healthy)
	return n
}

// environment returns ours without ETCD_…, which etcd reads as flags.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if len(v) < 5 || v[:5] != "ETCD_" {
			env = append(env, v)
		}
	}
	return env
}

// arguments returns the arguments in which nodes differ.
func (n *Node) arguments(listen []string) []string {
	clients := strings.Join(append([]string{"http://" + n.addr}, listen...), ",")
	return []string{
		"--name=" + n.Name(), "--data-dir=" + n.dataDir,
		"--listen-client-urls=" + clients, "--advertise-client-urls=http://" + n.addr,
		"--listen-peer-urls=" + n.peerURL, "--initial-advertise-peer-urls=" + n.peerURL,
	}
}

// Endpoint returns the node's client address, "127.0.0.1:port".
func (n *Node) Endpoint() string { return n.addr }

// Wipe kills the node and deletes its data. After a restart a single node is a
// new, empty cluster; a member of three must be removed and added first.
func (n *Node) Wipe() error {
	n.Kill()
	return os.RemoveAll(n.dataDir)
}

// Backup kills the node and copies its data to a new directory.
func (n *Node) Backup(dir string) error {
	n.Kill()
	return os.CopyFS(dir, os.DirFS(n.dataDir))
}

// Restore kills the node, a single one, and replaces its data by a backup.
func (n *Node) Restore(dir string) error {
	if err := n.Wipe(); err != nil {
		return err
	}
	return os.CopyFS(n.dataDir, os.DirFS(dir))
}

// healthy asks over plain HTTP, since gRPC retries a refused dial only after a
// second. The server makes a linearizable read to answer.
func (n *Node) healthy(ctx context.Context) error {
	var health struct {
		Health string `json:"health"`
		Reason string `json:"reason"`
	}
	if err := n.ask(ctx, "/health", &health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("etcdserver: %s: unhealthy: %s", n.Name(), health.Reason)
	}
	return nil
}

func (n *Node) version(ctx context.Context) (string, error) {
	var v struct {
		Server string `json:"etcdserver"`
	}
	err := n.ask(ctx, "/version", &v)
	return v.Server, err
}

// leads asks the node itself whether it is the leader; a paused one does not
// answer.
func (n *Node) leads(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	client, err := NewClient(n.addr)
	if err != nil {
		return false
	}
	defer client.Close()
	status, err := client.Status(ctx, n.addr)
	return err == nil && status.Leader != 0 && status.Leader == status.Header.MemberId
}

func (n *Node) ask(ctx context.Context, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.addr+path, nil)
	if err != nil {
		return err
	}
	req.Close = true // the node may be paused or killed between two requests
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(answer)
}
