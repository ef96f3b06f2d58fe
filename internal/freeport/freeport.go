// Package freeport reserves loopback ports, also while a server is down.
//
// Asking the kernel for port 0 and closing the listener again, as most tests
// do, fails in two ways here. A test kills a server and restarts it on the same
// port seconds later: a port from the kernel's own range may by then be some
// client's local port. And `go test` runs packages concurrently, so two
// processes pick ports while a JVM takes half a second to bind. So ports come
// from below the range that kernels use for outgoing connections, and each is
// reserved by a lock file that the kernel unlocks when this process ends. Where
// there is no flock, only a listener reserves a port.
//
// Such a port also rules out a connection to itself: a client that dials a
// closed loopback port of the outgoing range is sometimes assigned the same
// port, and then connects to itself.
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
)

// Ports are taken from [low, high): above the usual ports of services, below
// Linux's (32768) and everyone else's (49152) outgoing range.
const (
	low   = 20000
	high  = 30000
	tries = 2000
)

// ErrNone means that no free port was found: other programs use thousands of
// them.
var ErrNone = errors.New("freeport: no free port found")

// held has the lock file of each port that this process has taken. It is
// global, as the machine's ports are.
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

// Release releases ports. Ports that are not held are ignored.
func Release(ports ...int) {
	held.Lock()
	defer held.Unlock()
	for _, port := range ports {
		if f := held.files[port]; f != nil {
			_ = f.Close() // closing releases the lock; the empty file stays
			delete(held.files, port)
		}
	}
}

// Addr returns the loopback address of a port.
func Addr(port int) string { return On("127.0.0.1", port) }

// On returns the address of a port on a host, for servers in their own network
// namespaces.
func On(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Port returns the port of an address as net.Addr prints it, or 0.
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

// reserve locks the port's file, then checks that no process listens. It
// returns nil if the port is taken.
func reserve(dir string, port int) *os.File {
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil
	}
	if lock(f) != nil {
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
