//go:build !linux

package child

import "errors"

// ErrNoTrace means that this system has no strace.
var ErrNoTrace = errors.New("child: processes cannot be traced")

// Inject fails: strace is Linux's.
func Inject(int, string, string) (stop func(), err error) { return nil, ErrNoTrace }
