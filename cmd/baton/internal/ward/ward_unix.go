//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
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
	guard   *handle
	guarded bool
	command process
	tty     *terminal
	streams *streams
	say     func(string)
	except  map[int]uint64 // children that this process had before
	since   uint64         // when the guard began

	done, empty, gone, closing chan struct{}

	claimed <-chan syscall.WaitStatus // of the command, if Reap has read it

	closed   sync.Once
	rest     sync.WaitGroup
	spare    atomic.Bool
	orphaned atomic.Bool        // the guard ended before it was told to
	status   syscall.WaitStatus // valid once done is closed, and so is front
	front    bool               // the command had the terminal when it ended
}

// Start starts a command. A failed start leaves nothing behind. The error is
// ErrUnguarded if the guard failed, else the system's.
func Start(s Spec) (*Ward, error) {
	w := &Ward{
		guarded: !s.Deadline.IsZero(), tty: openTerminal(), say: s.Say,
		done: make(chan struct{}), empty: make(chan struct{}), gone: make(chan struct{}),
		closing: make(chan struct{}),
	}
	if w.say == nil {
		w.say = func(string) {}
	}
	err := w.start(s)
	if err != nil {
		if w.streams != nil {
			w.streams.wait()
		}
		_ = setSubreaper(false)
		w.tty.takeBack()
		w.tty.close()
		return nil, err
	}
	return w, nil
}

func (w *Ward) start(s Spec) (err error) {
	if w.streams, err = openStreams(s.In, s.Out, s.Err); err != nil {
		return err
	}
	defer w.streams.started() // the command has them, or nobody
	w.except = children()
	_ = setSubreaper(true) // an old kernel: see Notes
	if w.guard, err = startGuard(s.Title, w.streams.files); err != nil {
		return fmt.Errorf("%w: %w", ErrUnguarded, err)
	}
	if p, err := readProcess(w.guard.pid()); err == nil {
		w.since = p.start
	}
	o := order{
		// Environ removes all but the last of several values.
		path: s.Path, args: s.Args, env: (&exec.Cmd{Env: s.Env}).Environ(), guarded: w.guarded, job: w.tty != nil,
		foreground: isTerminal(s.In) && isTerminal(s.Out) && w.tty.ours(),
	}
	if o.foreground {
		w.tty.pass()
	}
	if s.Deadline.IsZero() {
		s.Deadline = time.Now().Add(never)
	}
	if w.command, err = w.guard.order(o, s.Deadline); err != nil {
		go w.guard.wait() // end waits for it
		w.guard.end()
		_ = w.guard.reports.Close()
		w.endOrphans()
		return err
	}
	w.tty.serve(w.command.group)
	w.claimed = claim(w.command.pid)
	w.rest.Go(w.follow)
	w.rest.Go(w.await)
	return nil
}

// follow handles the guard's reports until the guard ends.
func (w *Ward) follow() {
	defer w.guard.reports.Close()
	ended := false
	for {
		n, err := receiveNote(w.guard.reports)
		switch {
		case err != nil:
			w.guard.wait()
			w.takeOver(ended)
			return
		case n.kind == noteStopped:
			w.stopped(syscall.Signal(n.value))
		case n.kind == noteEnded:
			ended = true
			unclaim(w.command.pid)
			w.end(syscall.WaitStatus(n.value))
		case n.kind == noteEmpty:
			close(w.empty)
		}
	}
}

// end records the end of the command.
func (w *Ward) end(status syscall.WaitStatus) {
	w.status, w.front = status, w.tty.takeBack()
	w.streams.wait()
	close(w.done)
}

// await closes gone when nothing of the command is left.
func (w *Ward) await() {
	defer close(w.gone)
	<-w.done
	for none := 0; none < 2; {
		select {
		case <-w.empty:
			return
		case <-w.closing:
			return
		case <-time.After(pollEvery):
		}
		// The guard's report is exact, but does not come while processes that
		// may live on do. A walk can miss a process, so it must do so twice,
		// and one that sees none of either kind has missed some.
		if !w.spare.Load() && subreapers {
			continue
		}
		table, err := processes()
		s := w.scope()
		if err != nil || len(s.kin(table)) > 0 || subreapers && len(s.detached(table)) == 0 {
			none = 0
			continue
		}
		none++
	}
}

const pollEvery = 20 * time.Millisecond

// scope returns what belongs to the command.
func (w *Ward) scope() scope {
	s := scope{root: w.guard.pid(), group: w.command.group}
	if w.orphaned.Load() {
		s.root, s.except, s.since = os.Getpid(), w.except, w.since
	}
	if w.spare.Load() {
		s = s.spare()
	}
	return s
}

// Done is closed when the command has ended.
func (w *Ward) Done() <-chan struct{} { return w.done }

// Gone is closed when the command and the processes that it started have ended.
func (w *Ward) Gone() <-chan struct{} { return w.gone }

// Spare lets processes live on that the command, or its children, left in a
// session of their own, as daemons do. It is called after the end of the
// command. Without it they end with the rest.
func (w *Ward) Spare() {
	w.spare.Store(true)
	_ = sendNote(w.guard.orders, note{noteSpare, 0}) // a guard that has ended kills nothing
}

