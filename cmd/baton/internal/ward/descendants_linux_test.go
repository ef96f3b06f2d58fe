package ward

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// witness reads the output of a command. The output ends when the last process
// that inherited it has ended.
type witness struct {
	t   *testing.T
	out *os.File
	in  *bufio.Reader
}

// startWitnessed runs a script with a deadline.
func startWitnessed(t *testing.T, deadline time.Time, script string) (*Ward, *witness) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	t.Cleanup(func() { _ = read.Close() })
	w, err := Start(Spec{
		Path: "/bin/bash", Args: []string{"bash", "-c", script}, Env: os.Environ(),
		Out: write, Title: t.Name(), Deadline: deadline,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Kill()
		<-w.Done()
		w.Close()
	})
	return w, &witness{t: t, out: read, in: bufio.NewReader(read)}
}

func (o *witness) says(line string) {
	o.t.Helper()
	_ = o.out.SetReadDeadline(time.Now().Add(within))
	if got, err := o.in.ReadString('\n'); got != line+"\n" {
		o.t.Fatalf("the command prints %q, want %q: %v", got, line, err)
	}
}

// ends waits for the end of all processes.
func (o *witness) ends() {
	o.t.Helper()
	_ = o.out.SetReadDeadline(time.Now().Add(within))
	if rest, err := io.ReadAll(o.in); err != nil {
		o.t.Errorf("a process still runs: %v; output: %q", err, rest)
	}
}

// leavers are scripts whose processes leave the command's process group. Each
// prints "ready" when the processes run.
var leavers = map[string]string{
	"timeout":               `exec timeout 600 sh -c "echo ready; sleep 600"`,
	"timeout in background": `timeout 600 sh -c "echo ready; sleep 600" & wait`,
	"job control":           `set -m; sh -c "echo ready; sleep 600" & wait`,
	"session":               `setsid sh -c "echo ready; sleep 600" & wait`,
	"waited session":        `exec setsid --wait sh -c "echo ready; sleep 600"`,
	"daemon":                `(setsid sh -c "echo ready; exec sleep 600" &); sleep 600`,
	"forks":                 `echo ready; while :; do setsid sleep 5 & done`,
	"nested":                `timeout 600 bash -c 'set -m; setsid --wait timeout 600 sh -c "echo ready; sleep 600" & wait'`,
}

func TestKillReachesProcessesOutsideTheGroup(t *testing.T) {
	for name, script := range leavers {
		t.Run(name, func(t *testing.T) {
			w, out := startWitnessed(t, time.Now().Add(time.Hour), script)
			out.says("ready")
			if err := w.Kill(); err != nil {
				t.Error(err)
			}
			out.ends()
		})
	}
}

func TestTerminateReachesProcessesOutsideTheGroup(t *testing.T) {
	for name, script := range leavers {
		t.Run(name, func(t *testing.T) {
			w, out := startWitnessed(t, time.Now().Add(time.Hour), script)
			out.says("ready")
			w.Terminate()
			out.ends()
		})
	}
}

// One after the other, as all tests with a ward of this process: one that loses
// its guard ends all children of the process.
func TestDeadlineEndsProcessesOutsideTheGroup(t *testing.T) {
	for name, script := range leavers {
		t.Run(name, func(t *testing.T) {
			w, out := startWitnessed(t, time.Now().Add(time.Hour), script)
			out.says("ready")
			if err := w.Extend(time.Now()); err != nil {
				t.Fatal(err)
			}
			out.ends()
		})
	}
}

// other starts a process that starts a script.
func other(t *testing.T, script string) (*exec.Cmd, *witness) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	t.Cleanup(func() { _ = read.Close() })
	c := exec.Command(os.Args[0])
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), starter+"="+script), write, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c, &witness{t: t, out: read, in: bufio.NewReader(read)}
}

func TestNoProcessOutlivesAStarterThatIsKilled(t *testing.T) {
	for name, script := range leavers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, out := other(t, script)
			out.says("ready")
			if err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			out.ends()
		})
	}
}

