//go:build unix && !linux && !solaris && !illumos && !aix

package ward

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// diesWithParent does nothing: the kernel has no such feature.
func diesWithParent(*syscall.SysProcAttr) {}

func executable() (string, error) { return os.Executable() }

// alive reports whether a group has a live process besides its leader, the
// guard.
func alive(group int) bool {
	table, err := exec.Command("ps", "-A", "-o", "pgid=,pid=,stat=").Output()
	if err != nil {
		return true // unknown
	}
	number := strconv.Itoa(group)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		ended := len(fields) < 3 || strings.HasPrefix(fields[2], "Z")
		if !ended && fields[0] == number && fields[1] != number {
			return true
		}
	}
	return false
}
