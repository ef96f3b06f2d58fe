package zookeeper

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// fake is a server with as much of ZooKeeper's protocol as the tests script: it
// grants sessions, sends the replies of reply, and records the requests.
type fake struct {
	t        *testing.T
	listener net.Listener
	dial     func(ctx context.Context, addr string) (net.Conn, error) // nil: TCP

	mu    sync.Mutex
	grant func(asked hello) (answer hello, speak bool)
	reply func(op int32) (code zk.ErrCode, body []byte, speak bool)
	delay func(op int32) time.Duration // of each reply but those to pings
	// demands, if not empty, are the credentials without which a connection
	// gets no answer but a code and the end, as with enforce.auth.enabled.
	demands string
	tree    *tree   // if set, it answers instead of reply
	asked   []hello // of each connect request
	seen    []int64 // their last zxids
	ops     map[int32]int
	conns   []net.Conn
}

// hello is the content of a connect request, and of its reply.
type hello struct {
	timeout time.Duration
	session int64
	passwd  []byte
}

// readMessage reads one message with its length prefix.
func readMessage(r io.Reader) ([]byte, error) {
	m := make([]byte, 4)
	if _, err := io.ReadFull(r, m); err != nil {
		return nil, err
	}
	m = append(m, make([]byte, binary.BigEndian.Uint32(m))...)
	_, err := io.ReadFull(r, m[4:])
	return m, err
}

const (
	opGet          = 4
	opSync         = 9
	opPing         = 11
	opAuth         = 100
	opCloseSession = -11

	authFailed   zk.ErrCode = -115
	requiresAuth zk.ErrCode = -124
)

// newFake starts a server that grants every session and answers every request
// with success.
func newFake(t *testing.T) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	return serveFake(t, l)
}

// newPipes is newFake for a test in virtual time: connections are pipes in
// memory.
func newPipes(t *testing.T) *fake {
	t.Helper()
	l := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	// Registered first, so it runs last: the client library waits a second for
	// the reply to its own request to end a session.
	t.Cleanup(func() { time.Sleep(2 * time.Second) })
	f := serveFake(t, l)
	f.dial = l.dial
	return f
}

// pipes is a listener in memory.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error { close(l.closed); return nil }

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 2181} }

func (l *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.accepted <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func serveFake(t *testing.T, l net.Listener) *fake {
	t.Helper()
	f := &fake{t: t, listener: l, ops: make(map[int32]int)}
	last := int64(0x1000)
	f.grant = func(asked hello) (hello, bool) {
		if asked.session == 0 {
			last++
			asked.session, asked.passwd = last, bytes.Repeat([]byte{7}, 16)
		}
		return asked, true
	}
	f.reply = func(op int32) (zk.ErrCode, []byte, bool) { return 0, make([]byte, 128), true }
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.cut()
		wg.Wait()
	})
	return f
}

func (f *fake) url() string { return "zk://" + f.listener.Addr().String() }

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
}

// count is the number of requests of a kind.
func (f *fake) count(op int32) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops[op]
}

// askedSessions returns the sessions asked for so far; 0 is a new one.
func (f *fake) askedSessions() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []int64
	for _, h := range f.asked {
		ids = append(ids, h.session)
	}
	return ids
}

func (f *fake) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	f.set(func() { f.conns = append(f.conns, c) })
	in := bufio.NewReader(c)
	if word, err := in.Peek(4); err == nil && string(word) == "srvr" {
		_, _ = c.Write([]byte("Zookeeper version: 3.8.0-x\nMode: follower\n"))
		return
	}
	m, err := readMessage(in)
	if err != nil {
		return
	}
	asked := hello{
		timeout: time.Duration(binary.BigEndian.Uint32(m[16:])) * time.Millisecond,
		session: int64(binary.BigEndian.Uint64(m[20:])),
		passwd:  m[32:],
	}
	p := &peer{Conn: c}
	f.mu.Lock()
	f.asked = append(f.asked, asked)
	f.seen = append(f.seen, int64(binary.BigEndian.Uint64(m[8:])))
	answer, speak := f.grant(asked)
	tree := f.tree
	f.mu.Unlock()
	p.session = answer.session
	if tree != nil {
		tree.join(p)
		defer tree.leave(p)
	}
	if speak {
		b := binary.BigEndian.AppendUint64(nil, uint64(4+4+8+4+len(answer.passwd))<<32) // and the version
		b = binary.BigEndian.AppendUint32(b, uint32(answer.timeout.Milliseconds()))
		b = binary.BigEndian.AppendUint64(b, uint64(answer.session))
		b = binary.BigEndian.AppendUint32(b, uint32(len(answer.passwd)))
		_, _ = c.Write(append(b, answer.passwd...))
	}
	for known := f.demands == ""; ; {
		m, err := readMessage(in)
		if err != nil {
			return
		}
		op := int32(binary.BigEndian.Uint32(m[8:]))
		refusal := requiresAuth
		if op == opAuth {
			known, refusal = strings.HasSuffix(string(m), f.demands), authFailed
		}
		if !known {
			p.answer(op, m, refusal, nil)
			return
		}
		f.set(func() { f.ops[op]++ })
		if tree != nil {
			tree.answer(p, op, m)
			continue
		}
		f.mu.Lock()
		var delay time.Duration
		if f.delay != nil && op != opPing {
			delay = f.delay(op)
		}
		code, body, speak := f.reply(op)
		f.mu.Unlock()
		time.Sleep(delay) // without the lock, which would stop virtual time
		if op == opMulti && len(bytes.TrimLeft(body, "\x00")) == 0 {
			body = []byte{0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff} // no results
		}
		if speak {
			p.answer(op, m, code, body)
		}
	}
}

type peer struct {
	net.Conn
	session int64
	mu      sync.Mutex
}

// answer sends the reply to request m.
func (p *peer) answer(op int32, m []byte, code zk.ErrCode, body []byte) {
	if code != 0 || op == opCloseSession {
		body = nil
	}
	r := binary.BigEndian.AppendUint32(nil, uint32(16+len(body)))
	r = append(append(r, m[4:8]...), 0, 0, 0, 0, 0, 0, 0, 9)
	p.send(append(binary.BigEndian.AppendUint32(r, uint32(code)), body...))
}

func (p *peer) send(m []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.Write(m)
}

// soon returns a context that ends after d, or with the test.
func soon(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

func openFake(t *testing.T, f *fake, ttl time.Duration) *session {
	t.Helper()
	s, err := f.driver("/app").Open(soon(t, 20*time.Second), ttl)
	ok(t, err)
	t.Cleanup(func() { _ = s.Close(soon(t, time.Millisecond)) })
	return s.(*session)
}

// driver returns a driver for the fake with this end of the URL.
func (f *fake) driver(rest string) driver.Driver {
	f.t.Helper()
	d, err := OpenWith(parse(f.t, f.url()+rest), Dialer(f.dial))
	ok(f.t, err)
	return d
}

// TestMain fails if a goroutine of this package or its client remains.
func TestMain(m *testing.M) {
	status := m.Run()
	var left string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if left = running(); left == "" {
			break
		}
	}
	if left != "" && status == 0 {
		println("goroutines left behind:\n" + left)
		status = 1
	}
	os.Exit(status)
}

func running() string {
	buf := make([]byte, 1<<20)
	var left []string
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "(*pipes).Accept") { // of a test's server
			continue
		}
		if strings.Contains(g, "go-zookeeper") || strings.Contains(g, "zkconn.(*") || strings.Contains(g, "zookeeper.(*") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}
