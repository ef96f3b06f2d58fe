package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/batonbin"
	"github.com/baton-go/baton/integration/internal/servers"
)

func itoa(n int) string { return strconv.Itoa(n) }

// eachOne runs a test against one server of each service.
func eachOne(t *testing.T, test func(t *testing.T, s site)) {
	t.Helper()
	t.Run("etcd", func(t *testing.T) { test(t, site{"etcd", servers.Etcd(t).Endpoints()}) })
	t.Run("zookeeper", func(t *testing.T) { test(t, site{"zk", servers.ZooKeeper(t).Endpoints()}) })
}

// etcdctl lock closes the command's standard input, and exits with 255 if a
// signal ended the command.
func TestCommandKeepsItsStreamsAndExitCode(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		url, name := s.url(5*time.Second), servers.Name(t)
		c := batonReading(t, url, "some input", "lock", name, "--", "sh", "-c", "cat; echo to stderr >&2; exit 7")
		c.wants(7, "to stderr")
		if got := c.out.String(); got != "some input" {
			t.Errorf("stdout is %q", got)
		}
		for script, want := range map[string]int{
			"exit 0": 0, "exit 255": 255, "kill -9 $$": 128 + 9, "kill -TERM $$": 128 + 15, "kill -SEGV $$": 128 + 11,
		} {
			baton(t, url, "lock", name, "--", "sh", "-c", script).wants(want)
		}
		baton(t, url, "lock", name, "--", "no-such-program").wants(127, "no-such-program")
		baton(t, url, "lock", name, "--", "/dev/null").wants(126, "/dev/null")
		baton(t, url, "lock", name).wants(2, "--")
		baton(t, url, "lock", name, "true").wants(2, "no --")
		baton(t, url, "lock", "a/../b", "--", "true").wants(2, "..")
		baton(t, url, "lock", "--grace", "1m", name, "--", "true").wants(2, "1m0s", "5s", "0.4 of the TTL")
	})
	baton(t, "etcd://127.0.0.1:1", "lock", "-w", "0.5", "x", "--", "true").wants(125, "service unavailable")
	baton(t, "", "lock", "x", "--", "true").wants(2, "BATON_URL")
}

// The reader of stderr has ended. A message of baton must end neither baton nor
// the command, and the command has the default action of SIGPIPE.
func TestBrokenPipeDoesNotEndTheHold(t *testing.T) {
	t.Parallel()
	url, name := (site{"etcd", servers.Etcd(t).Endpoints()}).url(10*time.Second), servers.Name(t)
	reader, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	_ = reader.Close()
	for script, want := range map[string]int{"exit 7": 7, "kill -PIPE $$": 128 + 13} {
		c := exec.Command(batonbin.Path(t), "lock", "-v", name, "--", "sh", "-c", script)
		c.Env, c.Stderr = append(os.Environ(), "BATON_URL="+url), stderr
		_ = c.Run() // ProcessState has the outcome
		if got := c.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: baton ended with %d (%v), want %d", script, got, c.ProcessState, want)
		}
	}
}

// etcdctl lock does not pass SIGTERM on.
func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		for sig, name := range map[syscall.Signal]string{
			syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGQUIT: "QUIT",
			syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2", syscall.SIGWINCH: "WINCH", syscall.SIGCONT: "CONT",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := baton(t, s.url(10*time.Second), "lock", servers.Name(t), "--", "sh", "-c",
					"trap 'echo got "+name+"; exit 5' "+name+"; echo ready; while :; do sleep 0.05; done")
				c.says("ready")
				c.signal(sig)
				c.wants(5)
				if got := c.out.String(); !strings.Contains(got, "got "+name) {
					t.Errorf("stdout is %q", got)
				}
			})
		}
	})
}

func TestIgnoredSignalStaysIgnored(t *testing.T) {
	s := site{"etcd", servers.Etcd(t).Endpoints()}
	c := baton(t, s.url(10*time.Second), "lock", servers.Name(t), "--", "sh", "-c", "trap '' HUP; exec \"$@\"", "-",
		os.Args[0], "-test.run=^$") // any program; the next command is the test
	c.wants(0)
	c = baton(t, s.url(10*time.Second), "lock", servers.Name(t)+"-outer", "--", "sh", "-c", `trap '' HUP
		"$0" lock "$1" -- sh -c 'kill -HUP $$; echo lives'`, c.cmd.Path, servers.Name(t)+"-inner")
	c.wants(0)
	if got := c.out.String(); got != "lives\n" {
		t.Errorf("stdout is %q", got)
	}
}

func TestSignalEndsTheWait(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		url, name := s.url(10*time.Second), servers.Name(t)
		holder := batonHolding(t, url, "lock", name)
		waiter := baton(t, url, "lock", name, "--", "echo", "never")
		awaitQueue(t, newMutex(t, s.client(t, 10*time.Second), name), 2)
		waiter.signal(syscall.SIGTERM)
		waiter.wants(128 + 15)
		if waiter.diedOf() != syscall.SIGTERM {
			t.Error("the waiting baton did not die of the signal, so its parent cannot tell")
		}
		if got := waiter.out.String(); got != "" {
			t.Errorf("the command ran: %q", got)
		}
		holder.signal(syscall.SIGTERM)
		holder.wants(128 + 15)
		if holder.diedOf() != syscall.SIGTERM {
			t.Error("the holding baton did not die of the signal, as its command did")
		}
		baton(t, url, "lock", "-n", name, "--", "true").wants(0) // nothing was left in the queue
	})
}

