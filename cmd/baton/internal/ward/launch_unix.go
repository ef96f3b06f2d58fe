//go:build unix && !solaris && !illumos && !aix

package ward

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
)

// launch starts the command with this process's streams. A file of text that
// the kernel cannot execute, since it has no "#!", is a script for the shell,
// as it is for execvp(3) and so for env(1), flock(1) and timeout(1).
func launch(o order, attr *syscall.SysProcAttr) (pid int, err error) {
	how := &syscall.ProcAttr{Env: o.env, Files: []uintptr{0, 1, 2}, Sys: attr}
	pid, err = syscall.ForkExec(o.path, o.args, how)
	if errors.Is(err, syscall.ENOEXEC) && isText(o.path) {
		args := []string{"/bin/sh", o.path}
		if len(o.args) > 1 {
			args = append(args, o.args[1:]...)
		}
		pid, err = syscall.ForkExec(args[0], args, how)
	}
	return pid, err
}

// isText reports whether a file begins with text, as shells do it: not the
// program of another architecture.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	return n > 0 && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) &&
		bytes.IndexByte(head[:n], 0) < 0
}
