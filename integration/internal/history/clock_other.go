//go:build !linux

package history

import "time"

// Now is the time in nanoseconds on the wall clock, the only one that is known
// to be shared by processes here. A step of it shows as a violation.
func Now() int64 { return time.Now().UnixNano() }
