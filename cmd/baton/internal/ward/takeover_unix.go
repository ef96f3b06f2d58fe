//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// takeOver is called when the guard has ended. If it was told to, nothing is
// left to do, unless it hung. Else this process is the parent of what the guard
// leaves, and does its work: it kills all of it, or, if there is no deadline,
// waits for the command.
func (w *Ward) takeOver(ended bool) {
	select {
	case <-w.closing:
		if w.guard.hung.Load() && w.guarded && !w.spare.Load() {
			w.orphaned.Store(true)
			_ = w.scope().signal(syscall.SIGKILL)
		}
		return
	default:
	}
	w.orphaned.Store(true)
	if w.guarded {
		_ = w.scope().signal(syscall.SIGKILL)
	}
	if !ended {
		w.end(w.waitHere())
	}
	for w.guarded && w.reapHere() {
		_ = w.scope().signal(syscall.SIGKILL)
		select {
		case <-w.closing:
			return
		case <-time.After(pollEvery):
		}
	}
	select {
	case <-w.empty:
	default:
		if w.guarded {
			close(w.empty)
		}
	}
}

// endOrphans kills what is left of a start that failed because the guard was
// killed when it had started the command, but had not said so.
func (w *Ward) endOrphans() {
	if !w.guarded || !subreapers {
		return
	}
	w.orphaned.Store(true)
	for end := time.Now().Add(endWithin); w.reapHere() && time.Now().Before(end); <-time.After(pollEvery) {
		_ = w.scope().signal(syscall.SIGKILL)
	}
}

// waitHere waits for the command, which is a child of this process now. It
// is not on a system without subreapers: then its status is unknown, and it
// counts as killed.
func (w *Ward) waitHere() (status syscall.WaitStatus) {
	for {
		_, err := syscall.Wait4(w.command.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == nil && status.Stopped():
			w.stopped(status.StopSignal())
		case err == nil:
			return status
		case w.command.signal(0) == nil:
			<-time.After(pollEvery)
		default:
			return syscall.WaitStatus(syscall.SIGKILL)
		}
	}
}

// reapHere reads the status of the guard's former children that have ended, and
// reports whether others are left.
func (w *Ward) reapHere() bool {
	table, err := processes()
	if err != nil {
		return false
	}
	for _, p := range table {
		start, known := w.except[p.pid]
		if p.parent == os.Getpid() && p.ended && !(known && start == p.start) {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
	return len(w.scope().kin(table)) > 0
}

// Reap reads the status of orphans if this process is the first of a container,
// to which the kernel gives them, until stop is called. The guard gets those of
// the command.
func Reap() (stop func()) {
	if os.Getpid() != 1 {
		return func() {}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range ended {
			for {
				pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
				if err != syscall.EINTR && pid <= 0 {
					break
				}
			}
		}
	}()
	return func() {
		signal.Stop(ended)
		close(ended)
		<-done
	}
}
