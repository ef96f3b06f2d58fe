// Package child runs other programs under a test's thumb: kill -9, pause,
// resume, start again, and never outlive the test.
//
// A [Process] is one run of a program. A [Server] is a program that can be
// started again with the same data, and whose log is at hand when something
// fails.
//
// Processes are ended by their id, and on Linux by the kernel when the test
// process dies for whatever reason (a timeout's SIGQUIT, a panic, kill -9).
// Elsewhere a test process that was killed leaves its children running.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// ErrNotRunning is returned by the levers of a process that has ended or was
// never started.
var ErrNotRunning = errors.New("child: the process is not running")

// Process is one run of a program. All methods may be called concurrently.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how the process ended; read only after done is closed
}

// Start starts cmd and waits for its end in the background. Standard streams
// have to be files or nil, so that nothing but the process itself is waited
// for.
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
// not when the process does. So the goroutine keeps its thread to itself until
// the child is gone; else a child could be killed in mid-test because Go
// retired a thread.
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

// Wait waits for the end of the process and says how it ended: nil for status
// 0, else an [exec.ExitError].
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

// Kill ends the process with SIGKILL, paused or not, and waits until it is
// gone. Killing a process that has ended already does nothing.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended, which is what we want
	<-p.done
}

// Pause stops the process with SIGSTOP and returns when all its threads stand
// still.
func (p *Process) Pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(p.PID())
}

// Resume lets a paused process go on (SIGCONT). It does nothing to one that
// runs.
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
