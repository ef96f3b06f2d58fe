package ward

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestReadProcess(t *testing.T) {
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	p, err := readProcess(pid)
	want := process{pid: pid, parent: os.Getpid(), group: pid, session: pid, name: p.name, start: p.start}
	if err != nil || p != want || p.start == 0 {
		t.Errorf("readProcess = %+v, %v; want %+v", p, err, want)
	}
	other := p
	other.start--
	if err := other.signal(syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a process of another start time got the signal: %v", err)
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	for p.ended = false; !p.ended; {
		if p, err = readProcess(pid); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.Wait()
	if _, err := readProcess(pid); err == nil {
		t.Error("a process that was waited for is in the table")
	}
}
