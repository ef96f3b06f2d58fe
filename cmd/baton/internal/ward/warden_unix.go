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
)

// Guards says that commands are guarded here.
const Guards = true

// The names by which this program is told that it is to be a warden: one that
// kills, and one that only leads the group.
const (
	guardName = "baton-warden"
	leadName  = "baton-group"
)

// Main is the warden, if this process was started as one, and does not return
// then. The program's main calls it first.
func Main() {
	if len(os.Args) == 0 || os.Args[0] != guardName && os.Args[0] != leadName {
		return
	}
	watch(os.Args[0] == guardName)
	os.Exit(0)
}

// watch reads deadlines from standard input, and returns at its end, after it
// has killed the group if it is to guard it.
//
// A deadline is told as nanoseconds after an epoch. That is the moment at which
// the warden says hello; the starter takes for it the moment at which it hears
// of that, which is later. So the warden's clock of deadlines is early by what
// the pipe took, and never late, however long either of them was stopped.
func watch(guard bool) {
	signal.Ignore() // what the group is sent is not for the warden, which belongs to it for a moment
	epoch := time.Now()
	if _, err := os.Stdout.Write([]byte{1}); err != nil {
		return
	}
	deadlines := make(chan time.Duration)
	go func() { // for as long as the process lives
		defer close(deadlines)
		for {
			var at int64
			if binary.Read(os.Stdin, binary.BigEndian, &at) != nil {
				return
			}
			deadlines <- time.Duration(at)
		}
	}()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case at, more := <-deadlines:
			if more {
				leave() // the first one tells that the command is there
				timer.Reset(time.Until(epoch.Add(at)))
				continue
			}
		case <-timer.C:
		}
		if guard {
			_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
		}
		return
	}
}

// leave takes the warden out of the group: to that of the session's leader, a
// shell mostly, so that it is not killed together with the starter by who kills
// a shell's job. Where that group is gone it takes the starter's, and should
// that fail it stays; see alive.
func leave() {
	if session, _, errno := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0); errno == 0 && syscall.Setpgid(0, int(session)) == nil {
		return
	}
	if starters, err := syscall.Getpgid(os.Getppid()); err == nil {
		_ = syscall.Setpgid(0, starters)
	}
}

// warden is the process, as its starter sees it.
type warden struct {
	cmd   *exec.Cmd
	words *os.File // closed, it ends the warden
	epoch time.Time
}

// hire starts a warden that leads a new process group.
func hire(name, title string) (_ *warden, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("no process to guard the command: %w", err)
		}
	}()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(self); err == nil {
		program = self
	}
	in, words, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	hello, out, err := os.Pipe()
	if err != nil {
		_ = words.Close()
		return nil, err
	}
	defer hello.Close()
	w := &warden{words: words, cmd: &exec.Cmd{
		Path: program, Args: []string{name, title}, Env: []string{"GOMAXPROCS=1"}, Dir: "/",
		Stdin: in, Stdout: out, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}}
	err = w.cmd.Start()
	_ = out.Close()
	if err != nil {
		_ = words.Close()
		return nil, err
	}
	_ = hello.SetReadDeadline(time.Now().Add(helloWithin))
	_, err = io.ReadFull(hello, make([]byte, 1))
	w.epoch = time.Now()
	if err != nil {
		w.dismiss()
		return nil, err
	}
	return w, nil
}

// self is this program, also if its file was replaced since it was started.
const self = "/proc/self/exe"

// How long a warden may take to come, and to be told something.
const (
	helloWithin = 10 * time.Second
	toldWithin  = time.Second
)

// tell tells the deadline, or that there is none. It waits only if the warden
// has not listened to thousands before.
func (w *warden) tell(deadline time.Time) error {
	at := int64(never)
	if !deadline.IsZero() {
		at = int64(deadline.Sub(w.epoch))
	}
	_ = w.words.SetWriteDeadline(time.Now().Add(toldWithin))
	_, err := w.words.Write(binary.BigEndian.AppendUint64(nil, uint64(at)))
	if errors.Is(err, syscall.EPIPE) {
		err = errors.New("it is gone")
	}
	return err
}

const never = 100 * 365 * 24 * time.Hour

// dismiss ends the warden, which kills what is left of the group if it guards
// that, and waits for it.
func (w *warden) dismiss() {
	_ = w.words.Close()
	_ = w.cmd.Wait()
}
