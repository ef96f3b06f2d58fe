//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"os"
	"os/signal"
	"sync"
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
	for none := 0; w.guarded && none < 2; none++ { // a walk can miss a process
		if w.reapHere() {
			none = -1
			_ = w.scope().signal(syscall.SIGKILL)
		}
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
	end := time.Now().Add(endWithin)
	for none := 0; none < 2 && time.Now().Before(end); none++ {
		if w.reapHere() {
			none = -1
			_ = w.scope().signal(syscall.SIGKILL)
		}
		<-time.After(pollEvery)
	}
}

// waitHere waits for the command, which is a child of this process now. It
// is not on a system without subreapers: then its status is unknown, and it
// counts as killed.
func (w *Ward) waitHere() (status syscall.WaitStatus) {
	defer unclaim(w.command.pid)
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
			reaping.Lock() // Reap delivers what it has read
			defer reaping.Unlock()
			select {
			case status = <-w.claimed:
				return status
			default:
				return syscall.WaitStatus(syscall.SIGKILL)
			}
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

// claims are the processes whose status Reap hands on: the commands, of which
// the first process of a container becomes the parent if their guard is killed.
var (
	reaping sync.Mutex
	claims  = map[int]chan<- syscall.WaitStatus{}
)

func claim(pid int) <-chan syscall.WaitStatus {
	reaping.Lock()
	defer reaping.Unlock()
	c := make(chan syscall.WaitStatus, 1)
	claims[pid] = c
	return c
}

func unclaim(pid int) {
	reaping.Lock()
	defer reaping.Unlock()
	delete(claims, pid)
}

// reap reads the status of one child, and reports whether there was one.
func reap() bool {
	reaping.Lock()
	defer reaping.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if c := claims[pid]; err == nil && c != nil {
			delete(claims, pid)
			c <- status
		}
		return err == nil && pid > 0
	}
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
			for reap() {
			}
		}
	}()
	return func() {
		signal.Stop(ended)
		close(ended)
		<-done
	}
}
