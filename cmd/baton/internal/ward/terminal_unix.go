//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal controls the command as a shell controls its jobs: it moves the
// command's group to the terminal's foreground when needed, and if the command
// is stopped, it stops this process's group, too, so that the shell notices. A
// nil terminal does nothing.
//
// The command starts in the foreground if both its input and its output are the
// terminal. Otherwise another process of a pipeline may need the terminal
// (baton … | less), and the command gets it at its first read, which stops it
// until then.
type terminal struct {
	fd     int
	own    int  // this process's group
	served int  // the command's group
	hungUp bool // the command got SIGHUP when it needed the terminal

	mu     sync.Mutex
	passed bool // the command has the foreground, or passed it on
}

// openTerminal returns this process's controlling terminal, or nil.
func openTerminal() *terminal {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd, own: syscall.Getpgrp()}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}

// pass is called before a start in the foreground.
func (t *terminal) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed = true
}

// serve sets the command's group, once, before any other call but pass.
func (t *terminal) serve(group int) {
	if t != nil {
		t.served = group
		ignoreOutput()
	}
}

// ignoreOutput makes this process ignore SIGTTOU from now on. While the command
// has the foreground, the signal would stop it when it moves the foreground
// back, and, with `stty tostop`, when it writes a message: then the session
// would not be renewed, and the guard would kill the command. The next guard
// gives its command the action that this process began with.
func ignoreOutput() {
	ignoredOutput()
	signal.Ignore(syscall.SIGTTOU) // package signal cannot undo it
}

// ignoredOutput reports whether SIGTTOU was ignored when this process began.
var ignoredOutput = sync.OnceValue(func() bool { return ignored()[syscall.SIGTTOU] })

// ours reports whether this process's group is in the foreground.
func (t *terminal) ours() bool {
	if t == nil {
		return false
	}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && group == t.own
}

// give moves the foreground from this process's group to the command's, and
// reports whether it did.
func (t *terminal) give() bool { return t != nil && t.move(t.own, t.served) }

// takeBack is the reverse. It also ends the foreground of a group that has no
// process left: that of a program that could not be executed, or of a child to
// which the command, a shell or another baton, had given the terminal when it
// was killed. Nobody else would, if a script runs this process.
func (t *terminal) takeBack() bool { return t != nil && t.move(t.served, t.own) }

func (t *terminal) move(from, to int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil || now != from && !(t.passed && to == t.own && now != t.own && syscall.Kill(-now, 0) == syscall.ESRCH) {
		return false
	}
	ignoreOutput()
	for {
		err := unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, to)
		if err == nil {
			t.passed = to == t.served
		}
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// stopped handles a stop of the command. A command that needs the terminal gets
// it. Otherwise this process stops as well; the shell continues it, and SIGCONT
// is passed on.
func (w *Ward) stopped(sig syscall.Signal) {
	t, needs := w.tty, sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if t == nil {
		return
	}
	if needs && t.give() {
		_ = syscall.Kill(-t.served, syscall.SIGCONT)
		return
	}
	if table, err := processes(); err == nil && orphaned(t.own, table) {
		w.stoppedAlone(sig)
		return
	}
	t.takeBack()
	_ = syscall.Kill(0, syscall.SIGTSTP)
	// This process still runs after stopsWithin if its other group members'
	// parents have ended meanwhile: the kernel stops nobody whom no shell could
	// continue. Then it continues the command.
	time.AfterFunc(stopsWithin, func() {
		t.give()
		_ = syscall.Kill(-t.served, syscall.SIGCONT)
	})
}

// stoppedAlone handles a stop where no shell could continue this process, since
// its group is orphaned. It does what the kernel does to such a group, which it
// does not do to the command's, since the guard is in the session.
func (w *Ward) stoppedAlone(sig syscall.Signal) {
	switch {
	case sig == syscall.SIGSTOP: // from another process, which can continue it
	case sig == syscall.SIGTSTP:
		_ = syscall.Kill(-w.tty.served, syscall.SIGCONT)
	case w.tty.hungUp:
		w.say("the command needs the terminal, which it cannot get in the background, " +
			"and is stopped; it keeps the hold until it is ended")
	default:
		w.tty.hungUp = true
		_ = syscall.Kill(-w.tty.served, syscall.SIGHUP)
		_ = syscall.Kill(-w.tty.served, syscall.SIGCONT)
	}
}

// stopsWithin bounds the time from SIGTSTP to the stop.
const stopsWithin = 100 * time.Millisecond

func (t *terminal) close() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		_ = syscall.Close(t.fd)
		t.fd = -1
	}
}
