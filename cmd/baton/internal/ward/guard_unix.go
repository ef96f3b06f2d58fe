//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardName is the argv[0] of a guard process. The environment variable has the
// numbers of its two pipes: they take no place of descriptors that the command
// inherits from the starter's own parent.
const (
	guardName    = "baton-guard"
	guardPipes   = "BATON_GUARD_PIPES"
	guardIgnores = "BATON_GUARD_IGNORES_TTOU" // set if the command must ignore it
)

// Main runs the guard, and does not return, if this process was started as one.
// The program's main function calls it first.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != guardName {
		return
	}
	runtime.LockOSThread() // the command dies with the thread that starts it
	if g := newGuard(); g != nil {
		g.serve()
	}
	os.Exit(0)
}

// guard is the state of the guard process.
//
// A deadline is sent as nanoseconds after an epoch. The guard's epoch is the
// moment at which it sends the hello; the starter's is the moment at which it
// reads the hello, which is later. So the guard's deadlines are early by the
// delay of the pipe and never late, however long either process was stopped.
type guard struct {
	orders   *os.File // from the starter
	reports  int      // to the starter; writing does not block
	wake     int      // readable after SIGCHLD
	epoch    time.Time
	deadline time.Time
	guarded  bool
	scope    scope
	command  int           // 0 once its status was read
	outbox   []byte        // reports for which the pipe had no room
	pause    time.Duration // after the last SIGKILL

	childless bool // no child is left; with subreapers, no descendant
}

// newGuard starts the command. Nil: it was not started.
func newGuard() *guard {
	var in, out int
	pipes := os.Getenv(guardPipes)
	for i := range pipes {
		if pipes[i] == ',' {
			in, _ = strconv.Atoi(pipes[:i])
			out, _ = strconv.Atoi(pipes[i+1:])
		}
	}
	syscall.CloseOnExec(in)
	syscall.CloseOnExec(out)
	_ = syscall.SetNonblock(out, true)
	g := &guard{orders: os.NewFile(uintptr(in), "orders"), reports: out, epoch: time.Now()}
	g.catchSignals()
	_ = setSubreaper(true) // an old kernel: see Notes
	g.report(noteHello, 0)
	deadline, err := receiveNote(g.orders)
	if err != nil {
		return nil
	}
	g.extend(deadline)
	o, err := receiveOrder(g.orders)
	if err != nil {
		return nil
	}
	if err := g.start(o); err != nil {
		errno := syscall.EIO
		_ = errors.As(err, &errno)
		if errors.Is(err, errLate) {
			errno = 0
		}
		g.report(noteFailed, int64(errno))
		return nil
	}
	return g
}

// catchSignals drops every signal that can be caught, since the command
// inherits an ignored one. What the starter ignores stays ignored.
func (g *guard) catchSignals() {
	drop, ended := make(chan os.Signal, 1), make(chan os.Signal, 1)
	skip := ignored()
	skip[syscall.SIGTTOU] = os.Getenv(guardIgnores) != "" // see ignoreOutput
	for sig := syscall.Signal(1); sig < 32; sig++ {
		if !skip[sig] {
			signal.Notify(drop, sig)
		}
	}
	var wake [2]int
	_ = syscall.Pipe(wake[:]) // without one, poll returns at its timeout
	for _, fd := range wake {
		syscall.CloseOnExec(fd)
		_ = syscall.SetNonblock(fd, true)
	}
	g.wake = wake[0]
	signal.Notify(ended, syscall.SIGCHLD)
	go func() { // for the life of the process
		for range ended {
			_, _ = syscall.Write(wake[1], []byte{0})
		}
	}()
}

var errLate = errors.New("the deadline has passed")

// start starts the command.
func (g *guard) start(o order) error {
	if o.guarded && !time.Now().Before(g.deadline) {
		return errLate
	}
	own := os.Getpid()
	attr := &syscall.SysProcAttr{Setpgid: true}
	if !o.job {
		attr.Pgid = own
	}
	if o.guarded {
		diesWithParent(attr)
	}
	if o.foreground {
		tty, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
		if err == nil {
			attr.Foreground, attr.Ctty = true, tty
			defer syscall.Close(tty)
		}
	}
	pid, err := launch(o, attr)
	if err != nil {
		return err
	}
	letGo()
	g.guarded, g.command = o.guarded, pid
	g.scope = scope{root: own, group: own}
	if o.job {
		g.scope.group = pid
	}
	g.report(noteStarted, int64(pid))
	p, _ := readProcess(pid) // not waited for yet, so it exists
	g.report(noteBirth, int64(p.start))
	return nil
}

