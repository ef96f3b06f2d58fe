package ward

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// attributes are those of a command: it is in a group from its birth on. If it
// is guarded the kernel kills it when its parent dies: for those who kill all
// of Baton's processes at once, the warden too.
func attributes(group int, guarded bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if guarded {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}

// alive tells whether a group has a process that lives, besides the warden,
// whose number is the group's. The warden is still there if it found no group
// to go to: in a PID namespace whose sessions and groups began outside it has
// none. One that has ended counts to its group until its parent, or for orphans
// the machine's first process, has looked, and in a container nobody may ever
// do that.
func alive(group int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return true // nothing is known
	}
	warden := "/proc/" + strconv.Itoa(group) + "/stat"
	for _, path := range stats {
		if path == warden {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		// The name, in parentheses, may have blanks and parentheses; then come
		// state, parent, group.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return true
		}
	}
	return false
}
