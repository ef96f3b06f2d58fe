//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeper is the starter's handle of the guard process.
type keeper struct {
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
func startGuard(title string, streams [3]*os.File) (*keeper, error) {
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
	k := &keeper{orders: orders, reports: reports, ended: make(chan struct{}), cmd: &exec.Cmd{
		Path: program, Args: []string{guardName, title},
		Env:         []string{"GOMAXPROCS=1", fmt.Sprintf("%s=%d,%d", guardPipes, in.Fd(), out.Fd())},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}}
	k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = streams[0], streams[1], streams[2]
	if err == nil {
		err = k.cmd.Start()
	}
	if err != nil {
		_ = orders.Close()
		_ = reports.Close()
		return nil, err
	}
	return k, nil
}

func (k *keeper) pid() int { return k.cmd.Process.Pid }

// order lets the guard start the command.
func (k *keeper) order(o order, deadline time.Time) (command process, err error) {
	late := time.AfterFunc(helloWithin, func() { _ = k.cmd.Process.Kill() })
	defer late.Stop()
	unguarded := func(err error) error { return fmt.Errorf("%w: guard process: %w", ErrUnguarded, err) }
	if _, err := receiveNote(k.reports); err != nil {
		return process{}, unguarded(err)
	}
	k.epoch = time.Now()
	if err := k.extend(deadline); err != nil {
		return process{}, fmt.Errorf("%w: %w", ErrUnguarded, err)
	}
	_ = k.orders.SetWriteDeadline(time.Now().Add(helloWithin))
	if err := o.send(k.orders); err != nil {
		var refused *os.PathError
		if errors.As(err, &refused) && refused.Path == o.path {
			return process{}, err
		}
		return process{}, unguarded(err)
	}
	first, err := receiveNote(k.reports)
	switch {
	case err != nil:
		return process{}, unguarded(err)
	case first.kind == noteFailed && first.value == 0:
		return process{}, unguarded(errors.New("it started after the deadline"))
	case first.kind == noteFailed:
		return process{}, &os.PathError{Op: "exec", Path: o.path, Err: syscall.Errno(first.value)}
	}
	birth, err := receiveNote(k.reports)
	if err != nil {
		return process{}, unguarded(err)
	}
	command = process{pid: int(first.value), start: uint64(birth.value), group: k.pid()}
	if o.job {
		command.group = command.pid
	}
	return command, nil
}

// extend sends a deadline. It blocks only if the guard was stopped for so long
// that thousands of deadlines fill the pipe.
func (k *keeper) extend(deadline time.Time) error {
	err := sendNote(k.orders, note{noteDeadline, int64(deadline.Sub(k.epoch))})
	if errors.Is(err, syscall.EPIPE) {
		err = errEnded
	}
	if err != nil {
		err = fmt.Errorf("guard process: %w", err)
	}
	return err
}

// wake continues a guard that was stopped.
func (k *keeper) wake() { _ = k.cmd.Process.Signal(syscall.SIGCONT) }

// wait waits for the guard, once.
func (k *keeper) wait() {
	_ = k.cmd.Wait()
	close(k.ended)
}

// end ends the guard, and the command if it runs.
func (k *keeper) end() {
	_ = k.orders.Close()
	k.wake()
	// It reads the end of the pipe, kills what is left, and ends.
	late := time.AfterFunc(endWithin, func() {
		k.hung.Store(true)
		_ = k.cmd.Process.Kill()
	})
	defer late.Stop()
	<-k.ended
}

// Notes says what Start cannot reach on this system, for the user to read.
func Notes(path string) (notes []string) {
	if err := setSubreaper(true); err != nil {
		notes = append(notes, fmt.Sprintf("processes that the command leaves behind cannot be ended: %v", err))
	}
	if _, err := processes(); err != nil {
		notes = append(notes, fmt.Sprintf(
			"processes outside the command's process group cannot be ended: %v", err))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeSetuid == 0 || os.Geteuid() == 0 {
		return notes
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		name := path[strings.LastIndexByte(path, '/')+1:]
		notes = append(notes, fmt.Sprintf("%s runs with another user's rights, and baton may be unable to end it: "+
			"let %s run baton", name, name))
	}
	return notes
}