// batonHolding starts a baton whose command runs until a signal ends it, and
// waits for the command's start.
func batonHolding(t *testing.T, url string, args ...string) *command {
	t.Helper()
	c := baton(t, url, append(args, "--", "sh", "-c", "echo holding; exec sleep 600")...)
	c.says("holding")
	return c
}

func TestTakenNameReportsItsHolder(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		url, name := s.url(10*time.Second), servers.Name(t)
		for _, kind := range []string{"lock", "wlock", "elect", "sem"} {
			hold := []string{kind, "--identity", "the holder", name}
			if kind == "sem" {
				hold = []string{kind, "--limit", "1", "--identity", "the holder", name}
			}
			holder := batonHolding(t, url, hold...)
			baton(t, url, kind, "--nonblock", name, "--", "true").wants(1, "the holder", "since 20")
			baton(t, url, kind, "-w", "1", "-E", "75", name, "--", "true").wants(75, "the holder", "since 20", "waited for 1s")
			baton(t, url, kind, "--wait=0", "--conflict-exit-code=0", name, "--", "echo", "ran").wants(0, "the holder")
			holder.signal(syscall.SIGINT)
			holder.wants(128 + 2)
			baton(t, url, kind, "--nonblock", name, "--", "true").wants(0)
		}
		// Readers share.
		reader := batonHolding(t, url, "rlock", name)
		baton(t, url, "rlock", "-n", name, "--", "true").wants(0)
		baton(t, url, "wlock", "-n", name, "--", "true").wants(1)
		reader.signal(syscall.SIGTERM)
	})
}

func TestEnvironmentDescribesTheHold(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		url, name := s.url(10*time.Second), servers.Name(t)
		before := time.Now()
		c := baton(t, url, "sem", "--limit=5", "--permits=2", "--slots", "--identity=me", name, "--", "env")
		c.wants(0)
		env := map[string]string{}
		for line := range strings.Lines(c.out.String()) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			env[k] = v
		}
		for k, want := range map[string]string{
			"BATON_URL": regexp.QuoteMeta(url), "BATON_NAME": regexp.QuoteMeta(name), "BATON_KIND": "semaphore", "BATON_IDENTITY": "me",
			"BATON_TOKEN": `[1-9]\d*`, "BATON_SEQUENCER": `\S+:\S+`, "BATON_SESSION": `[0-9a-f]+`, "BATON_PERMITS": "2", "BATON_SLOTS": "0 1",
		} {
			if !regexp.MustCompile("^" + want + "$").MatchString(env[k]) {
				t.Errorf("%s is %q, want %s", k, env[k], want)
			}
		}
		deadline, err := time.Parse(time.RFC3339Nano, env["BATON_DEADLINE"])
		if err != nil || deadline.Before(before) || deadline.After(time.Now().Add(10*time.Second)) {
			t.Errorf("BATON_DEADLINE is %q: %v", env["BATON_DEADLINE"], err)
		}
		// "baton check" works with the URL and the sequencer.
		baton(t, url, "lock", name, "--", "sh", "-c", `exec "$0" check "$BATON_SEQUENCER"`, c.cmd.Path).wants(0)
	})
}

func TestChildrenAreEndedBeforeTheRelease(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		url, name, ready := s.url(10*time.Second), servers.Name(t), filepath.Join(t.TempDir(), "ready")
		c := baton(t, url, "lock", "--grace=0.3", name, "--", "sh", "-c", `trap '' TERM; sleep 600 >/dev/null 2>&1 & echo $!
			setsid sh -c ': >"$0"; exec sleep 600' "$0" >/dev/null 2>&1 & echo $!
			until [ -e "$0" ]; do sleep 0.05; done; exit 4`, ready) // exists when the daemon has its session
		c.wants(4, "setsid")
		pids := strings.Fields(c.out.String())
		left, err := strconv.Atoi(pids[0])
		if err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the remaining child to end", func() bool { return gone(left) })
		daemon, err := strconv.Atoi(pids[1])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Kill(daemon, syscall.SIGKILL) }()
		if gone(daemon) {
			t.Error("the process started with setsid has ended")
		}
		// baton waits silently for a child that ends soon by itself.
		c = baton(t, s.url(40*time.Second), "lock", "--grace=5", name, "--", "sh", "-c", `(sleep 0.3; echo drained) & exit 0`)
		c.wants(0)
		if got := c.out.String() + c.err.String(); got != "drained\n" {
			t.Errorf("baton prints %q", got)
		}
	})
}

