package ward

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// onTerminal runs this program again, to run a program in the foreground of a
// terminal of its own, and returns its exit code.
func onTerminal(t *testing.T, program string) int {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), foreground+"="+program), os.Stderr
	master, err := pty.Start(c)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	late := time.AfterFunc(within, func() { _ = c.Process.Kill() })
	defer late.Stop()
	_ = c.Wait() // ProcessState has the outcome
	return c.ProcessState.ExitCode()
}

// The group to which the terminal was given has no process left. A script
// around baton, which has no job control, would be stopped when it reads.
func TestTerminalIsTakenBackFromAGroupThatHasEnded(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for what, program := range map[string]string{
		"program that cannot be executed": program, "killed shell, whose child has the terminal": "",
	} {
		t.Run(what, func(t *testing.T) {
			if code := onTerminal(t, program); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// With `stty tostop` the terminal stops each background process that writes. A
// message must not stop the one that renews the session.
func TestMessagesAreWrittenWhileTheCommandHasTheForeground(t *testing.T) {
	if code := onTerminal(t, tostop); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

const tostop = "tostop"

// runToStop exits with 0 if this process can write to the terminal while the
// command has it. (Its own group is orphaned, so it would not be stopped: the
// write would fail.)
func runToStop() {
	mode, err := unix.IoctlGetTermios(1, unix.TCGETS)
	if err != nil {
		os.Exit(2)
	}
	mode.Lflag |= unix.TOSTOP
	if err := unix.IoctlSetTermios(1, unix.TCSETS, mode); err != nil {
		os.Exit(3)
	}
	w, err := Start(Spec{
		Path: "/bin/sleep", Args: []string{"sleep", "600"}, Env: os.Environ(),
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Title: "test", Deadline: time.Now().Add(time.Hour),
	})
	if err != nil || w.tty.ours() {
		os.Exit(4)
	}
	if _, err := os.Stdout.WriteString("message\n"); err != nil {
		os.Exit(1)
	}
	_ = w.Kill()
	w.Close()
	// SIGTTOU is signal 22, which the next command must not ignore.
	w, err = Start(Spec{
		Path: "/bin/bash", Args: []string{"bash", "-c",
			`while read key mask; do [ "$key" != SigIgn: ] || exit $((0x$mask >> 21 & 1)); done </proc/self/status; exit 2`},
		Env: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Title: "test", Deadline: time.Now().Add(time.Hour),
	})
	if err != nil {
		os.Exit(5)
	}
	code := w.Code()
	w.Close()
	if code != 0 {
		os.Exit(10 + code)
	}
	os.Exit(0)
}

// runForeground runs a program, or a shell with job control whose child it
// kills with the shell, and exits with 0 if it has the terminal afterwards.
func runForeground(program string) {
	s := Spec{
		Path: program, Args: []string{program}, Env: os.Environ(),
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Title: "test", Deadline: time.Now().Add(time.Hour),
	}
	if program == "" {
		s.Path, s.Args = "/bin/bash", []string{"bash", "--norc", "-ic", "sleep 600; true"}
	}
	front := func() int { group, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP); return group }
	w, err := Start(s)
	if err == nil {
		for group := front(); group == w.tty.own || group == w.command.group; group = front() {
			time.Sleep(pollEvery)
		}
		_ = w.Kill()
		w.Close()
	} else if program == "" {
		os.Exit(2)
	}
	if front() != syscall.Getpgrp() {
		os.Exit(1)
	}
	os.Exit(0)
}
