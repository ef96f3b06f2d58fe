//go:build linux

package dial_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strconv"
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

// The first attempt's packet would be repeated after one second only, and again
// two seconds later.
func TestConnectionIsTriedAgainBesideTheFirstAttempt(t *testing.T) {
	addr, accept := occupied(t)
	before := runtime.NumGoroutine()
	time.AfterFunc(1100*time.Millisecond, accept) // just after the kernel's repetition
	ctx, cancel := context.WithTimeout(t.Context(), 2900*time.Millisecond)
	defer cancel()
	conn, err := dial.TCP(ctx, addr)
	if err != nil {
		t.Fatal(err)
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