// letGo leaves the streams and the directory to the command.
func letGo() {
	if null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup2(null, fd)
		}
	}
	_ = os.Chdir("/")
}

// serve guards the command until the starter ends or closes the pipe.
func (g *guard) serve() {
	g.reap()
	for {
		// A guard that was stopped first reads the pending deadlines, and only
		// then decides whether the latest one has passed.
		orders := g.wait(min(max(0, time.Until(g.deadline)), time.Hour), true)
		g.reap()
		switch {
		case orders:
			n, err := receiveNote(g.orders)
			switch {
			case err != nil:
				g.end()
				return
			case n.kind == noteSpare:
				g.scope = g.scope.spare()
			default:
				g.extend(n)
			}
		case g.guarded && !g.isEmpty() && !time.Now().Before(g.deadline):
			_ = g.kill() // the next attempt follows
		}
	}
}

func (g *guard) extend(n note) { g.deadline = g.epoch.Add(time.Duration(n.value)) }

// wait waits for an order or the end of a child, and reports whether there is
// an order.
func (g *guard) wait(most time.Duration, listen bool) bool {
	input := []unix.PollFd{
		{Fd: int32(g.wake), Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLOUT},
	}
	if listen {
		input[1].Fd = int32(g.orders.Fd())
	}
	if len(g.outbox) > 0 {
		input[2].Fd = int32(g.reports)
	}
	if most == 0 && g.isEmpty() { // the deadline has passed, and nothing is left to kill
		most = time.Hour
	}
	_, err := unix.Poll(input, int(most.Milliseconds())) // after an error the descriptors are not ready
	for errors.Is(err, syscall.EINTR) {
		// By a signal, such as the SIGCONT after a stop: what is pending was
		// not looked at yet.
		_, err = unix.Poll(input, 0)
	}
	if input[0].Revents != 0 {
		_, _ = syscall.Read(g.wake, make([]byte, 512))
	}
	g.flush()
	return input[1].Revents != 0
}

// reap reads the status of children, the command's and those of orphans.
func (g *guard) reap() {
	for !g.childless {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD
			g.childless = true
			if subreapers {
				g.report(noteEmpty, 0)
			}
		case pid == 0:
			return
		case pid != g.command:
		case status.Stopped():
			g.report(noteStopped, int64(status.StopSignal()))
		default:
			g.command = 0
			g.report(noteEnded, int64(status))
		}
	}
}

// kill kills what is there, and waits a moment for the outcome. It returns the
// error of processes that refuse the signal.
func (g *guard) kill() error {
	err := g.scope.signal(syscall.SIGKILL)
	g.pause = min(max(2*g.pause, 5*time.Millisecond), time.Second)
	g.wait(g.pause, false)
	g.reap()
	return err
}

// end kills what is left when the starter has ended or is content. It gives up
// on processes that refuse SIGKILL or that it cannot see.
func (g *guard) end() {
	for hopeless := 0; g.guarded && !g.isEmpty() && hopeless < 3; {
		refused := g.kill()
		table, err := processes()
		none := err != nil || len(g.scope.kin(table)) == 0
		spared := g.scope.sparing && len(g.scope.detached(table)) > 0
		// A walk can miss a process; the lack of children cannot.
		if none && (spared || !subreapers) || (none || refused != nil) && g.pause == time.Second {
			hopeless++
		} else {
			hopeless = 0
		}
	}
}

// isEmpty reports that no descendant is left, as far as the system can tell.
func (g *guard) isEmpty() bool { return subreapers && g.childless }

// report sends a note to the starter, now or when the pipe has room.
func (g *guard) report(kind byte, value int64) {
	g.outbox = append(g.outbox, note{kind, value}.encode()...)
	g.flush()
}

func (g *guard) flush() {
	for len(g.outbox) > 0 {
		n, err := syscall.Write(g.reports, g.outbox)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return
		case err != nil: // the starter has ended
			g.outbox = nil
		default:
			g.outbox = g.outbox[n:]
		}
	}
}
