package ward

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// diesWithParent has the kernel kill a command when its parent dies. It covers
// the case that all of Baton's processes are killed at once, the guard too.
func diesWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// executable is the path of this program, also if its file was replaced since
// it was started.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		return os.Executable()
	}
	return self, nil
}

// alive tells whether a group has a process that lives, besides its leader, the
// guard. A process that has ended counts to its group until its parent has
// waited for it, which in a container may be never, so the kernel's answer to
// kill(2) is not enough.
func alive(group int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return true // nothing is known
	}
	leader := "/proc/" + strconv.Itoa(group) + "/stat"
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil || path == leader {
			continue // it is gone, or the guard
		}
		// The name, in parentheses, may have blanks and parentheses. Behind it
		// come state, parent and group.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		ended := len(fields) < 3 || fields[0] == "Z" || fields[0] == "X"
		if !ended && fields[2] == strconv.Itoa(group) {
			return true
		}
	}
	return false
}
