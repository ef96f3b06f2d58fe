package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is the use of resources so far.
type usage struct {
	server, client time.Duration // processor time
	allocs, bytes  float64       // of this process's heap
	counts         Counts
}

func (u usage) minus(o usage) usage {
	return usage{u.server - o.server, u.client - o.client, u.allocs - o.allocs, u.bytes - o.bytes, u.counts.minus(o.counts)}
}

func (u usage) plus(o usage) usage {
	return usage{u.server + o.server, u.client + o.client, u.allocs + o.allocs, u.bytes + o.bytes, u.counts.plus(o.counts)}
}

// recorder adds up the use between begin and end.
type recorder struct {
	servers []int
	client  int    // the process of a subject, 0 for this process
	meter   *meter // nil if requests are not counted
	from    usage
	total   usage
}

func (r *recorder) begin() { r.from = r.now() }
func (r *recorder) end()   { r.total = r.total.plus(r.now().minus(r.from)) }

func (r *recorder) now() usage {
	var u usage
	for _, pid := range r.servers {
		u.server += processTime(pid)
	}
	if r.client != 0 {
		u.client = processTime(r.client)
	} else {
		u.client = ownTime()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u.allocs, u.bytes = float64(m.Mallocs), float64(m.TotalAlloc)
	}
	if r.meter != nil {
		u.counts = r.meter.snapshot()
	}
	return u
}

// tick is the unit of the times in /proc: USER_HZ, which is 100 on every Linux
// that Go runs on.
const tick = 10 * time.Millisecond

// processTime returns the processor time of a process, or 0 if it is unknown,
// without /proc.
func processTime(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain anything.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

func ownTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
