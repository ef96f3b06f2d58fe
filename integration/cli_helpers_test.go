package integration_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/batonbin"
)

// command is a baton that runs.
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

// batonReading gives it something to read.
func batonReading(t *testing.T, url, input string, args ...string) *command {
	t.Helper()
	c := &command{t: t, cmd: exec.Command(batonbin.Path(t), args...), done: make(chan struct{})}
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
		_ = c.cmd.Wait() // code tells
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

// code is the exit code, -1 if a signal ended the program.
func (c *command) code() int {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.t.Fatalf("baton %v has not ended for a minute", c.cmd.Args[1:])
	}
	return c.cmd.ProcessState.ExitCode()
}

// wants checks the exit code, and that the error output has the words.
func (c *command) wants(code int, words ...string) {
	c.t.Helper()
	if got := c.code(); got != code {
		c.t.Errorf("baton %q ended with %d, want %d; stderr: %s", c.cmd.Args[1:], got, code, c.err.String())
	}
	for _, w := range words {
		if !strings.Contains(c.err.String(), w) {
			c.t.Errorf("baton %q does not say %q, but: %s", c.cmd.Args[1:], w, c.err.String())
		}
	}
}

// says waits for words in the standard output.
func (c *command) says(words string) {
	c.t.Helper()
	eventually(c.t, 30*time.Second, "the command to say "+words, func() bool { return strings.Contains(c.out.String(), words) })
}

func (c *command) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// gone tells whether there is no such process, or only what is left of it until
// its parent looks.
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
