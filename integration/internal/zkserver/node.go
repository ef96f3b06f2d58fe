package zkserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/internal/freeport"
)

// Node is one server. Its operations are those of [child.Server]: Kill, Pause,
// Resume, Restart, Launch, AwaitReady, Running, Log.
type Node struct {
	*child.Server
	addr    string
	dataDir string
	release atomic.Pointer[string] // the last reported version
}

// newNode writes the node's files and describes its process.
func newNode(where installation, o Options, dir string, i int, ports []int) (*Node, error) {
	name := "zk" + strconv.Itoa(i+1)
	n := &Node{addr: freeport.On(o.host(i), ports[3*i]), dataDir: filepath.Join(dir, name, "data")}
	config := filepath.Join(dir, name, "zoo.cfg")
	if err := n.prepare(i + 1); err != nil {
		return nil, err
	}
	lines := append(n.config(o, o.host(i), ports[3*i]), o.members(i, ports)...)
	lines = append(lines, o.Config...)
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("zkserver: %w", err)
	}
	args := append(jvmArguments(o), o.JVM...)
	args = append(args, "-cp", where.classPath, mainClass, config)
	command := func() *exec.Cmd {
		cmd := exec.Command(where.java, args...)
		cmd.Dir = filepath.Dir(config) // some releases write their own logs there
		if o.Wrap != nil {
			o.Wrap(i, cmd)
		}
		return cmd
	}
	n.Server = child.NewServer(name, filepath.Join(dir, name, "log"), command, n.serves)
	return n, nil
}

// prepare makes the data directory with the member's number in it.
func (n *Node) prepare(id int) error {
	if err := os.MkdirAll(n.dataDir, 0o700); err != nil {
		return fmt.Errorf("zkserver: %w", err)
	}
	if err := os.WriteFile(filepath.Join(n.dataDir, "myid"), []byte(strconv.Itoa(id)), 0o600); err != nil {
		return fmt.Errorf("zkserver: %w", err)
	}
	return nil
}

// config returns the node's zoo.cfg without the members.
func (n *Node) config(o Options, host string, clientPort int) []string {
	return []string{
		fmt.Sprintf("tickTime=%d", o.TickTime.Milliseconds()),
		"initLimit=20",
		"syncLimit=10",
		"dataDir=" + n.dataDir,
		"clientPortAddress=" + host,
		fmt.Sprintf("clientPort=%d", clientPort),
		"maxClientCnxns=0",         // the default of 60 per address is soon reached on loopback
		"admin.enableServer=false", // otherwise every node binds port 8080
		fmt.Sprintf("minSessionTimeout=%d", o.MinSessionTimeout.Milliseconds()),
		fmt.Sprintf("maxSessionTimeout=%d", o.MaxSessionTimeout.Milliseconds()),
	}
}

// jvmArguments keep a server small and its start short, and enable features
// that tests need.
func jvmArguments(o Options) []string {
	forceSync := "no"
	if o.Fsync {
		forceSync = "yes"
	}
	return []string{
		"-Xms16m", "-Xmx128m", "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-XX:-UsePerfData", "-XX:ReservedCodeCacheSize=32m", "-XX:MaxMetaspaceSize=64m", "-Xshare:auto",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dzookeeper.extendedTypesEnabled=true", // TTL nodes
		"-Dznode.container.checkIntervalMs=500", // empty containers are removed soon
		"-Dzookeeper.preAllocSize=1024",         // KiB; the default of 64 MiB is written at each start
		"-Dzookeeper.4lw.commands.whitelist=*",
		"-Dzookeeper.fastleader.maxNotificationInterval=500", // retry interval of a server without a quorum; the default is a minute
		"-Dzookeeper.forceSync=" + forceSync,
	}
}

// Endpoint returns the node's client address, "127.0.0.1:port".
func (n *Node) Endpoint() string { return n.addr }

// DataDir returns the directory of the node's snapshots and logs, which are in
// version-2.
func (n *Node) DataDir() string { return n.dataDir }

// Wipe kills the node and deletes its data except its number. After a restart a
// single node is empty; a member of three fetches the data from the others.
func (n *Node) Wipe() error {
	n.Kill()
	return os.RemoveAll(filepath.Join(n.dataDir, "version-2"))
}

// Status asks the node for its mode and version.
func (n *Node) Status(ctx context.Context) (Status, error) { return Stat(ctx, n.addr) }

// serves fails until the node has a mode: while starting, it accepts
// connections and does not answer, or answers that it is not serving.
func (n *Node) serves(ctx context.Context) error {
	status, err := n.Status(ctx)
	if err == nil {
		n.release.Store(&status.Version)
	}
	return err
}
