package netns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/integration/internal/servers"
)

// variable marks a process that runs one test in its own namespaces.
const variable = "BATON_NETNS"

// Enter returns true in a process with its own namespaces. Elsewhere it starts
// one to run this test, waits for its end, takes over its outcome, and returns
// false. It must be the first call in a test, which must not be a subtest.
func Enter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		syscall.CloseOnExec(outside) // servers do not inherit it
		return true
	}
	for name, from := range map[string]string{"ip": "iproute2", "nsenter": "util-linux"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%s is missing; on Debian and its relatives, as root: apt-get install %s", name, from)
		}
	}
	if err := allowed(); err != nil {
		servers.CannotRun(t, err)
	}
	out, err := run(t)
	t.Logf("in namespaces:\n%s", out)
	if err != nil {
		t.Fatalf("in namespaces: %v", err)
	}
	if strings.Contains(out, "\n--- SKIP") {
		t.Skip("see above") // the other process has written the summary
	}
	return false
}

// Outside returns the standard output of the process that called Enter, in the
// process in which Enter returned true. What a test prints is shown only at its
// end; this is for figures that take long.
func Outside() *os.File { return os.NewFile(outside, "outside") }

// outside is the first descriptor after the standard streams.
const outside = 3

// allowed tests whether the kernel allows namespaces and a bridge. New finds
// other restrictions.
func allowed() error {
	cmd := isolated("ip", "link", "add", "br0", "type", "bridge")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("network namespaces: %w %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// isolated returns a command in its own namespaces.
func isolated(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

// run runs the test in another process and returns its output.
func run(t *testing.T) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	args := []string{"-test.run=^" + regexp.QuoteMeta(t.Name()) + "$", "-test.v"}
	if deadline, ok := t.Deadline(); ok {
		args = append(args, fmt.Sprintf("-test.timeout=%v", time.Until(deadline)-time.Second))
	}
	out, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		return "", err
	}
	defer out.Close()
	cmd := isolated(program, args...)
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{os.Stdout}
	p, err := child.Start(cmd)
	if err != nil {
		return "", err
	}
	err = p.Wait()
	b, readErr := os.ReadFile(out.Name())
	return string(b), errors.Join(err, readErr)
}
