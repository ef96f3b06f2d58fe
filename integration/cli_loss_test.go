package integration_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// witnessScript is a command of bash that records, as does its child, the times
// at which it is alive. Both ignore SIGTERM if the third argument is
// "stubborn". The clock is the machine's uptime, which is never set.
//
// A witness waits on a pipe that nobody writes to: eighty that start a sleep
// twenty times a second keep two processors busy.
const witnessScript = `
[ "$3" = stubborn ] && trap '' TERM
exec 9<> <(:)
alive() { while read -r now _ < /proc/uptime && echo "$1 $now" >> "$2"; do read -r -t 0.05 -u 9; done; }
alive "$2" "$1" &
alive "$2" "$1"
`

// testimony is the file to which witnesses write.
type testimony struct{ path string }

func (w testimony) command(who, manners string) []string {
	return []string{"--", "bash", "-c", witnessScript, "-", w.path, who, manners}
}

// seen returns when a witness was first and last alive, in seconds; zero if
// never.
func (w testimony) seen(t *testing.T, who string) (first, last float64) {
	t.Helper()
	text, err := os.ReadFile(w.path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, at, whole := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		now, err := strconv.ParseFloat(at, 64)
		if !whole || err != nil || !strings.HasSuffix(line, "\n") {
			continue // the last line, which is being written
		}
		if name == who {
			if first == 0 {
				first = now
			}
			last = max(last, now)
		}
	}
	return first, last
}

// alive reports whether the first witness was seen at a time or later.
func (w testimony) alive(t *testing.T, since float64) bool {
	_, last := w.seen(t, "first")
	return last >= since
}

// uptime reads the witnesses' clock.
func uptime(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	now, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// server is a server that the test stops and starts.
type server interface {
	Kill()
	Restart(ctx context.Context) error
}

// eachOwn runs a test with a server of its own, and a TTL that allows a grace
// of two seconds.
func eachOwn(t *testing.T, test func(t *testing.T, s site, own server, ttl time.Duration)) {
	t.Helper()
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		c := servers.NewEtcd(t, etcdserver.Options{})
		test(t, site{"etcd", c.Endpoints()}, c.Node(0), 5*time.Second)
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		c := servers.NewZooKeeper(t, zkserver.Options{})
		test(t, site{"zk", c.Endpoints()}, c.Node(0), 14*time.Second)
	})
}

// duel is a command that holds a name, and another that waits for it.
type duel struct {
	testimony
	name, manners string
	first, second *command
}

// newDuel starts both commands, the first at an address of its own if there is
// one. The waiting one has a longer TTL: it survives the outage, and acquires
// the name at the first moment at which the service can grant it.
func newDuel(t *testing.T, s site, ttl time.Duration, proxy *netproxy.Proxy, n int, flags ...string) *duel {
	t.Helper()
	name := fmt.Sprintf("%s-%d", servers.Name(t), n)
	r := &duel{testimony: testimony{filepath.Join(t.TempDir(), "testimony")}, name: name, manners: "stubborn"}
	if n%2 == 1 {
		r.manners = "polite"
	}
	url := s.url(ttl)
	if proxy != nil {
		url = s.url(ttl, proxy.Addr())
	}
	args := append(append([]string{"lock"}, flags...), name)
	r.first = baton(t, url, append(args, r.command("first", r.manners)...)...)
	await.Until(t, "the first command to run", func() bool { first, _ := r.seen(t, "first"); return first != 0 })
	r.second = baton(t, s.url(40*time.Second), append([]string{"lock", name}, r.command("second", "polite")...)...)
	return r
}

// judge waits for the second command, and checks that the first had ended when
// it began. since is the time of the fault.
func (r *duel) judge(t *testing.T, since float64) {
	t.Helper()
	await.Until(t, "the second command to run", func() bool { first, _ := r.seen(t, "second"); return first != 0 })
	await.Until(t, "the second command to run for as long as a live first command takes to write", func() bool {
		first, last := r.seen(t, "second")
		return last-first > 0.2
	})
	r.second.signal(syscall.SIGTERM)
	_, last := r.seen(t, "first")
	begin, _ := r.seen(t, "second")
	t.Logf("%s: the first was last seen %.2f s after the fault, %.2f s before the second began", r.manners, last-since, begin-last)
	if begin <= last {
		t.Errorf("the first command was alive %.2f s after the second began", last-begin)
	}
}

