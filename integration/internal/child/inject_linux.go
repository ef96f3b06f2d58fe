package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrNoTrace means that the kernel does not let this process trace others, as in containers without SYS_PTRACE.
var ErrNoTrace = errors.New("child: processes cannot be traced")

// Inject has strace (the program has to be there) change what system calls of a process do, threads that are there and
// threads to come: calls is "fdatasync,fsync", what is "delay_enter=400ms" or "error=EIO". It returns when all threads are
// under it. stop ends it and leaves the process running.
func Inject(pid int, calls, what string) (stop func(), err error) {
	program, err := exec.LookPath("strace")
	if err != nil {
		return nil, fmt.Errorf("child: strace is missing; on Debian and its relatives, as root: apt-get install strace: %w", err)
	}
	log, err := os.CreateTemp("", "baton-strace-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd := exec.Command(program, "-f", "-qq", "-p", fmt.Sprint(pid), "-o", os.DevNull,
		"-e", "trace="+calls, "-e", "inject="+calls+":"+what)
	cmd.Stderr = log
	p, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		switch {
		case allTraced(pid):
			return func() { _ = p.Interrupt(); <-p.Done() }, nil
		case p.Running() && time.Now().Before(deadline):
			continue
		}
		p.Kill()
		said, _ := os.ReadFile(log.Name())
		if strings.Contains(string(said), "not permitted") {
			return nil, fmt.Errorf("%w: %s", ErrNoTrace, bytes.TrimSpace(said))
		}
		return nil, fmt.Errorf("child: strace: %s", bytes.TrimSpace(said))
	}
}

// allTraced tells whether every thread of a process has a tracer.
func allTraced(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err == nil && bytes.Contains(status, []byte("\nTracerPid:\t0\n")) {
			return false
		}
	}
	return len(threads) > 0
}
