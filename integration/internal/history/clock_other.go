//go:build !linux

package history

import "time"

// Now returns the time in nanoseconds on the wall clock, the only clock known
// to be shared by processes here. A step of it looks like a violation.
func Now() int64 { return time.Now().UnixNano() }
