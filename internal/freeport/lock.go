//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package freeport

import (
	"os"
	"syscall"
)

// lock locks a file, or fails at once. A flock belongs to the open file, so
// that it excludes a second taker in this process, too.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
