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

// guardName is the name under which this program is started to be a guard.
const guardName = "baton-guard"

// Main is the guard if this process was started as one, and does not return
// then. The program's main function calls it first.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != guardName {
		return
	}
	watch()
	os.Exit(0)
}

// watch reads deadlines from standard input, and kills the group when the last
// one has passed or the input ends.
//
// A deadline is sent as nanoseconds after an epoch. The guard takes for the
// epoch the moment at which it says hello, and the starter the moment at which
// it reads the hello, which is later. So the guard counts deadlines early by
// what the pipe took, and never late, however long either process was stopped.
func watch() {
	signal.Ignore()
	epoch := time.Now()
	if _, err := os.Stdout.Write([]byte{1}); err != nil {
		return // nothing was started yet
	}
	deadline := epoch.Add(never)
	for {
		// A guard that was stopped reads the deadlines that it has not seen
		// before it decides that the last one has passed.
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

// guard is the guarding process, as its starter sees it.
type guard struct {
	cmd       *exec.Cmd
	deadlines *os.File // closing it ends the guard and its group
	epoch     time.Time
}

// How long the starter waits for a guard's hello, and for room in the pipe to
// it.
const (
	helloWithin = 10 * time.Second
	toldWithin  = time.Second
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

// group is the number of the group that the guard leads.
func (g *guard) group() int { return g.cmd.Process.Pid }

// extend sends a deadline. It waits only if the guard was stopped for so long
// that thousands of deadlines fill the pipe.
func (g *guard) extend(deadline time.Time) error {
	_ = g.deadlines.SetWriteDeadline(time.Now().Add(toldWithin))
	_, err := g.deadlines.Write(binary.BigEndian.AppendUint64(nil, uint64(deadline.Sub(g.epoch))))
	if errors.Is(err, syscall.EPIPE) {
		err = errors.New("it is gone")
	}
	if err != nil {
		err = fmt.Errorf("the process that guards the command: %w", err)
	}
	return err
}

// end ends the guard and what is left of its group, and waits for the guard.
func (g *guard) end() {
	_ = g.deadlines.Close()
	_ = g.cmd.Wait()
}
