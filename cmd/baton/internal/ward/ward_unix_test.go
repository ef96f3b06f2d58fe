//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Main() // does not return in a guard process
	if script := os.Getenv(starter); script != "" {
		runStarter(script)
	}
	os.Exit(m.Run())
}

// starter is the environment variable of a test process that starts a script
// and waits for its own end.
const starter = "WARD_TEST_SCRIPT"

func runStarter(script string) {
	w, err := Start(Spec{
		Path: "/bin/bash", Args: []string{"bash", "-c", script}, Env: os.Environ(),
		Out: os.Stdout, Err: os.Stderr, Title: "test", Deadline: time.Now().Add(time.Hour),
	})
	if err != nil {
		panic(err)
	}
	<-w.Done()
	time.Sleep(time.Hour)
}

// start runs a script with a deadline.
func start(t *testing.T, deadline time.Time, script string) (*Ward, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	w, err := Start(Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(), Out: out, Err: out, Title: t.Name(), Deadline: deadline,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Kill()
		<-w.Done()
		w.Close()
	})
	return w, out
}

// within is a bound that only a hang exceeds.
const within = time.Minute

// A busy machine may need longer than a second to start the guard and the
// command: then the next one has twice the time.
func TestCommandIsKilledAtItsDeadline(t *testing.T) {
	for soon := time.Second; ; soon *= 2 {
		w, err := Start(Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", "trap '' TERM; sleep 600 & sleep 600"}, Env: os.Environ(),
			Title: t.Name(), Deadline: time.Now().Add(soon),
		})
		if err != nil && soon < within {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if code := w.Code(); code != 128+9 {
			t.Errorf("the command ended with %d", code)
		}
		<-w.Gone()
		return
	}
}

// dialog is a command that answers until it is told to end, with status 4.
type dialog struct {
	*Ward
	in  *os.File
	out *bufio.Reader
}

func startDialog(t *testing.T, deadline time.Time) (*dialog, error) {
	t.Helper()
	in, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	hear, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = say.Close(), hear.Close() })
	w, err := Start(Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", `while read -r line; do echo "$line"; test "$line" != end || break; done; sleep 1; exit 4`},
		Env: os.Environ(), In: in, Out: out, Title: t.Name(), Deadline: deadline,
	})
	_, _ = in.Close(), out.Close() // its end of the pipes closes when the command ends
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = w.Kill()
		<-w.Done()
		w.Close()
	})
	return &dialog{w, say, bufio.NewReader(hear)}, nil
}

// answers reports whether the command lives.
func (d *dialog) answers(line string) bool {
	_, bad := fmt.Fprintln(d.in, line)
	got, err := d.out.ReadString('\n')
	return bad == nil && err == nil && got == line+"\n"
}

// beyond runs a command beyond its first deadline. It calls before, stops the
// guard, calls stopped, and continues the guard when that deadline has passed.
// If the guard has killed the command before it was stopped, the machine was
// too slow, and the next command has twice the time.
func beyond(t *testing.T, before, stopped func(*dialog) error) {
	t.Helper()
	for soon := time.Second; ; soon *= 2 {
		old := time.Now().Add(soon)
		d, err := startDialog(t, old)
		if err == nil {
			err = errors.Join(before(d), d.stopGuard())
		}
		if err == nil && d.answers("alive") {
			if err := stopped(d); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(old.Add(time.Second)))
			d.guard.wake()
			if !d.answers("end") || d.Code() != 4 {
				t.Errorf("the command ended with %d", d.Code())
			}
			return
		}
		if soon > within {
			t.Fatalf("the command was gone before its guard was stopped, with a deadline of %v: %v", soon, err)
		}
	}
}

// stopGuard returns when the guard has stopped.
func (d *dialog) stopGuard() error {
	if err := d.guard.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(d.guard.pid(), &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || status.Stopped():
			return err
		default:
			return fmt.Errorf("the guard ended: %v", status)
		}
	}
}

func TestExtendReplacesTheDeadline(t *testing.T) {
	beyond(t, func(d *dialog) error { return d.Extend(time.Now().Add(time.Hour)) },
		func(*dialog) error { return nil })
}

// A guard that was stopped reads the pending deadlines before it acts on an old
// one.
func TestGuardReadsPendingDeadlinesAfterAStop(t *testing.T) {
	beyond(t, func(*dialog) error { return nil },
		// Extend would continue it.
		func(d *dialog) error { return d.guard.extend(time.Now().Add(time.Hour)) })
}

