//go:build unix && !linux && !solaris && !illumos && !aix

package ward

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// subreapers says that the first process gets all orphans.
const subreapers = false

func setSubreaper(bool) error { return nil }

func children() map[int]uint64 { return nil }

// diesWithParent does nothing: the kernel has no such feature.
func diesWithParent(*syscall.SysProcAttr) {}

func executable() (string, error) { return os.Executable() }

// processes reads the process table.
func processes() ([]process, error) {
	ps := exec.Command("ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,comm=")
	out, err := ps.Output()
	if err != nil {
		return nil, err
	}
	var table []process
	for line := range strings.Lines(string(out)) {
		const pid, parent, group, state, name = 0, 1, 2, 3, 4
		fields := strings.Fields(line)
		if len(fields) <= name {
			continue
		}
		number := func(field int) int { n, _ := strconv.Atoi(fields[field]); return n }
		p := process{
			pid: number(pid), parent: number(parent), group: number(group),
			ended: strings.HasPrefix(fields[state], "Z"), name: filepath.Base(fields[name]),
		}
		p.session, _ = unix.Getsid(p.pid) // 0 after an error
		if p.pid != ps.Process.Pid {
			table = append(table, p)
		}
	}
	return table, nil
}

// readProcess reads one entry of the process table.
func readProcess(pid int) (process, error) { return process{pid: pid}, nil }

func (p process) signal(sig syscall.Signal) error { return syscall.Kill(p.pid, sig) }

// ignored returns the signals that this process ignores, of those that a
// program is often started with.
func ignored() map[syscall.Signal]bool {
	set := map[syscall.Signal]bool{}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		set[sig] = signal.Ignored(sig)
	}
	return set
}
