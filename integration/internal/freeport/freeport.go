// Package freeport hands out loopback ports that stay ours while a server is
// down.
//
// Asking the kernel for port 0 and closing the listener again, as most tests
// do, fails in two ways here. A test kills a server and starts it again on the
// same port, seconds later: a port from the kernel's own range may have become
// some client's local port by then. And `go test` runs packages side by side,
// so two processes pick ports while a JVM takes its half second to bind. So
// ports come from below the range that kernels use for outgoing connections,
// and each one is reserved by a lock file that the kernel lets go of when this
// process ends.
//
// A port below that range also cannot meet itself: a client that dials a closed
// port of the outgoing range on loopback now and then gets that very port as
// its own and connects to itself.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports are taken from [low, high): above what services claim by habit, below
// Linux's (32768) and everyone else's (49152) outgoing range.
const (
	low   = 20000
	high  = 30000
	tries = 2000
)

// ErrNone means that no free port was found. Something else holds thousands of
// them.
var ErrNone = errors.New("freeport: no free port found")

// held has the lock file of each port that this process has taken. It is global
// because what it describes, the ports of one machine, is.
var held = struct {
	sync.Mutex
	files map[int]*os.File
}{files: map[int]*os.File{}}

// Take reserves n different ports on which nothing listens. They stay reserved,
// against other processes that use this package, until Release or the end of
// this process. On failure nothing is reserved.
func Take(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		port, err := takeOne()
		if err != nil {
			Release(ports...)
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// Release gives ports back. Releasing a port that is not held does nothing.
func Release(ports ...int) {
	held.Lock()
	defer held.Unlock()
	for _, port := range ports {
		if f := held.files[port]; f != nil {
			_ = f.Close() // closing drops the lock; the file itself stays and is empty
			delete(held.files, port)
		}
	}
}

// Addr is the loopback address of a port.
func Addr(port int) string { return On("127.0.0.1", port) }

// On is the address of a port on a host, for servers in network namespaces of
// their own.
func On(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Port is the port of an address as net.Addr prints it, or 0.
func Port(addr string) int {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}

func takeOne() (int, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("baton-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("freeport: %w", err)
	}
	for range tries {
		port := low + rand.IntN(high-low)
		if f := reserve(dir, port); f != nil {
			held.Lock()
			held.files[port] = f
			held.Unlock()
			return port, nil
		}
	}
	return 0, ErrNone
}

// reserve locks the port's file, then makes sure that nothing listens. It
// returns nil when the port belongs to someone else.
func reserve(dir string, port int) *os.File {
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil
	}
	// flock belongs to the open file, so this refuses a second taker in this
	// process too.
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return nil
	}
	ln, err := net.Listen("tcp", Addr(port))
	if err != nil {
		_ = f.Close()
		return nil
	}
	_ = ln.Close()
	return f
}
