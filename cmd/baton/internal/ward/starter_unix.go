//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handle is the starter's handle of the guard process.
type handle struct {
	cmd     *exec.Cmd
	orders  *os.File // its end ends the guard and the command
	reports *os.File
	epoch   time.Time
	ended   chan struct{} // closed once the guard was waited for
	hung    atomic.Bool   // it did not end when told to, and was killed
}

// How long the starter waits for the guard's hello and for the start, for room
// in the pipe, and for the end.
const (
	helloWithin = 10 * time.Second
	writeWithin = time.Second
	endWithin   = 2 * time.Second
)

const never = 100 * 365 * 24 * time.Hour

// startGuard starts a guard with the command's streams.
func startGuard(title string, streams [3]*os.File) (*handle, error) {
	program, err := executable()
	if err != nil {
		return nil, err
	}
	in, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	reports, out, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return nil, err
	}
	defer out.Close()
	for _, f := range []*os.File{in, out} {
		if _, err = unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			break
		}
	}
	h := &handle{orders: orders, reports: reports, ended: make(chan struct{}), cmd: &exec.Cmd{
		Path: program, Args: []string{guardName, title},
		Env:         []string{"GOMAXPROCS=2", fmt.Sprintf("%s=%d,%d", guardPipes, in.Fd(), out.Fd())},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}}
	if ignoredOutput() {
		h.cmd.Env = append(h.cmd.Env, guardIgnores+"=yes")
	}
	h.cmd.Stdin, h.cmd.Stdout, h.cmd.Stderr = streams[0], streams[1], streams[2]
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		_ = orders.Close()
		_ = reports.Close()
		return nil, err
	}
	return h, nil
}

func (h *handle) pid() int { return h.cmd.Process.Pid }

// order lets the guard start the command.
func (h *handle) order(o order, deadline time.Time) (command process, err error) {
	late := time.AfterFunc(helloWithin, func() { _ = h.cmd.Process.Kill() })
	defer late.Stop()
	unguarded := func(err error) error { return fmt.Errorf("%w: guard process: %w", ErrUnguarded, err) }
	if _, err := receiveNote(h.reports); err != nil {
		return process{}, unguarded(err)
	}
	h.epoch = time.Now()
	if err := h.extend(deadline); err != nil {
		return process{}, fmt.Errorf("%w: %w", ErrUnguarded, err)
	}
	_ = h.orders.SetWriteDeadline(time.Now().Add(helloWithin))
	if err := o.send(h.orders); err != nil {
		var refused *os.PathError
		if errors.As(err, &refused) && refused.Path == o.path {
			return process{}, err
		}
		return process{}, unguarded(err)
	}
	first, err := receiveNote(h.reports)
	switch {
	case err != nil:
		return process{}, unguarded(err)
	case first.kind == noteFailed && first.value == 0:
		return process{}, unguarded(errors.New("it started after the deadline"))
	case first.kind == noteFailed:
		return process{}, &os.PathError{Op: "exec", Path: o.path, Err: syscall.Errno(first.value)}
	}
	birth, err := receiveNote(h.reports)
	if err != nil {
		return process{}, unguarded(err)
	}
	command = process{pid: int(first.value), start: uint64(birth.value), group: h.pid()}
	if o.job {
		command.group = command.pid
	}
	return command, nil
}

// extend sends a deadline. It blocks only if the guard was stopped for so long
// that thousands of deadlines fill the pipe.
func (h *handle) extend(deadline time.Time) error {
	err := sendNote(h.orders, note{noteDeadline, int64(deadline.Sub(h.epoch))})
	if errors.Is(err, syscall.EPIPE) {
		err = errEnded
	}
	if err != nil {
		err = fmt.Errorf("guard process: %w", err)
	}
	return err
}

// wake continues a guard that was stopped.
func (h *handle) wake() { _ = h.cmd.Process.Signal(syscall.SIGCONT) }

// wait waits for the guard, once.
func (h *handle) wait() {
	_ = h.cmd.Wait()
	close(h.ended)
}

// end ends the guard, and the command if it runs.
func (h *handle) end() {
	_ = h.orders.Close()
	h.wake()
	// It reads the end of the pipe, kills what is left, and ends.
	late := time.AfterFunc(endWithin, func() {
		h.hung.Store(true)
		_ = h.cmd.Process.Kill()
	})
	defer late.Stop()
	<-h.ended
}

// Notes says what Start cannot reach on this system, for the user to read.
func Notes(path string) (notes []string) {
	if err := setSubreaper(true); err != nil {
		notes = append(notes, fmt.Sprintf("processes that the command leaves behind cannot be ended: %v", err))
	}
	_ = setSubreaper(false)
	if _, err := processes(); err != nil {
		notes = append(notes, fmt.Sprintf(
			"processes outside the command's process group cannot be ended: %v", err))
	}
	if changesUser(path, os.Geteuid()) {
		name := filepath.Base(path)
		notes = append(notes, fmt.Sprintf("%s runs with another user's rights, and baton may be unable "+
			"to end it: let %s run baton", name, name))
	}
	return notes
}

// changesUser reports whether a program of a user runs as another one.
func changesUser(path string, user int) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeSetuid == 0 || user == 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != user
}
