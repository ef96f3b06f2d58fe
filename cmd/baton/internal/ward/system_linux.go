package ward

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// diesWithParent makes the kernel kill a command when its parent dies, for the
// case that baton and the guard are killed together.
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

// alive reports whether a group has a live process besides its leader, the
// guard. kill(2) cannot tell: a zombie belongs to its group until its parent
// waits for it, which in a container may never happen.
func alive(group int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return true // unknown
	}
	leader := "/proc/" + strconv.Itoa(group) + "/stat"
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil || path == leader {
			continue // it has ended, or is the guard
		}
		// The name, in parentheses, may contain blanks and parentheses. State,
		// parent and group follow it.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		ended := len(fields) < 3 || fields[0] == "Z" || fields[0] == "X"
		if !ended && fields[2] == strconv.Itoa(group) {
			return true
		}
	}
	return false
}
