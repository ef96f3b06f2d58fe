package ward

import "syscall"

// attributes are those of a command: it is in a group from its birth on. If it is guarded the kernel kills it when its parent dies: for
// those who kill all of Baton's processes at once, the warden too.
func attributes(group int, guarded bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if guarded {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