// The command's descendants are ended although they have left its process
// group.
func TestDescendantsEndBeforeTheRelease(t *testing.T) {
	t.Parallel()
	url, name := (site{"etcd", servers.Etcd(t).Endpoints()}).url(40*time.Second), servers.Name(t)
	for n, script := range []string{
		`timeout 600 sleep 600 >/dev/null 2>&1 & echo $!; exit 4`,
		`set -m; sleep 600 >/dev/null 2>&1 & echo $!; exit 4`,
	} {
		c := baton(t, url, "lock", "--grace=0.3", name+itoa(n), "--", "bash", "-c", script)
		c.wants(4, "left processes running", "sleep (")
		pid, err := strconv.Atoi(strings.TrimSpace(c.out.String()))
		if err != nil {
			t.Fatal(err)
		}
		if !gone(pid) {
			t.Errorf("%s: the process runs after the release", script)
		}
	}
}

// A guard that was stopped, or killed, does not keep the hold.
func TestHoldEndsWithoutItsGuard(t *testing.T) {
	t.Parallel()
	url, name := (site{"etcd", servers.Etcd(t).Endpoints()}).url(10*time.Second), servers.Name(t)
	guardOf := func(t *testing.T, c *command) (pid int) {
		t.Helper()
		out, err := exec.Command("pgrep", "-P", itoa(c.cmd.Process.Pid)).Output()
		if err != nil {
			t.Fatal(err)
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(out))); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Run("stopped", func(t *testing.T) {
		flag := filepath.Join(t.TempDir(), "go")
		c := baton(t, url, "lock", name+"-stopped", "--", "sh", "-c", "echo ready; while [ ! -e "+flag+" ]; do sleep 0.05; done; exit 5")
		c.says("ready")
		if err := syscall.Kill(guardOf(t, c), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c.wants(5)
	})
	t.Run("killed", func(t *testing.T) {
		c := baton(t, url, "lock", name+"-killed", "--", "bash", "-c", "timeout 600 sleep 600 >/dev/null 2>&1 & echo $!; wait")
		await.Until(t, "the child's number", func() bool { return strings.Contains(c.out.String(), "\n") })
		pid, err := strconv.Atoi(strings.TrimSpace(c.out.String()))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(guardOf(t, c), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.wants(125, "the guard process has ended")
		if !gone(pid) {
			t.Error("a process runs after the release")
		}
	})
}

// A stopped command handles SIGTERM after SIGCONT only.
func TestForwardedSIGTERMEndsAStoppedCommand(t *testing.T) {
	t.Parallel()
	url, name := (site{"etcd", servers.Etcd(t).Endpoints()}).url(10*time.Second), servers.Name(t)
	c := baton(t, url, "lock", name, "--", "sh", "-c", "echo ready; kill -STOP $$; sleep 600")
	c.says("ready")
	c.signal(syscall.SIGTERM)
	c.wants(128 + 15)
}

// An operator removes the hold: the command gets SIGTERM, and SIGKILL if it
// ignores that.
func TestCommandIsEndedWhenItsHoldIsRemoved(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		url, flag := s.url(40*time.Second), filepath.Join(t.TempDir(), "go")
		for n, c := range []struct {
			flag, script string
			code         int
			words        string
		}{
			{"--grace=5", "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done", 124, "others may hold the name already"},
			{"--grace=0.2", "trap '' TERM; echo ready; sleep 600", 124, "others may hold the name already"},
			{"--grace=0", "trap 'echo told' TERM; echo ready; sleep 600", 124, "is killed"},
			{"--keep-running", "echo ready; while [ ! -e " + flag + " ]; do sleep 0.05; done; exit 6", 6, "runs on"},
		} {
			name := servers.Name(t) + itoa(n)
			b := baton(t, url, "lock", c.flag, name, "--", "sh", "-c", c.script)
			b.says("ready")
			s.remove(t, name)
			await.Until(t, "the loss to be noticed", func() bool { return strings.Contains(b.err.String(), c.words) })
			if c.flag == "--keep-running" {
				if err := os.WriteFile(flag, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b.wants(c.code)
			if told := strings.Contains(b.out.String(), "told"); told != (c.flag == "--grace=5") {
				t.Errorf("%s: stdout is %q", c.flag, b.out.String())
			}
		}
	})
}

// The kernel sends SIGHUP to a process group with a stopped process when the
// group's last member with a parent elsewhere in the session ends. So no
// process of baton may be in the script's group.
func TestScriptGetsNoSIGHUPWhenBatonEnds(t *testing.T) {
	t.Parallel()
	s := site{"etcd", servers.Etcd(t).Endpoints()}
	const script = `sleep 600 >/dev/null 2>&1 & pid=$!; disown; kill -STOP $pid
set -m; "$0" lock "$1" -- true; sleep 0.5; kill -KILL $pid; echo lives`
	c := exec.Command("bash", "-c", script, batonbin.Path(t), servers.Name(t))
	c.Env = append(os.Environ(), "BATON_URL="+s.url(10*time.Second))
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := c.CombinedOutput(); err != nil || string(out) != "lives\n" {
		t.Errorf("%v: %q", err, out)
	}
}
