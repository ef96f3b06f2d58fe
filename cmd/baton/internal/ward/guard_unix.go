//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardName is the argv[0] of a guard process.
const guardName = "baton-guard"

// Main runs the guard, and does not return, if this process was started as one.
// The program's main function calls it first.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != guardName {
		return
	}
	watch()
	os.Exit(0)
}

// watch reads deadlines from standard input. It kills the group when the latest
// deadline has passed or the input ends.
//
// A deadline is sent as nanoseconds after an epoch. The guard's epoch is the
// moment at which it sends the hello; the starter's is the moment at which it
// reads the hello, which is later. So the guard's deadlines are early by the
// delay of the pipe and never late, however long either process was stopped.
func watch() {
	signal.Ignore()
	epoch := time.Now()
	if _, err := os.Stdout.Write([]byte{1}); err != nil {
		return // nothing was started yet
	}
	deadline := epoch.Add(never)
	for {
		// A guard that was stopped first reads the pending deadlines, and only
		// then decides whether the latest one has passed.
		left := min(max(0, time.Until(deadline)), time.Hour)
		input := []unix.PollFd{{Fd: 0, Events: unix.POLLIN}}
		ready, err := unix.Poll(input, int(left.Milliseconds()))
		if err == unix.EINTR || err == nil && ready == 0 && time.Until(deadline) > 0 {
			continue
		}
		var at time.Duration
		if err != nil || ready == 0 || binary.Read(os.Stdin, binary.BigEndian, &at) != nil {
			break
		}
		deadline = epoch.Add(at)
	}
	_ = syscall.Kill(0, syscall.SIGKILL)
}

// guard is the starter's handle of the guard process.
type guard struct {
	cmd       *exec.Cmd
	deadlines *os.File // closing it ends the guard and its group
	epoch     time.Time
}

// How long the starter waits for the guard's hello, and for room in the pipe.
const (
	helloWithin = 10 * time.Second
	writeWithin = time.Second
)

const never = 100 * 365 * 24 * time.Hour

// startGuard starts a guard, which leads a new process group.
func startGuard(title string, deadline time.Time) (*guard, error) {
	program, err := executable()
	if err != nil {
		return nil, err
	}
	in, deadlines, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	g := &guard{deadlines: deadlines, cmd: &exec.Cmd{
		Path: program, Args: []string{guardName, title}, Env: []string{"GOMAXPROCS=1"}, Dir: "/",
		Stdin: in, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}}
	hello, err := g.cmd.StdoutPipe()
	if err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		_ = deadlines.Close()
		return nil, err
	}
	late := time.AfterFunc(helloWithin, func() { _ = g.cmd.Process.Kill() })
	_, err = io.ReadFull(hello, make([]byte, 1))
	late.Stop()
	g.epoch = time.Now()
	if err == nil {
		err = g.extend(deadline)
	}
	if err != nil {
		g.end()
		return nil, err
	}
	return g, nil
}

// group returns the ID of the group that the guard leads.
func (g *guard) group() int { return g.cmd.Process.Pid }

// extend sends a deadline. It blocks only if the guard was stopped for so long
// that thousands of deadlines fill the pipe.
func (g *guard) extend(deadline time.Time) error {
	_ = g.deadlines.SetWriteDeadline(time.Now().Add(writeWithin))
	_, err := g.deadlines.Write(binary.BigEndian.AppendUint64(nil, uint64(deadline.Sub(g.epoch))))
	if errors.Is(err, syscall.EPIPE) {
		err = errors.New("it has exited")
	}
	if err != nil {
		err = fmt.Errorf("guard process: %w", err)
	}
	return err
}

// end ends the guard and the remaining processes of its group, and waits for
// the guard.
func (g *guard) end() {
	_ = g.deadlines.Close()
	_ = g.cmd.Wait()
}