// The server is killed, or the holder is partitioned from it. The first command
// and its child have ended before another baton starts its own.
func TestCommandEndsBeforeTheNextHolds(t *testing.T) {
	t.Parallel()
	const each = 10 // of each fault
	eachOwn(t, func(t *testing.T, s site, own server, ttl time.Duration) {
		var killed, cut []*duel
		proxy := servers.Proxy(t, s.endpoints)
		for n := range each {
			killed = append(killed, newDuel(t, s, ttl, nil, n, "--grace=2s"))
			cut = append(cut, newDuel(t, s, ttl, proxy, each+n, "--grace=2s"))
		}
		probe := s.client(t, 10*time.Second)
		for _, r := range append(killed, cut...) {
			awaitQueue(t, newMutex(t, probe, r.name), 2)
		}

		since := uptime(t)
		proxy.Cut()
		for _, r := range cut {
			r.judge(t, since)
			r.first.wants(124, "got SIGTERM")
		}
		proxy.DropHeld()

		since = uptime(t)
		for _, r := range killed {
			await.Until(t, "the command to be alive right before the fault", func() bool { return r.alive(t, since) })
		}
		own.Kill()
		for _, r := range killed {
			r.first.wants(124, "got SIGTERM")
		}
		if err := own.Restart(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		for _, r := range killed {
			r.judge(t, since)
		}
	})
}

// A baton that is killed or stopped cannot end its command; the guard process
// does.
func TestCommandDoesNotOutliveItsBaton(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		const ttl = 12 * time.Second // a busy machine renews in time
		for n, c := range []struct {
			how   string
			flags []string
			harm  func(r *duel)
		}{
			{"killed", nil, func(r *duel) { r.first.signal(syscall.SIGKILL) }},
			{"killed with its group", nil, func(r *duel) { _ = syscall.Kill(-r.first.cmd.Process.Pid, syscall.SIGKILL) }},
			{"stopped", nil, func(r *duel) { r.first.signal(syscall.SIGSTOP) }},
			{"stopped, no SIGTERM", []string{"--grace=0"}, func(r *duel) { r.first.signal(syscall.SIGSTOP) }},
		} {
			t.Run(c.how, func(t *testing.T) {
				t.Parallel()
				r := newDuel(t, s, ttl, nil, 2*n, c.flags...)
				await.Until(t, "the command to run for more than a TTL, while renewals succeed", func() bool {
					first, last := r.seen(t, "first")
					return last-first > ttl.Seconds()+2
				})
				since := uptime(t)
				await.Until(t, "the command to be alive right before the fault", func() bool { return r.alive(t, since) })
				c.harm(r)
				r.judge(t, since)
				_ = r.first.cmd.Process.Signal(syscall.SIGCONT)
				if strings.HasPrefix(c.how, "stopped") {
					r.first.wants(124, "killed")
				}
			})
		}
	})
}

// A failed release is printed.
func TestFailedReleaseKeepsTheExitCode(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		name, proxy := servers.Name(t), servers.Proxy(t, s.endpoints)
		flag := filepath.Join(t.TempDir(), "go")
		c := baton(t, s.url(20*time.Second, proxy.Addr()), "lock", name, "--", "sh", "-c",
			"echo ready; while [ ! -e "+flag+" ]; do sleep 0.05; done; exit 7")
		c.says("ready")
		proxy.Cut()
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c.wants(7, "the name becomes free when the session ends")
	})
}

// With --again the candidate campaigns again, and its command is started again.
func TestElectAgainAfterALostTerm(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		name, proxy := servers.Name(t), servers.Proxy(t, s.endpoints)
		c := baton(t, s.url(6*time.Second, proxy.Addr()), "elect", "--again", "--grace=0.2", name, "--", "sh", "-c",
			`echo "term $BATON_TOKEN"; exec sleep 600`)
		c.says("term ")
		proxy.Cut()
		await.Until(t, "the first term to be lost", func() bool { return strings.Contains(c.err.String(), "campaigning again") })
		proxy.DropHeld()
		await.Until(t, "a second term", func() bool { return strings.Count(c.out.String(), "term ") >= 2 })
		var first, second int64
		if _, err := fmt.Sscanf(c.out.String(), "term %d\nterm %d\n", &first, &second); err != nil || second <= first {
			t.Errorf("terms: %q, %v", c.out.String(), err)
		}
		c.signal(syscall.SIGTERM)
		c.wants(128 + 15)
	})
}
