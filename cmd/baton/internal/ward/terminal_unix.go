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

// terminal does for the command what a shell does for its jobs: the command's
// group is in the terminal's foreground when it needs to be, and if the command
// is stopped, so is this process, with its own group, for the shell to see. A
// nil terminal does nothing.
//
// The command starts in the foreground if it both reads and writes the
// terminal. Else another process of a pipeline may need it (baton … | less),
// and the command gets it when it reads: it is stopped for that, and goes on.
type terminal struct {
	fd     int
	own    int // this process's group
	served int // the command's group

	mu sync.Mutex
}

// openTerminal returns the terminal that controls this process; nil if there is
// none.
func openTerminal() *terminal {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd, own: syscall.Getpgrp()}
}

// isTerminal tells whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}

// serve sets the command's group, once, before all else.
func (t *terminal) serve(group int) {
	if t != nil {
		t.served = group
	}
}

// ours tells whether this process's group is in the foreground.
func (t *terminal) ours() bool {
	if t == nil {
		return false
	}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && group == t.own
}

// give moves the command's group into the foreground if this process's group is
// there.
func (t *terminal) give() bool { return t != nil && t.pass(t.own, t.served) }

// takeBack is the reverse, and reports whether the command's group was there.
func (t *terminal) takeBack() bool { return t != nil && t.pass(t.served, t.own) }

func (t *terminal) pass(from, to int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err != nil || now != from {
		return false
	}
	// A process in the background is stopped for the next call unless it
	// ignores SIGTTOU. No process is started meanwhile that would inherit that.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	for {
		err := unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, to)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// stopped is called when the command was stopped. If it only wants the terminal
// it gets it. Otherwise this process is stopped as well; the shell continues
// it, and SIGCONT is passed on.
func (t *terminal) stopped(sig syscall.Signal) {
	switch {
	case t == nil:
		return
	case (sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) && t.give():
		_ = syscall.Kill(-t.served, syscall.SIGCONT)
		return
	}
	t.takeBack()
	_ = syscall.Kill(0, syscall.SIGTSTP)
	// The kernel does not stop a process that no shell could continue. This one
	// still runs in a moment then, and the command has to go on.
	time.AfterFunc(stopsWithin, func() {
		t.give()
		_ = syscall.Kill(-t.served, syscall.SIGCONT)
	})
}

// stopsWithin is how long it takes until a process that was sent SIGTSTP has
// stopped.
const stopsWithin = 100 * time.Millisecond

func (t *terminal) close() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		_ = syscall.Close(t.fd)
		t.fd = -1
	}
}
