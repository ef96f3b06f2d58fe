//go:build !unix || solaris || illumos || aix

package ward

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// There is no guard here, since there are no process groups and no signals.
// Terminate and Kill end the command but not its children, and a command
// outlives a starter that is killed.

// Limits says what the help of a command adds on this system.
const Limits = `

On this system there is no guard and no SIGTERM: at the deadline the command is killed, without
its children, and it lives on if baton itself is killed. Let the resource check BATON_TOKEN.`

// Ending is the only signal that asks a process to end. It is not passed on:
// the console sends it to the command as well.
var Ending, Others = []os.Signal{os.Interrupt}, []os.Signal(nil)

// Main does nothing here.
func Main() {}

// Ward is a running command. It is safe for concurrent use.
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
		_ = w.cmd.Wait() // Code has the outcome
	}()
	return w, nil
}

// Done is closed when the command has ended.
func (w *Ward) Done() <-chan struct{} { return w.done }

// Code returns the exit code, after the end of the command.
func (w *Ward) Code() int {
	<-w.done
	return w.cmd.ProcessState.ExitCode()
}

// Kill ends the command.
func (w *Ward) Kill() error {
	if err := w.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Terminate is Kill.
func (w *Ward) Terminate() { _ = w.Kill() }

// Gone is Done: children are not seen.
func (w *Ward) Gone() <-chan struct{} { return w.done }

// Notes says what Start cannot reach, besides Limits.
func Notes(string) []string { return nil }

// Reap does nothing, and neither does its result.
func Reap() (stop func()) { return func() {} }

// The rest does nothing here.

func Raise(os.Signal, bool)            {}
func (w *Ward) Interrupted() bool      { return false }
func (w *Ward) DiedOf(os.Signal) bool  { return false }
func (w *Ward) Signal(os.Signal)       {}
func (w *Ward) Extend(time.Time) error { return nil }
func (w *Ward) Spare()                 {}
func (w *Ward) Spared() []string       { return nil }
func (w *Ward) Left() []string         { return nil }
func (w *Ward) Err() error             { return nil }
func (w *Ward) Close()                 {}