// TestGuardReadsPendingDeadlinesAfterSignals: signals that arrive when it goes
// on interrupt its wait, before it has seen what is pending.
func TestGuardReadsPendingDeadlinesAfterSignals(t *testing.T) {
	beyond(t, func(*dialog) error { return nil },
		func(d *dialog) error {
			for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGWINCH} {
				if err := d.guard.cmd.Process.Signal(sig); err != nil {
					return err
				}
			}
			return d.guard.extend(time.Now().Add(time.Hour))
		})
}

func TestCloseKillsTheRestOfTheGroup(t *testing.T) {
	w, out := start(t, time.Now().Add(time.Minute), "trap '' TERM; sleep 600 >/dev/null 2>&1 & echo $!")
	if code := w.Code(); code != 0 {
		t.Fatalf("the command ended with %d", code)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Gone():
		t.Error("nothing is left")
	case <-time.After(50 * time.Millisecond):
	}
	w.Close()
	for end := time.Now().Add(within); syscall.Kill(pid, 0) == nil; <-time.After(pollEvery) {
		if time.Now().After(end) {
			t.Fatalf("process %d is left", pid)
		}
	}
}

func TestCloseKillsNothingWithoutADeadline(t *testing.T) {
	w, out := start(t, time.Time{}, "sleep 600 >/dev/null 2>&1 & echo $!")
	<-w.Done()
	w.Close()
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("process %d: %v", pid, err)
	}
}

func TestUserSignalsGoToTheCommandAlone(t *testing.T) {
	hup := make(chan os.Signal, 1) // under nohup the commands would inherit the ignored signal; a caught one is not inherited
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	// The child runs the trap before it looks for the file again.
	const script = `sh -c 'trap "echo child $1; exit" $1; : >"$2"; until [ -e "$2.over" ]; do sleep 0.1; done' - NAME "$READY" & wait`
	for _, c := range []struct {
		sig   syscall.Signal
		name  string
		child bool
	}{{syscall.SIGHUP, "HUP", true}, {syscall.SIGTERM, "TERM", true}, {syscall.SIGUSR1, "USR1", false}} {
		ready := filepath.Join(t.TempDir(), c.name) // exists when the trap is set
		t.Setenv("READY", ready)
		w, out := start(t, time.Now().Add(time.Minute), strings.Replace(script, "NAME", c.name, 1))
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(ready); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		w.Signal(c.sig)
		if err := os.WriteFile(ready+".over", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := w.Code(); code != 128+int(c.sig) {
			t.Errorf("%s: the command ended with %d", c.name, code)
		}
		if got := strings.Contains(out.String(), "child "+c.name); got != c.child {
			t.Errorf("%s: the child's output is %q", c.name, out.String())
		}
	}
}

func TestMissingProgramLeavesNoGuard(t *testing.T) {
	_, err := Start(Spec{Path: "/no/such/program", Args: []string{"x"}, Deadline: time.Now().Add(time.Minute)})
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrUnguarded) {
		t.Errorf("Start = %v", err)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child process is left: %d, %v", pid, err)
	}
}

func TestExtendFailsWhenTheGuardHasDied(t *testing.T) {
	w, _ := start(t, time.Now().Add(time.Minute), "exec sleep 600")
	if err := w.guard.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); w.Extend(time.Now().Add(time.Minute)) == nil; {
		if time.Now().After(end) {
			t.Fatal("Extend still succeeds")
		}
	}
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	if code := w.Code(); code != 128+9 {
		t.Errorf("the command ended with %d", code)
	}
}

// Without a terminal the command leads no group, as in a script. The group has
// no other processes: they would get the SIGHUP that the kernel sends to an
// orphaned group with a stopped process.
func TestCommandLeadsAGroupIfThereIsATerminal(t *testing.T) {
	w, _ := start(t, time.Now().Add(time.Minute), "exec sleep 600")
	want := w.guard.pid()
	if w.tty != nil {
		want = w.command.pid
	}
	if group, err := syscall.Getpgid(w.command.pid); err != nil || group != want || group != w.command.group {
		t.Errorf("the command is in group %d, %v; want %d", group, err, want)
	}
	if group, err := syscall.Getpgid(w.guard.pid()); err != nil || group != w.guard.pid() {
		t.Errorf("the guard %d is in group %d, %v", w.guard.pid(), group, err)
	}
}

func TestProgramOfAnotherUserIsNoticed(t *testing.T) {
	program, own := filepath.Join(t.TempDir(), "sudo"), os.Geteuid()
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if changesUser(program, own+1) {
		t.Error("a program without the set-user-ID bit is noticed")
	}
	if err := os.Chmod(program, 0o700|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if !changesUser(program, own+1) || changesUser(program, own) || changesUser(program, 0) {
		t.Error("want it noticed for users but the owner and root")
	}
}
