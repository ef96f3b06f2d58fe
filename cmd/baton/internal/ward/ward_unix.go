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

// Limits says what the help of a command adds on this system: nothing.
const Limits = ""

// Ending are the signals that ask a process to end. Others are the other
// signals that Signal passes on.
var (
	Ending = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}
	Others = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}
)

// Ward is a running command. It is safe for concurrent use.
type Ward struct {
	cmd    *exec.Cmd
	guard  *guard // nil if the command has no deadline
	group  int
	tty    *terminal
	done   chan struct{}
	status syscall.WaitStatus // valid once done is closed, and so is front
	front  bool               // the command had the terminal when it ended
}

// Start starts a command. A failed start leaves nothing behind. The error is
// ErrUnguarded if the guard failed, else the system's.
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
	if err := w.Extend(s.Deadline); err != nil { // the guard died before the command started
		_ = w.Kill()
		<-w.done
		w.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnguarded, err)
	}
	return w, nil
}

// run starts the command and waits for its end, in one thread: with
// diesWithParent the kernel kills the command when the starting thread ends.
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
			_ = w.cmd.Wait() // for streams that are not files; the process was already waited for
			return
		}
	}
}

// Done is closed when the command has ended.
func (w *Ward) Done() <-chan struct{} { return w.done }

// Code returns the exit code, after the end of the command: 128+n if signal n
// ended it.
func (w *Ward) Code() int {
	<-w.done
	if w.status.Signaled() {
		return 128 + int(w.status.Signal())
	}
	return w.status.ExitStatus()
}

// Interrupted reports, after the end of the command, whether Ctrl-C in the
// terminal ended it. See Interrupt.
func (w *Ward) Interrupted() bool {
	<-w.done
	return w.front && w.status.Signaled() && w.status.Signal() == syscall.SIGINT
}

// Interrupt sends SIGINT to this process's group, as Ctrl-C does for a group in
// the foreground: a shell aborts a script only if it receives SIGINT itself and
// its child dies of it. Interrupt returns if the signal does not end this
// process.
func Interrupt() {
	signal.Reset(syscall.SIGINT)
	if syscall.Kill(0, syscall.SIGINT) == nil {
		<-time.After(time.Second)
	}
}

// Signal passes a signal on to the whole group, as a terminal does. SIGUSR1 and
// SIGUSR2, which end programs that do not handle them, go to the command alone.
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
	w.send(syscall.SIGCONT) // a stopped process does not handle SIGTERM
}

// Kill kills the whole group, and the command if it has left the group. It
// fails if the command has another user's rights, as under sudo.
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

// Extend moves the deadline of a command that has one. An error means that the
// command is no longer guarded.
func (w *Ward) Extend(deadline time.Time) error { return w.guard.extend(deadline) }

// Left reports, after the end of a guarded command, whether other processes of
// its group still live. It waits up to patience for their end.
func (w *Ward) Left(patience time.Duration) bool {
	for end := time.Now().Add(patience); alive(w.group); <-time.After(pollEvery) {
		if time.Now().After(end) {
			return true
		}
	}
	return false
}

const pollEvery = 20 * time.Millisecond

// Close ends the guard and the remaining processes of the group, after the end
// of the command.
func (w *Ward) Close() {
	w.tty.close()
	if w.guard != nil {
		w.guard.end()
	}
}
