package ward

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestGroupLeaderIsNotCountedAlive(t *testing.T) {
	sleep := func(group int) *exec.Cmd {
		c := exec.Command("sleep", "600")
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		return c
	}
	group := sleep(0).Process.Pid
	if alive(group) {
		t.Error("the leader alone counts as alive")
	}
	other := sleep(group)
	if !alive(group) {
		t.Error("another process of the group does not count as alive")
	}
	if err := other.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if alive(group) {
		t.Error("a process that has ended counts as alive")
	}
}

// An interactive shell leaves its group.
func TestCommandThatLeavesItsGroupIsKilled(t *testing.T) {
	w, _ := start(t, time.Now().Add(time.Minute), "exec setsid sleep 600")
	pid := w.cmd.Process.Pid
	for group := w.group; group != pid; time.Sleep(10 * time.Millisecond) {
		var err error
		if group, err = syscall.Getpgid(pid); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	if code := w.Code(); code != 128+9 {
		t.Errorf("the command ended with %d", code)
	}
}
