//go:build unix && !linux

package ward

import "syscall"

// attributes are those of a command: it is in a group from its birth on.
func attributes(group int, _ bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}