func TestGoneWaitsForProcessesOutsideTheGroup(t *testing.T) {
	for name, script := range map[string]string{
		"timeout":     `timeout 600 sh -c "echo ready; sleep 600" & exit 3`,
		"job control": `set -m; sh -c "echo ready; sleep 600" & exit 3`,
		"orphan":      `(timeout 600 sh -c "echo ready; sleep 600" &); exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			w, out := startWitnessed(t, time.Now().Add(time.Hour), script)
			if code := w.Code(); code != 3 {
				t.Errorf("the command ended with %d", code)
			}
			out.says("ready")
			w.Spare()
			select {
			case <-w.Gone():
				t.Error("nothing is left")
			case <-time.After(5 * pollEvery):
			}
			if err := w.Kill(); err != nil {
				t.Error(err)
			}
			out.ends()
			<-w.Gone()
		})
	}
}

// The command shares no process with its starter that a signal to itself could
// end, and it can leave its group as it can in a script.
func TestSessionOfTheDirectCommandIsItsOwn(t *testing.T) {
	w, out := startWitnessed(t, time.Now().Add(time.Hour), `exec setsid sh -c "echo ready; sleep 600; exit 3"`)
	out.says("ready")
	select {
	case <-w.Done():
		t.Error("the command counts as ended")
	default:
	}
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	out.ends()
	if code := w.Code(); code != 128+9 {
		t.Errorf("the command ended with %d", code)
	}
}

func TestSpareLeavesDaemonsAlone(t *testing.T) {
	t.Setenv("READY", filepath.Join(t.TempDir(), "ready")) // exists when the daemon has its session
	w, out := startWitnessed(t, time.Now().Add(time.Hour), `sleep 600 & echo $!
		setsid sh -c 'echo $$; : >"$READY"; sleep 600' &
		until [ -e "$READY" ]; do sleep 0.05; done; exit 3`)
	if code := w.Code(); code != 3 {
		t.Fatalf("the command ended with %d", code)
	}
	var left, daemon int
	if _, err := fmt.Fscan(out.in, &left, &daemon); err != nil {
		t.Fatal(err)
	}
	w.Spare()
	has := func(names []string, pid int) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, fmt.Sprintf("(%d)", pid)) })
	}
	if names := w.Left(); len(names) != 1 || !has(names, left) {
		t.Errorf("%q are left, want process %d of the command's session", names, left)
	}
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	<-w.Gone()
	if names := w.Spared(); has(names, left) || !has(names, daemon) {
		t.Errorf("%q are spared, want process %d", names, daemon)
	}
	w.Close()
	if err := syscall.Kill(-daemon, syscall.SIGKILL); err != nil {
		t.Errorf("the daemon: %v", err)
	}
	out.ends()
}

// Each process of a chain forks once and ends at once, so a walk often sees
// none of them. It is no daemon, and the command has not ended before it has.
func TestGoneWaitsForProcessesThatNoWalkSees(t *testing.T) {
	w, out := startWitnessed(t, time.Now().Add(time.Hour), `f() { [ $SECONDS -ge 3 ] || f & }; f; echo ready; exit 3`)
	out.says("ready")
	<-w.Done()
	w.Spare()
	<-w.Gone()
	select {
	case <-w.empty:
	default:
		t.Error("processes are left")
	}
	out.ends()
}

// A daemon that may live on keeps the guard from reporting that nothing is
// left, so a walk has to see the chain beside it.
func TestGoneWaitsForAChainBesideADaemon(t *testing.T) {
	over := filepath.Join(t.TempDir(), "over")
	t.Setenv("OVER", over)
	w, out := startWitnessed(t, time.Now().Add(time.Hour), `(setsid sleep 600 >/dev/null 2>&1 & echo $!)
		f() { if [ $SECONDS -ge 3 ]; then : >$OVER; else f & fi; }; f; exit 3`)
	var daemon int
	if _, err := fmt.Fscan(out.in, &daemon); err != nil {
		t.Fatal(err)
	}
	<-w.Done()
	w.Spare()
	<-w.Gone()
	if _, err := os.Stat(over); err != nil {
		t.Errorf("the chain has not ended: %v", err)
	}
	if err := syscall.Kill(daemon, syscall.SIGKILL); err != nil {
		t.Errorf("the daemon: %v", err)
	}
	w.Close()
	out.ends()
}

// If the guard is killed, its starter takes its place.
func TestRestEndsWhenTheGuardIsKilled(t *testing.T) {
	for name, script := range leavers {
		t.Run(name, func(t *testing.T) {
			w, out := startWitnessed(t, time.Now().Add(time.Hour), script)
			out.says("ready")
			if err := w.guard.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			out.ends()
			<-w.Gone()
			if err := w.Err(); !errors.Is(err, ErrUnguarded) || w.Code() != 128+9 {
				t.Errorf("Err = %v, the command ended with %d", err, w.Code())
			}
		})
	}
}

// A guard that is killed right after the start cannot name the command.
func TestFailedStartLeavesNoProcess(t *testing.T) {
	guard := exec.Command("bash", "-c", `setsid bash -c "sleep 600 & sleep 600" >/dev/null 2>&1 & echo $!`)
	w := &Ward{guarded: true, except: children(), guard: &handle{cmd: guard}}
	if err := setSubreaper(true); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = setSubreaper(false) }()
	out, err := guard.Output()
	if err != nil {
		t.Fatal(err)
	}
	w.endOrphans()
	if pid := strings.TrimSpace(string(out)); exec.Command("kill", "-0", pid).Run() == nil {
		t.Errorf("process %s is left", pid)
	}
	if table, err := processes(); err != nil || len(w.scope().kin(table)) != 0 {
		t.Errorf("processes are left: %v", err)
	}
}

func TestStoppedGuardIsContinued(t *testing.T) {
	for name, wakes := range map[string]func(w *Ward){
		"by a deadline": func(w *Ward) { _ = w.Extend(time.Now().Add(time.Hour)) },
		"by a signal":   func(w *Ward) { w.Signal(syscall.SIGWINCH) },
	} {
		t.Run(name, func(t *testing.T) {
			w, out := startWitnessed(t, time.Now().Add(time.Hour), "echo ready; exit 3")
			if err := w.guard.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			out.ends()
			wakes(w)
			if code := w.Code(); code != 3 {
				t.Errorf("the command ended with %d", code)
			}
		})
	}
}

func TestWithoutDeadlineTheCommandOutlivesItsGuard(t *testing.T) {
	w, out := startWitnessed(t, time.Time{}, "echo ready; sleep 0.5; exit 3")
	out.says("ready")
	if err := w.guard.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := w.Code(); code != 3 || w.Err() != nil {
		t.Errorf("the command ended with %d, %v", code, w.Err())
	}
}

// The first process of a container gets the orphans of all others.
func TestFirstProcessReapsOrphans(t *testing.T) {
	if err := exec.Command("unshare", "-fp", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("cannot run here: unshare: %v", err)
	}
	c := exec.Command("unshare", "-fp", "--mount-proc", os.Args[0])
	c.Env = append(os.Environ(), firstProcess+"=yes")
	if out, err := c.CombinedOutput(); err != nil || string(out) != "reaped\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// No signal ends the first process of a container, so its exit code says which
// one ended the command.
func TestFirstProcessReturnsFromRaise(t *testing.T) {
	if err := exec.Command("unshare", "-fp", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("cannot run here: unshare: %v", err)
	}
	c := exec.Command("unshare", "-fp", "--mount-proc", os.Args[0])
	c.Env = append(os.Environ(), firstProcess+"=raises")
	_ = c.Run() // ProcessState has the outcome
	if code := c.ProcessState.ExitCode(); code != 128+15 {
		t.Errorf("exit code %d", code)
	}
}

// It also reads the status of the command, if its guard was killed.
func TestFirstProcessKeepsTheExitCodeWithoutAGuard(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), firstProcess+"=reaps")
	out, _ := c.CombinedOutput() // ProcessState has the outcome
	if code := c.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// A process whose first thread has ended is not a zombie.
func TestProcessWithoutItsFirstThreadIsAlive(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), endThread+"=yes")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	for end := time.Now().Add(within); ; time.Sleep(pollEvery) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the first thread has not ended")
		}
	}
	if p, err := readProcess(c.Process.Pid); err != nil || p.ended {
		t.Errorf("readProcess = %+v, %v", p, err)
	}
}