// Left lists the processes that belong to the command and run. Unlike Gone it
// can miss one.
func (w *Ward) Left() []string { return w.list(scope.kin) }

// Spared lists the processes that Spare lets live.
func (w *Ward) Spared() []string {
	if !w.spare.Load() {
		return nil
	}
	return w.list(scope.detached)
}

func (w *Ward) list(which func(scope, []process) []process) (names []string) {
	table, err := processes()
	if err != nil {
		return nil
	}
	for _, p := range which(w.scope(), table) {
		names = append(names, fmt.Sprintf("%s (%d)", p.name, p.pid))
	}
	return names
}

// Code returns the exit code, after the end of the command: 128+n if signal n
// ended it.
func (w *Ward) Code() int {
	<-w.done
	if w.status.Signaled() {
		return 128 + int(w.status.Signal())
	}
	return w.status.ExitStatus()
}

// DiedOf reports, after the end of the command, whether this signal ended it.
func (w *Ward) DiedOf(sig os.Signal) bool {
	<-w.done
	return w.status.Signaled() && w.status.Signal() == sig
}

// Interrupted reports, after the end of the command, whether Ctrl-C in the
// terminal ended it.
func (w *Ward) Interrupted() bool { return w.DiedOf(syscall.SIGINT) && w.front }

// Err returns an error if the guard ended before the command, which then was
// killed.
func (w *Ward) Err() error {
	if w.guarded && w.orphaned.Load() && w.DiedOf(syscall.SIGKILL) {
		return fmt.Errorf("%w: the guard process has ended, so the command was killed", ErrUnguarded)
	}
	return nil
}

// Signal passes a signal on to the command and its descendants, as a terminal
// does to a group. SIGUSR1 and SIGUSR2, which end programs that do not handle
// them, go to the command alone.
func (w *Ward) Signal(sig os.Signal) {
	switch sig {
	case syscall.SIGUSR1, syscall.SIGUSR2:
		w.guard.wake()
		_ = w.command.signal(sig.(syscall.Signal)) // it has ended
	case syscall.SIGCONT:
		w.tty.give()
		_ = w.send(syscall.SIGCONT)
	default:
		_ = w.send(sig.(syscall.Signal)) // Kill reports a process that refuses signals
		if signalEnds(sig) {
			_ = w.send(syscall.SIGCONT) // a stopped process does not handle it
		}
	}
}

func signalEnds(sig os.Signal) bool {
	for _, ending := range Ending {
		if sig == ending {
			return true
		}
	}
	return false
}

// Terminate asks the command and its descendants to end.
func (w *Ward) Terminate() { w.Signal(syscall.SIGTERM) }

// Kill kills the command and its descendants. The error names a process with
// another user's rights, as under sudo, which runs on.
func (w *Ward) Kill() error {
	err := w.send(syscall.SIGKILL)
	if w.guarded {
		_ = w.Extend(time.Now()) // the guard repeats it until nothing is left
	}
	return err
}

// send also continues a guard that was stopped.
func (w *Ward) send(sig syscall.Signal) error {
	w.guard.wake()
	err := w.scope().signal(sig)
	if errors.Is(err, errUnseen) {
		err = syscall.Kill(-w.command.group, sig)
	}
	return err
}

// Extend moves the deadline of the command. An error means that the guard does
// not answer; if it has ended, the command is being killed.
func (w *Ward) Extend(deadline time.Time) error {
	w.guard.wake()
	if !w.guarded {
		return nil
	}
	return w.guard.extend(deadline)
}

// Close kills the remaining processes and ends the guard, after the end of the
// command. It kills nothing if there was no deadline.
func (w *Ward) Close() {
	<-w.done
	w.closed.Do(w.close)
}

func (w *Ward) close() {
	close(w.closing)
	if !w.guarded || w.spare.Load() {
		_ = setSubreaper(false) // what lives on is nobody's child
	}
	w.guard.end()
	w.rest.Wait()
	_ = setSubreaper(false)
	w.tty.takeBack() // from a child of the command that has ended by now
	w.tty.close()
}

// Raise ends this process by a signal that it caught, so that the process that
// waits for it sees the true cause: a shell aborts a script only if its child
// dies of SIGINT and it receives SIGINT itself. A terminal that had the command
// in the foreground did not send the signal to the script; whole passes it on
// to this process's group. Raise returns if the signal does not end this
// process: SIGQUIT, which the Go runtime handles, and any in process 1. The
// runtime would exit with 2 there.
func Raise(sig os.Signal, whole bool) {
	if sig == syscall.SIGQUIT || os.Getpid() == 1 {
		return
	}
	signal.Reset(sig)
	target := os.Getpid()
	if whole {
		target = 0
	}
	if err := syscall.Kill(target, sig.(syscall.Signal)); err == nil {
		<-time.After(time.Second)
	}
}

// errEnded is the error of a guard that has ended.
var errEnded = errors.New("it has exited")
