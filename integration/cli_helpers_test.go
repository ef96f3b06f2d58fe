package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/batonbin"
)

// command is a running baton.
type command struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  lockedBuffer // standard output
	err  lockedBuffer
	done chan struct{}
}

// baton starts the program on a service.
func baton(t *testing.T, url string, args ...string) *command {
	t.Helper()
	return batonReading(t, url, "", args...)
}

// batonReading starts the program with an input.
func batonReading(t *testing.T, url, input string, args ...string) *command {
	t.Helper()
	return startBaton(t, batonbin.Path(t), url, input, args...)
}

// startBaton starts a program that is baton, perhaps of an earlier version.
func startBaton(t *testing.T, path, url, input string, args ...string) *command {
	t.Helper()
	c := &command{t: t, cmd: exec.Command(path, args...), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), "BATON_URL="+url)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = strings.NewReader(input), &c.out, &c.err
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell's job
	// A command that outlives the program must not keep the test waiting for
	// the ends of its streams.
	c.cmd.WaitDelay = time.Second
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		_ = c.cmd.Wait() // code has the outcome
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
		if t.Failed() {
			t.Logf("baton %s\nstdout: %s\nstderr: %s", strings.Join(args, " "), c.out.String(), c.err.String())
		}
	})
	return c
}

// code returns the exit code as a shell shows it: 128+n if signal n ended the
// program.
func (c *command) code() int {
	c.t.Helper()
	await.Receive(c.t, fmt.Sprintf("the end of baton %v", c.cmd.Args[1:]), c.done)
	if sig := c.diedOf(); sig != 0 {
		return 128 + int(sig)
	}
	return c.cmd.ProcessState.ExitCode()
}

// diedOf returns the signal that ended the program, or 0, after its end.
func (c *command) diedOf() syscall.Signal {
	if status := c.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return status.Signal()
	}
	return 0
}

// wants checks the exit code, and that stderr contains the words.
func (c *command) wants(code int, words ...string) {
	c.t.Helper()
	if got := c.code(); got != code {
		c.t.Errorf("baton %q exited with %d, want %d; stderr: %s", c.cmd.Args[1:], got, code, c.err.String())
	}
	for _, w := range words {
		if !strings.Contains(c.err.String(), w) {
			c.t.Errorf("baton %q does not print %q, but: %s", c.cmd.Args[1:], w, c.err.String())
		}
	}
}

// says waits for words in stdout.
func (c *command) says(words string) {
	c.t.Helper()
	await.Until(c.t, "the command to print "+words, func() bool { return strings.Contains(c.out.String(), words) })
}

func (c *command) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// gone reports whether a process has ended; a zombie has.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
