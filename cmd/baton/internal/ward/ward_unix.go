//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Ending are the signals that ask a process to end. Others are further ones
// that Signal passes on.
var (
	Ending = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}
	Others = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}
)

// Ward is a command that runs. It is safe for concurrent use.
type Ward struct {
	cmd    *exec.Cmd
	guard  *guard // nil if the command may run for ever
	group  int
	tty    *terminal
	done   chan struct{}
	status syscall.WaitStatus // valid once done is closed, and so is front
	front  bool               // the command had the terminal when it ended
}

// Start starts a command. If that fails nothing is left behind. The error is
// ErrUnguarded if it was the guard that failed, else the system's.
func Start(s Spec) (*Ward, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	w := &Ward{tty: openTerminal(), done: make(chan struct{}), cmd: &exec.Cmd{
		Path: s.Path, Args: s.Args, Env: s.Env,
		Stdin: s.In, Stdout: s.Out, Stderr: s.Err, SysProcAttr: attr,
	}}
	if !s.Deadline.IsZero() {
		g, err := startGuard(s.Title, s.Deadline)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("%w: %w", ErrUnguarded, err)
		}
		w.guard, attr.Pgid = g, g.group()
		diesWithParent(attr)
	}
	if isTerminal(s.In) && isTerminal(s.Out) && w.tty.ours() {
		attr.Foreground, attr.Ctty = true, w.tty.fd
	}
	started := make(chan error)
	go w.run(started)
	if err := <-started; err != nil {
		w.tty.takeBack()
		w.Close()
		return nil, err
	}
	if w.guard == nil {
		return w, nil
	}
	if err := w.Extend(s.Deadline); err != nil { // the guard was gone before the command was there
		_ = w.Kill()
		<-w.done
		w.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnguarded, err)
	}
	return w, nil
}

// run starts the command and waits for its end, in one thread: where the kernel
// kills the command when its parent dies, the parent is the thread.
func (w *Ward) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := w.cmd.Start()
	w.group = w.cmd.SysProcAttr.Pgid
	if w.group == 0 && err == nil {
		w.group = w.cmd.Process.Pid
	}
	w.tty.serve(w.group)
	started <- err
	if err != nil {
		return
	}
	defer close(w.done)
	for {
		_, err := syscall.Wait4(w.cmd.Process.Pid, &w.status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == nil && w.status.Stopped():
			w.tty.stopped(w.status.StopSignal())
		default:
			w.front = w.tty.takeBack()
			_ = w.cmd.Wait() // for streams that are no files; of the process it knows no more
			return
		}
	}
}

// Done is closed when the command has ended.
func (w *Ward) Done() <-chan struct{} { return w.done }

// Code is the exit code of a command that has ended, 128+n if signal n ended
// it.
func (w *Ward) Code() int {
	<-w.done
	if w.status.Signaled() {
		return 128 + int(w.status.Signal())
	}
	return w.status.ExitStatus()
}

// Interrupted tells, after the end of the command, whether the terminal's
// Ctrl-C has ended it. See Interrupt.
func (w *Ward) Interrupted() bool {
	<-w.done
	return w.front && w.status.Signaled() && w.status.Signal() == syscall.SIGINT
}

// Interrupt ends this process and its group as the terminal would have done,
// had it not been given to the command: a shell that runs a script goes on with
// the next line unless it was interrupted, too, and its child died of the same
// signal. It returns if nothing ends this process.
func Interrupt() {
	signal.Reset(syscall.SIGINT)
	if syscall.Kill(0, syscall.SIGINT) == nil {
		<-time.After(time.Second)
	}
}

// Signal passes a signal on to the whole group, as a terminal does. A signal
// that has a meaning for some programs only, and ends others, goes to the
// command alone.
func (w *Ward) Signal(sig os.Signal) {
	switch sig {
	case syscall.SIGUSR1, syscall.SIGUSR2:
		_ = w.cmd.Process.Signal(sig)
	case syscall.SIGCONT:
		w.tty.give()
		w.send(syscall.SIGCONT)
	default:
		w.send(sig.(syscall.Signal))
	}
}

// Terminate asks the whole group to end.
func (w *Ward) Terminate() {
	w.send(syscall.SIGTERM)
	w.send(syscall.SIGCONT) // a stopped process does not act on the first one
}

// Kill ends the whole group, and the command if it has left the group. An error
// says that the command lives on: it has another user's rights, as under sudo.
func (w *Ward) Kill() error {
	w.send(syscall.SIGKILL)
	select {
	case <-w.done:
		return nil
	default:
	}
	if err := w.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (w *Ward) send(sig syscall.Signal) { _ = syscall.Kill(-w.group, sig) }

// Extend moves the deadline of a command that has one. An error says that the
// command is not guarded any more.
func (w *Ward) Extend(deadline time.Time) error { return w.guard.extend(deadline) }

// Left tells, after the end of a guarded command, whether others of its group
// live on. It waits for their end, for so long.
func (w *Ward) Left(patience time.Duration) bool {
	for end := time.Now().Add(patience); alive(w.group); <-time.After(lookEvery) {
		if time.Now().After(end) {
			return true
		}
	}
	return false
}

const lookEvery = 20 * time.Millisecond

// Close ends the guard, after the end of the command, and with it what is left
// of the group.
func (w *Ward) Close() {
	w.tty.close()
	if w.guard != nil {
		w.guard.end()
	}
}
