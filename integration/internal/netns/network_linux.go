package netns

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/baton-go/baton/integration/internal/servers"
)

// Network is a number of hosts on one bridge. Its methods fail the test on
// errors.
type Network struct {
	t     testing.TB
	hosts []string
}

// New makes a network of n hosts. The process needs its own namespaces: see
// Enter. A machine may allow those but not the operations in them (a security
// module denies mounts, a kernel has no veth), so any failure here skips the
// test with the reason.
func New(t testing.TB, n int) *Network {
	t.Helper()
	w := &Network{t: t}
	if err := w.build(n); err != nil {
		servers.CannotRun(t, fmt.Errorf("in namespaces of its own: %w", err))
	}
	return w
}

func (w *Network) build(n int) error {
	// `ip` keeps named namespaces in /run/netns; a private /run hides them from
	// other processes.
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("tmpfs on /run: %w", err)
	}
	lines := []string{"link set lo up", "link add br0 type bridge", "addr add 10.77.0.254/24 dev br0", "link set br0 up"}
	for i := range n {
		host := fmt.Sprintf("10.77.0.%d", i+1)
		w.hosts = append(w.hosts, host)
		lines = append(lines,
			fmt.Sprintf("netns add n%d", i),
			fmt.Sprintf("link add v%d type veth peer name eth0 netns n%d", i, i),
			fmt.Sprintf("link set v%d master br0 up", i),
			fmt.Sprintf("-n n%d addr add %s/24 dev eth0", i, host),
			fmt.Sprintf("-n n%d link set eth0 up", i),
			fmt.Sprintf("-n n%d link set lo up", i),
			// Test of the commands, with an unused address.
			fmt.Sprintf("-n n%d route replace blackhole 10.77.0.253/32", i),
			fmt.Sprintf("-n n%d route del blackhole 10.77.0.253/32", i))
	}
	for _, line := range lines {
		if err := ip(line); err != nil {
			return err
		}
	}
	for i := range n {
		cmd := exec.Command("true")
		if w.Wrap(i, cmd); cmd.Err != nil {
			return cmd.Err
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nsenter: %w: %s", err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// Hosts returns the addresses of the hosts.
func (w *Network) Hosts() []string { return w.hosts }

// Wrap makes a command run on a host. The process ID stays the program's.
func (w *Network) Wrap(host int, cmd *exec.Cmd) {
	enter := exec.Command("nsenter", append([]string{"--net=/run/netns/n" + strconv.Itoa(host), cmd.Path}, cmd.Args[1:]...)...)
	cmd.Path, cmd.Args, cmd.Err = enter.Path, enter.Args, enter.Err
}

// Block silently drops all packets from one host to another. The other
// direction still works.
func (w *Network) Block(from, to int) {
	w.ip("-n n%d route replace blackhole %s/32", from, w.hosts[to])
}

// Unblock ends Block.
func (w *Network) Unblock(from, to int) { w.ip("-n n%d route del blackhole %s/32", from, w.hosts[to]) }

// Others returns all hosts but one.
func (w *Network) Others(host int) (others []int) {
	for i := range w.hosts {
		if i != host {
			others = append(others, i)
		}
	}
	return others
}

// Mute drops all packets of a host to the others, but not to the test process.
func (w *Network) Mute(host int) {
	for _, other := range w.Others(host) {
		w.Block(host, other)
	}
}

// Deafen drops all packets of the others to a host, but not the test process's.
func (w *Network) Deafen(host int) {
	for _, other := range w.Others(host) {
		w.Block(other, host)
	}
}

// Isolate cuts a host off from the others in both directions, but not from the
// test process.
func (w *Network) Isolate(host int) { w.Mute(host); w.Deafen(host) }

// Unmute ends Mute.
func (w *Network) Unmute(host int) {
	for _, other := range w.Others(host) {
		w.Unblock(host, other)
	}
}

// Undeafen ends Deafen.
func (w *Network) Undeafen(host int) {
	for _, other := range w.Others(host) {
		w.Unblock(other, host)
	}
}

// Rejoin ends Isolate.
func (w *Network) Rejoin(host int) { w.Unmute(host); w.Undeafen(host) }

// Unplug takes a host's link down, without notice to the test process and the
// others.
func (w *Network) Unplug(host int) { w.ip("link set v%d down", host) }

// Plug ends Unplug.
func (w *Network) Plug(host int) { w.ip("link set v%d up", host) }

func (w *Network) ip(format string, args ...any) {
	w.t.Helper()
	if err := ip(fmt.Sprintf(format, args...)); err != nil {
		w.t.Fatalf("netns: %v", err)
	}
}

func ip(line string) error {
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, bytes.TrimSpace(out))
	}
	return nil
}
