//go:build !unix || solaris || illumos || aix

package ward

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// Guards says that commands are not guarded here: there are no process groups
// to kill and no signals to send. Terminate and Kill end the command itself and
// nothing that it has started, and a command outlives a starter that was
// killed.
const Guards = false

// Main does nothing here.
func Main() {}

// Ward is a command that runs. It is safe for concurrent use.
type Ward struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a command. The error is the system's.
func Start(s Spec) (*Ward, error) {
	w := &Ward{done: make(chan struct{}), cmd: &exec.Cmd{
		Path: s.Path, Args: s.Args, Env: s.Env, Stdin: s.In, Stdout: s.Out, Stderr: s.Err,
	}}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the command
		defer close(w.done)
		_ = w.cmd.Wait() // Code tells how it ended
	}()
	return w, nil
}

// Done is closed when the command has ended.
func (w *Ward) Done() <-chan struct{} { return w.done }

// Code is the exit code of a command that has ended.
func (w *Ward) Code() int {
	<-w.done
	return w.cmd.ProcessState.ExitCode()
}

// Interrupted is false: nobody is given a terminal.
func (w *Ward) Interrupted() bool { return false }

// Interrupt does nothing.
func Interrupt() {}

// Signal does nothing: the command gets what a console sends by itself.
func (w *Ward) Signal(os.Signal) {}

// Terminate is Kill.
func (w *Ward) Terminate() { _ = w.Kill() }

// Kill ends the command.
func (w *Ward) Kill() error {
	if err := w.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Extend does nothing.
func (w *Ward) Extend(time.Time) error { return nil }

// Left knows of nobody.
func (w *Ward) Left(time.Duration) bool { return false }

// Close does nothing.
func (w *Ward) Close() {}

// Error is not returned here.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the system's error.
func (e *Error) Unwrap() error { return e.err }
