package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// ErrNoTrace means that the kernel does not let this process trace others, as
// in containers without SYS_PTRACE.
var ErrNoTrace = errors.New("child: processes cannot be traced")

const (
	// attachTimeout bounds how long strace may take to have all threads: it
	// stops each of them.
	attachTimeout = time.Minute
	// detachTimeout bounds how long strace may take to detach from them.
	detachTimeout = 10 * time.Second
)

// canTrace tries strace once on a process of its own: a failure there means
// that the machine does not allow it.
var canTrace = sync.OnceValue(func() error {
	p, err := Start(exec.Command("sleep", "1000"))
	if err != nil {
		return err
	}
	defer p.Kill()
	stop, err := inject(p.PID(), "fdatasync,fsync", "delay_enter=1ms")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoTrace, err)
	}
	stop()
	return nil
})

// Inject changes the behaviour of system calls of a process, in its present and
// future threads, with strace, which must be installed. calls is a list such as
// "fdatasync,fsync", what is for example "delay_enter=400ms" or "error=EIO". It
// returns when all threads are traced or the process has ended, perhaps by the
// fault; or with ErrNoTrace where the machine does not allow tracing. stop ends
// it and leaves the process running.
func Inject(pid int, calls, what string) (stop func(), err error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, fmt.Errorf("child: strace is missing; on Debian and its relatives, as root: apt-get install strace: %w", err)
	}
	if err := canTrace(); err != nil {
		return nil, err
	}
	return inject(pid, calls, what)
}

func inject(pid int, calls, what string) (stop func(), err error) {
	log, err := os.CreateTemp("", "baton-strace-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd := exec.Command("strace", "-f", "-qq", "-p", fmt.Sprint(pid), "-o", os.DevNull,
		"-e", "trace="+calls, "-e", "inject="+calls+":"+what)
	cmd.Stderr = log
	p, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(attachTimeout); ; time.Sleep(5 * time.Millisecond) {
		switch {
		case allTraced(pid):
			return func() { detach(p) }, nil
		case p.Running() && time.Now().Before(deadline):
			continue
		case !p.Running() && p.Wait() == nil: // strace's status when the process ends
			return func() {}, nil
		}
		p.Kill()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("child: strace: %w: %s", ended(p), bytes.TrimSpace(said))
	}
}

// detach ends strace, by force if necessary: the kernel detaches the threads of
// a dead tracer.
func detach(strace *Process) {
	_ = strace.Interrupt()
	select {
	case <-strace.Done():
	case <-time.After(detachTimeout):
		strace.Kill()
	}
}

// allTraced reports whether every thread of a process has a tracer.
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
