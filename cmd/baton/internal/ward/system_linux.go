package ward

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// subreapers says that there are processes to which the kernel gives orphans.
const subreapers = true

// setSubreaper makes this process a subreaper, or ends that.
func setSubreaper(on bool) error {
	var flag uintptr
	if on {
		flag = 1
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, flag, 0, 0, 0)
}

// diesWithParent makes the kernel kill a command when its parent dies.
func diesWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// executable returns the path of this program, even if its file was replaced
// after the start.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		return os.Executable()
	}
	return self, nil
}

// processes reads the process table. The kernel lists processes by their
// numbers, which rise with each fork, so the walk moves in the direction of a
// chain of processes, each of which forks once and ends at once. If the walk
// lists one and finds it gone, its child has a greater number and is still
// ahead. So that it is not listed, too, before it is read, the walk lists only
// a few at a time. Only where the numbers begin anew a walk can miss a chain.
func processes() ([]process, error) {
	dir, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(dir) }()
	var table []process
	var names []string
	for few := make([]byte, 64); ; {
		n, err := unix.ReadDirent(dir, few)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EINVAL) && len(few) < 4096: // a longer name
			few = make([]byte, 2*len(few))
			continue
		case err != nil:
			return nil, err
		case n == 0 && len(table) == 0:
			return nil, errors.New("/proc lists no process")
		case n == 0:
			return table, nil
		}
		_, _, names = unix.ParseDirent(few[:n], -1, names[:0])
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			if p, err := readProcess(pid); err == nil {
				table = append(table, p)
			}
		}
	}
}

// readProcess reads one entry of the process table.
func readProcess(pid int) (process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	// The name, in parentheses, may contain blanks and parentheses. Field 3,
	// the state, follows it; see proc_pid_stat(5).
	before, name, _ := strings.Cut(string(text), "(")
	end := strings.LastIndexByte(name, ')')
	if before == "" || end < 0 {
		return process{}, fmt.Errorf("/proc/%d/stat is malformed", pid)
	}
	fields := strings.Fields(name[end+1:])
	const first = 3
	number := func(field int) (n uint64) {
		if i := field - first; i < len(fields) {
			n, _ = strconv.ParseUint(fields[i], 10, 64)
		}
		return n
	}
	const parent, group, session, threads, start = 4, 5, 6, 20, 22
	p := process{
		pid: pid, name: name[:end], parent: int(number(parent)), group: int(number(group)),
		session: int(number(session)), start: number(start),
	}
	// A process whose first thread has ended shows the state of a zombie while
	// its other threads run.
	state := ""
	if len(fields) > 0 {
		state = fields[0]
	}
	p.ended = state == "X" || state == "Z" && number(threads) <= 1
	return p, nil
}

// signal sends a signal to the process, but to no other that has its number by
// now.
func (p process) signal(sig syscall.Signal) error {
	if p.start == 0 { // the process table cannot be read
		return syscall.Kill(p.pid, sig)
	}
	fd, err := unix.PidfdOpen(p.pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return err
	case err != nil: // an old kernel, or a filter of system calls
		fd = -1
	default:
		defer func() { _ = unix.Close(fd) }()
	}
	if now, err := readProcess(p.pid); err != nil || now.start != p.start {
		return syscall.ESRCH
	}
	if fd >= 0 {
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	return syscall.Kill(p.pid, sig)
}

// ignored returns the signals that this process ignores.
func ignored() map[syscall.Signal]bool {
	set := map[syscall.Signal]bool{}
	text, _ := os.ReadFile("/proc/self/status") // an unknown signal counts as not ignored
	for line := range strings.Lines(string(text)) {
		if hex, found := strings.CutPrefix(line, "SigIgn:"); found {
			mask, _ := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			for n := range 64 {
				if mask&(1<<n) != 0 {
					set[syscall.Signal(n+1)] = true
				}
			}
		}
	}
	return set
}

// children returns the children that this process already has: it was started
// by exec in a process that had some.
func children() map[int]uint64 {
	var ended unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &ended, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
		return nil // ECHILD
	}
	table, err := processes()
	if err != nil {
		return nil
	}
	known := map[int]uint64{}
	for _, p := range table {
		if p.parent == os.Getpid() {
			known[p.pid] = p.start
		}
	}
	return known
}
