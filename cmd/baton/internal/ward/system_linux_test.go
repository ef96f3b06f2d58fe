package ward

import (
	"os/exec"
	"syscall"
	"testing"
)

// A warden that could not leave the group is not taken for one of the command's processes.
func TestLeaderOfTheGroupIsNotCountedAlive(t *testing.T) {
	sleep := func(group int) *exec.Cmd {
		c := exec.Command("sleep", "600")
		c.SysProcAttr = attributes(group, false)
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
		t.Error("a process that is gone counts as alive")
	}
}
