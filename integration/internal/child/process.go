// Package child runs other programs that a test can kill (kill -9), pause,
// resume and restart, and that never outlive the test.
//
// A [Process] is one run of a program. A [Server] is a program that can be
// restarted with the same data, and whose log is shown in errors.
//
// Processes are ended by their ID, and on Linux by the kernel when the test
// process dies for any reason (a timeout's SIGQUIT, a panic, kill -9).
// Elsewhere a killed test process leaves its children running.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// ErrNotRunning is returned by operations on a process that has ended or was
// never started.
var ErrNotRunning = errors.New("child: the process is not running")

// Process is one run of a program. All methods may be called concurrently.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how the process ended; read only after done is closed
}

// Start starts cmd and waits for its end in the background. Standard streams
// must be files or nil, so that only the process itself is waited for.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	return p, nil
}

// run owns the process from its start to its end.
//
// The kernel sends the parent-death signal when the *thread* that forked ends,
// not when the process does. So the goroutine locks its thread until the child
// has ended; otherwise Go could retire the thread and thereby kill the child
// during a test.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	dieWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process. It returns nil for status 0, else an
// [exec.ExitError].
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Running reports whether the process has not been seen to end. A paused
// process is running.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL, paused or not, and waits for its end. It
// does nothing if the process has already ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has already ended
	<-p.done
}

// Pause stops the process with SIGSTOP and returns when all its threads are
// stopped.
func (p *Process) Pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(p.PID())
}

// Resume continues a paused process (SIGCONT). It does nothing to a running
// one.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// Interrupt asks the process to end (SIGTERM) and does not wait.
func (p *Process) Interrupt() error { return p.signal(syscall.SIGTERM) }

func (p *Process) signal(sig os.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return ErrNotRunning
	}
	return err
}
