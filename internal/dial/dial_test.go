//go:build linux

package dial_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/internal/dial"
)

// occupied listens on a socket that has room for one connection, which is
// taken. The kernel drops the packets of others. accept makes room, for two.
func occupied(t *testing.T) (addr string, accept func()) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		t.Cleanup(func() { _ = syscall.Close(fd) })
		err = errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0))
	}
	name, nameErr := syscall.Getsockname(fd)
	if err = errors.Join(err, nameErr); err != nil {
		t.Fatal(err)
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	for range 10 {
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr, func() { _, _, _ = syscall.Accept(fd); _, _, _ = syscall.Accept(fd) }
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the kernel accepts ten connections nobody waits for")
	return "", nil
}

// attempts counts the connections to an address that the kernel has begun and
// not made.
func attempts(t *testing.T, addr string) int {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Error(err)
	}
	at := netip.MustParseAddrPort(addr)
	ip := at.Addr().As4()
	const sent = "02" // SYN_SENT
	return strings.Count(string(table), fmt.Sprintf(" %08X:%04X %s ", binary.NativeEndian.Uint32(ip[:]), at.Port(), sent))
}

// The first attempt's packet is repeated after one second only, and again two
// seconds later. By then others have begun.
func TestConnectionIsTriedAgainBesideTheFirstAttempt(t *testing.T) {
	addr, accept := occupied(t)
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	most := make(chan int, 1)
	go func() {
		n := 0
		for ; n < 3 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
			n = max(n, attempts(t, addr))
		}
		accept()
		most <- n
	}()
	conn, err := dial.TCP(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	if n := <-most; n < 3 {
		t.Errorf("%d attempts at once", n)
	}
	cancel()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		t.Errorf("the connection ended with its context: %v", err)
	}
	_ = conn.Close()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestDialEndsWithItsContextAndAtARefusal(t *testing.T) {
	addr, _ := occupied(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var op *net.OpError
	if _, err := dial.TCP(ctx, addr); !errors.As(err, &op) || !op.Timeout() {
		t.Errorf("%v, want a timeout", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = listener.Addr().String()
	_ = listener.Close()
	if _, err := dial.TCP(t.Context(), addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want a refusal", err)
	}
}
