//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// terminal is what a shell does with its jobs: the group of the command is in
// the terminal's foreground when it needs to be, and if it is stopped, so is
// this process, with its own group, for the shell to see. A nil terminal does
// nothing.
//
// The group gets the terminal at once if the command both reads and writes
// there. Else another process of a pipeline may need it (baton … | less), and
// the command gets it when it reads: it is stopped for that, and goes on.
type terminal struct {
	fd          int
	own, others int // groups: this process's, the command's

	mu sync.Mutex
}

// openTerminal returns the terminal that controls this process; nil if there is none.
func openTerminal(others int) *terminal {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd, own: syscall.Getpgrp(), others: others}
}

// isTerminal tells whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := foreground(int(f.Fd()))
	return err == nil
}

// give puts the command's group into the foreground, if this process's group is there.
func (t *terminal) give() bool { return t.pass(func() (from, to int) { return t.own, t.others }) }

// takeBack is the reverse, and reports whether the command's group was there.
func (t *terminal) takeBack() bool { return t.pass(func() (from, to int) { return t.others, t.own }) }

func (t *terminal) pass(groups func() (from, to int)) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	from, to := groups()
	if now, err := foreground(t.fd); err != nil || now != from {
		return false
	}
	// Who is in the background is stopped for the next call, unless it ignores
	// that. No process is started meanwhile that would inherit it.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	return setForeground(t.fd, to) == nil
}

// stopped is called when the command was stopped. If it only wants the terminal
// it can have it. Otherwise this process is stopped as well; who continues it
// (see resumed) is the shell.
func (t *terminal) stopped(sig syscall.Signal) {
	switch {
	case t == nil:
		return
	case (sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) && t.give():
		_ = syscall.Kill(-t.others, syscall.SIGCONT)
		return
	}
	t.takeBack()
	_ = syscall.Kill(0, syscall.SIGTSTP)
	// The kernel stops nobody whom no shell could continue. Then this is still
	// running in a moment, and so shall be the command.
	time.AfterFunc(stopsWithin, t.resumed)
}

// stopsWithin is how long it takes until a process that was sent SIGTSTP has stopped.
const stopsWithin = 100 * time.Millisecond

// resumed continues the command, in the foreground if this process is there.
func (t *terminal) resumed() {
	if t == nil {
		return
	}
	t.give()
	_ = syscall.Kill(-t.others, syscall.SIGCONT)
}

func (t *terminal) close() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		_ = syscall.Close(t.fd)
		t.fd = -1
	}
}

// foreground is the group that a terminal's input goes to. It fails for what is no terminal.
func foreground(fd int) (int, error) {
	var group int32
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group))); errno != 0 {
		return 0, errno
	}
	return int(group), nil
}

func setForeground(fd, group int) error {
	g := int32(group)
	for {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&g)))
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return errno
		}
	}
}
