package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// dieWithParent makes the kernel kill the child when the thread that starts it
// ends.
//
// It also gives the child a process group of its own, so that a paused server
// is not in the group of the tests. When a process ends, the kernel may send
// SIGHUP to the group of one of its children: if the group is orphaned and has
// a stopped process. If that group were the tests', the end of one child would
// end the tests.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true
}

// awaitStopped waits until every thread of the process is in state T. SIGSTOP
// is asynchronous: without this a "paused" server could still answer one more
// request.
func awaitStopped(pid int) error {
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		if stopped, err := allStopped(pid); err != nil || stopped {
			return err
		}
		time.Sleep(200 * time.Microsecond)
	}
	return fmt.Errorf("child: process %d did not stop", pid)
}

func allStopped(pid int) (bool, error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	if len(stats) == 0 {
		return false, ErrNotRunning
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has just ended
		}
		if err != nil {
			return false, err
		}
		// "pid (name) S ...": the name may contain anything, so the state
		// follows the last parenthesis.
		i := bytes.LastIndexByte(stat, ')')
		if i < 0 || i+2 >= len(stat) || stat[i+2] != 'T' {
			return false, nil
		}
	}
	return true, nil
}
