package child_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/integration/internal/servers"
)

func sleeper(t *testing.T) *child.Process {
	t.Helper()
	p, err := child.Start(exec.Command("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestKillEndsEvenAPausedProcess(t *testing.T) {
	p := sleeper(t)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	if !p.Running() {
		t.Fatal("a paused process does not count as running")
	}
	p.Kill()
	if p.Running() {
		t.Fatal("still running after Kill")
	}
	var exit *exec.ExitError
	if !errors.As(p.Wait(), &exit) {
		t.Fatalf("Wait: %v, want an exit error", p.Wait())
	}
	if err := p.Pause(); !errors.Is(err, child.ErrNotRunning) {
		t.Fatalf("Pause after the end: %v", err)
	}
	p.Kill() // twice is harmless
}

func TestPausedProcessDoesNotRunUntilResumed(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	p, err := child.Start(exec.Command("sh", "-c", "while :; do echo x >>"+count+"; done"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	size := func() int64 {
		info, err := os.Stat(count)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	await.Until(t, "the counter to run", func() bool { return size() > 0 })
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	before := size()
	await.For(t.Context(), 50*time.Millisecond) // in which it would write
	if after := size(); after != before {
		t.Fatalf("wrote %d bytes while paused", after-before)
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the counter to run again", func() bool { return size() > before })
}

func TestAwaitReadyShowsTheLogOfAServerThatEnded(t *testing.T) {
	s := child.NewServer("broken", filepath.Join(t.TempDir(), "log"),
		func() *exec.Cmd { return exec.Command("sh", "-c", "echo no such luck; exit 3") },
		func(context.Context) error { return errors.New("not yet") })
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	err := s.AwaitReady(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such luck") || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("AwaitReady: %v", err)
	}
}

func TestServerRestartsUnderTheSameNameWithANewProcess(t *testing.T) {
	s := child.NewServer("sleep", filepath.Join(t.TempDir(), "log"),
		func() *exec.Cmd { return exec.Command("sleep", "1000") },
		func(context.Context) error { return nil })
	t.Cleanup(s.Kill)
	if err := s.Pause(); !errors.Is(err, child.ErrNotRunning) {
		t.Fatalf("Pause before the start: %v", err)
	}
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	if err := s.Launch(); err == nil {
		t.Fatal("started twice")
	}
	first := s.PID()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.PID() == first || !s.Running() {
		t.Fatalf("process %d after process %d, running %v", s.PID(), first, s.Running())
	}
}

// As the package comment says: children are killed when the test process is
// killed, though no deferred function runs then. A second run of this test
// binary is the victim.
func TestChildDiesWithItsParent(t *testing.T) {
	if os.Getenv("CHILD_TEST_VICTIM") != "" {
		p, err := child.Start(exec.Command("sleep", "1000"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("child %d\n", p.PID())
		select {} // until killed
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills children with their parent")
	}
	victim := exec.Command(os.Args[0], "-test.run=^TestChildDiesWithItsParent$")
	victim.Env = append(os.Environ(), "CHILD_TEST_VICTIM=1")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "child %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	_ = victim.Process.Kill()
	_ = victim.Wait()
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }() // if it outlives its parent
	await.Until(t, fmt.Sprintf("the end of process %d", pid), func() bool { return !alive(pid) })
}

// alive is false for a process that has ended, or is a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestInjectedFaultEndsAndLeavesTheProcess(t *testing.T) {
	p := sleeper(t)
	heal, err := child.Inject(p.PID(), "fdatasync,fsync", "delay_enter=1ms")
	if errors.Is(err, child.ErrNoTrace) {
		servers.CannotRun(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !traced(p.PID()) {
		t.Error("the process is not traced")
	}
	heal()
	if traced(p.PID()) || !p.Running() {
		t.Errorf("afterwards: traced %v, running %v", traced(p.PID()), p.Running())
	}
}

// A fault can end the process before all its threads were seen traced.
func TestInjectedFaultMayEndTheProcessAtOnce(t *testing.T) {
	p := sleeper(t)
	heal, err := child.Inject(p.PID(), "fsync", "error=EIO")
	if errors.Is(err, child.ErrNoTrace) {
		servers.CannotRun(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	heal()
	bin := t.TempDir() // a strace whose process ends at once
	script := fmt.Sprintf("#!/bin/sh\nkill -9 %d\nexit 0\n", p.PID())
	if err := os.WriteFile(filepath.Join(bin, "strace"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	if heal, err = child.Inject(p.PID(), "fsync", "error=EIO"); err != nil {
		t.Fatal(err)
	}
	heal()
}

func traced(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "TracerPid:\t0\n")
}
