package netns

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/baton-go/baton/integration/internal/servers"
)

// self is the address of the test process.
const self = "10.77.0.254"

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
	lines := []string{"link set lo up", "link add br0 type bridge", "addr add " + self + "/24 dev br0", "link set br0 up"}
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

// Swallow drops all packets to and from hosts, in both directions, where they
// arrive. Unlike Unplug it leaves the links up: only the silence shows it.
// Restore ends it.
func (w *Network) Swallow(hosts ...int) { w.filter(hosts, "drop", "drop") }

// Hide drops all packets between hosts and the test process, in both
// directions, where they arrive. The hosts still reach each other. Restore ends
// it.
func (w *Network) Hide(hosts ...int) {
	w.filter(hosts, "ip saddr "+self+" drop", "ip daddr "+self+" drop")
}

// Lose drops a share of the packets to and from hosts, in percent and at
// random. Restore ends it.
func (w *Network) Lose(percent int, hosts ...int) {
	rule := fmt.Sprintf("numgen random mod 100 < %d drop", percent)
	w.filter(hosts, rule, rule)
}

// Refuse makes hosts answer the test process's packets with a reset: new
// connections are refused, and open ones end when they are used. The hosts do
// not notice. Restore ends it.
func (w *Network) Refuse(hosts ...int) {
	w.rules(hosts, func(int) (there, here string) { return refused(self), "" })
}

// Restore ends Swallow, Hide, Lose and Refuse.
func (w *Network) Restore(hosts ...int) {
	w.rules(hosts, func(int) (there, here string) { return "", "" })
}

// filter applies a rule to the packets that arrive at hosts, and another to
// those that arrive from them.
func (w *Network) filter(hosts []int, to, from string) {
	w.rules(hosts, func(host int) (there, here string) {
		return arriving("eth0", to), arriving(fmt.Sprintf("v%d", host), from)
	})
}

// rules replaces the rules of hosts, in their namespaces and in the test's. It
// starts all commands at once, so that the faults begin at the same time.
func (w *Network) rules(hosts []int, of func(host int) (there, here string)) {
	w.t.Helper()
	var all sync.WaitGroup
	errs := make([]error, 2*len(hosts))
	for i, host := range hosts {
		there, here := of(host)
		all.Go(func() { errs[2*i] = replaceRules(fmt.Sprintf("host%d", host), here) })
		all.Go(func() {
			errs[2*i+1] = replaceRules("host", there, "nsenter", "--net=/run/netns/n"+strconv.Itoa(host))
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatalf("netns: %v", err)
	}
}

// arriving is a table with a rule for what arrives at a device, before anything
// else sees it. Only IP: the hosts still find each other's addresses, or
// connections would fail instead of waiting.
func arriving(device, rule string) string {
	return fmt.Sprintf(`table netdev %%[1]s { chain in { type filter hook ingress device "%s" priority 0; meta protocol ip %s; }; }`, device, rule)
}

// refused is a table with a rule that resets the connections of an address.
func refused(addr string) string {
	return fmt.Sprintf(`table inet %%[1]s { chain in { type filter hook input priority 0; ip saddr %s meta l4proto tcp reject with tcp reset; }; }`, addr)
}

// replaceRules replaces the tables of a name by one, or by none, in one step.
// The command runs nft in a namespace.
func replaceRules(name, table string, command ...string) error {
	// A table that may not exist is added first, so that it can be deleted.
	script := "add table netdev %[1]s\ndelete table netdev %[1]s\nadd table inet %[1]s\ndelete table inet %[1]s\n" + table + "\n"
	command = append(command, "nft", "-f", "-")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(fmt.Sprintf(script, name))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// CanFilter skips the test with the reason if this kernel does not allow the
// rules of Swallow, Hide, Lose and Refuse.
func (w *Network) CanFilter() {
	w.t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		w.t.Fatal("nft is missing; on Debian and its relatives, as root: apt-get install nftables")
	}
	for _, table := range []string{arriving("v0", "drop"), arriving("v0", "numgen random mod 100 < 1 drop"), refused("203.0.113.1"), ""} {
		if err := replaceRules("trial", table); err != nil {
			servers.CannotRun(w.t, fmt.Errorf("in namespaces of its own: %w", err))
		}
	}
}

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
