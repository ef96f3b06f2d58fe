package netproxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

// Every test closes its proxy, and no goroutine of a proxy may be left. One
// that Close has waited for may still be returning.
func TestMain(m *testing.M) {
	code := m.Run()
	stacks := make([]byte, 1<<20)
	for range 1000 {
		if s := stacks[:runtime.Stack(stacks, true)]; !bytes.Contains(s, []byte("netproxy.(*")) {
			os.Exit(code)
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Printf("goroutines are left:\n%s\n", bytes.TrimRight(stacks, "\x00"))
	os.Exit(1)
}

// echo is a server that returns each byte and records all of them.
type echo struct {
	ln   net.Listener
	name string // sent first on each connection, if not empty

	mu  sync.Mutex
	got strings.Builder
	how []error // how each connection ended

	conns []net.Conn
}

func startEcho(t *testing.T, name string) *echo {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{ln: ln, name: name}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { e.serve(conn) })
		}
	})
	// Registered before the proxy's Close, so it runs after it, when the
	// connections have ended.
	t.Cleanup(func() { _ = ln.Close(); running.Wait() })
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	e.mu.Lock()
	e.conns = append(e.conns, conn)
	e.mu.Unlock()
	_, _ = io.WriteString(conn, e.name)
	buf := make([]byte, 1<<10)
	for {
		n, err := conn.Read(buf)
		e.mu.Lock()
		e.got.Write(buf[:n])
		if err != nil {
			e.how = append(e.how, err)
		}
		e.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (e *echo) addr() string { return e.ln.Addr().String() }

// hangUp closes all connections from the server's side.
func (e *echo) hangUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, conn := range e.conns {
		_ = conn.Close()
	}
}

func (e *echo) received() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got.String()
}

func (e *echo) endings() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]error(nil), e.how...)
}

func startProxy(t *testing.T, targets ...string) *netproxy.Proxy {
	t.Helper()
	p, err := netproxy.New(targets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// linked starts an echo server behind a proxy, and makes a connection on which
// it has answered words.
func linked(t *testing.T, words string) (*echo, *netproxy.Proxy, *net.TCPConn) {
	t.Helper()
	server := startEcho(t, "")
	p := startProxy(t, server.addr())
	conn := dial(t, p)
	send(t, conn, words)
	expect(t, conn, words)
	return server, p, conn
}

func dial(t *testing.T, p *netproxy.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

func send(t *testing.T, conn net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(conn, s); err != nil {
		t.Fatal(err)
	}
}

// expect reads exactly s.
func expect(t *testing.T, conn net.Conn, s string) {
	t.Helper()
	_ = conn.SetReadDeadline(hang(t))
	buf := make([]byte, len(s))
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != s {
		t.Fatalf("read %q, %v; want %q", buf, err, s)
	}
}

// silent fails if anything, an end included, arrives within a moment.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(60 * time.Millisecond))
	n, err := conn.Read(make([]byte, 64))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
}

func expectReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(hang(t))
	n, err := conn.Read(make([]byte, 64))
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read %d bytes, %v; want a reset", n, err)
	}
}

// expectTurnedAway makes a connection that is reset at once; the reset may be
// so quick that it fails the dial.
func expectTurnedAway(t *testing.T, p *netproxy.Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil {
		expectReset(t, conn)
		_ = conn.Close()
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("dial: %v, want a reset", err)
	}
}

// hang returns the time at which a wait hangs.
func hang(t *testing.T) time.Time {
	if end, ok := t.Deadline(); ok {
		return time.Now().Add(time.Until(end) / 3)
	}
	return time.Now().Add(5 * time.Minute)
}

// until waits for a condition. It fails only if the condition hangs.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := hang(t); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// steady waits until a number has not changed for a while.
func steady(t *testing.T, number func() int64) {
	t.Helper()
	last, since := number(), time.Now()
	until(t, "a number to be steady", func() bool {
		if now := number(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	})
}
