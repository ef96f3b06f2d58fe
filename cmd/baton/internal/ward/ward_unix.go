//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Ward is a command that runs. It is safe for concurrent use.
type Ward struct {
	cmd    *exec.Cmd
	warden *warden
	tty    *terminal
	done   chan struct{}
	status syscall.WaitStatus // valid once done is closed, and so is front
	front  bool               // it had the terminal when it ended
}

// Start starts a command. If that fails nothing is left behind; the error is
// the system's if it was the command that could not be started, and an *Error
// if it was its warden.
func Start(s Spec) (*Ward, error) {
	name := guardName
	if s.Deadline.IsZero() {
		name = leadName
	}
	warden, err := hire(name, s.Title)
	if err != nil {
		return nil, &Error{err}
	}
	w := &Ward{warden: warden, tty: openTerminal(warden.cmd.Process.Pid), done: make(chan struct{})}
	w.cmd = &exec.Cmd{
		Path: s.Path, Args: s.Args, Env: s.Env, Stdin: s.In, Stdout: s.Out, Stderr: s.Err,
		SysProcAttr: attributes(w.group(), !s.Deadline.IsZero()),
	}
	if isTerminal(s.In) && isTerminal(s.Out) {
		w.tty.give()
	}
	started := make(chan error)
	go w.run(started)
	if err := <-started; err != nil {
		w.tty.close()
		warden.dismiss()
		return nil, err
	}
	if err := warden.tell(s.Deadline); err != nil {
		_ = w.Kill()
		<-w.done
		w.Close()
		return nil, &Error{fmt.Errorf("the process that guards the command: %w", err)}
	}
	return w, nil
}

// run starts the command and waits for its end, in one thread: where the kernel
// kills the command when its parent dies, that is the thread.
func (w *Ward) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := w.cmd.Start()
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

// group is the number of the command's process group.
func (w *Ward) group() int { return w.warden.cmd.Process.Pid }

// Done is closed when the command has ended.
func (w *Ward) Done() <-chan struct{} { return w.done }

// Code is the exit code of a command that has ended, 128+n if signal n ended it.
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

// Interrupt ends this process and its group as the terminal would have, had it
// not been given to the command: a shell that runs a script goes on with the
// next line unless it was interrupted, too, and its child died of that. It
// returns if nothing ends this process.
func Interrupt() {
	signal.Reset(syscall.SIGINT)
	if syscall.Kill(0, syscall.SIGINT) == nil {
		<-time.After(time.Second)
	}
}

// Signal passes a signal on: to the whole group, as a terminal does, but one
// whose meaning only the command itself can know to the command alone.
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
	w.send(syscall.SIGCONT) // who is stopped could not hear it
}

// Kill ends the whole group. An error says that it ends nobody: the command has
// another user's rights, as under sudo.
func (w *Ward) Kill() error {
	if err := syscall.Kill(-w.group(), syscall.SIGKILL); err != syscall.ESRCH {
		return err
	}
	return nil
}

func (w *Ward) send(sig syscall.Signal) { _ = syscall.Kill(-w.group(), sig) }

// Extend moves the moment until which the command may run. An error says that
// the command is not guarded any more.
func (w *Ward) Extend(deadline time.Time) error { return w.warden.tell(deadline) }

// Left tells, after the end of the command, whether others of its group live
// on. It waits for their end, for so long.
func (w *Ward) Left(patience time.Duration) bool {
	for end := time.Now().Add(patience); ; {
		// Who dies as an orphan is a child of the first process of a container,
		// which this one may be.
		_, _ = syscall.Wait4(-w.group(), nil, syscall.WNOHANG, nil)
		switch {
		case syscall.Kill(-w.group(), 0) == syscall.ESRCH, !alive(w.group()):
			return false
		case time.Now().After(end):
			return true
		}
		<-time.After(look)
	}
}

// look is how often Left looks.
const look = 20 * time.Millisecond

// Close ends the warden, after the end of the command. If the command had a
// deadline, what is left of its group is killed.
func (w *Ward) Close() {
	w.tty.close()
	w.warden.dismiss()
}

// Error says that a command was not started, or was ended, because nothing could guard it.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the system's error.
func (e *Error) Unwrap() error { return e.err }
