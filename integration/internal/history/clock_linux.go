package history

import "golang.org/x/sys/unix"

// Now returns the time in nanoseconds on a monotonic clock that all processes
// of this machine share.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("history: no monotonic clock: " + err.Error()) // every Linux has it
	}
	return ts.Nano()
}
