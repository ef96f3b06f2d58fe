package integration_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// sharedRegister is the resource that the lock protects: one number behind a
// TCP port, which clients read, increment, and write back. Like real resources,
// it does not know who holds the lock. If it is fenced, it refuses requests
// with a smaller token than the greatest it has seen. That includes reads:
// otherwise a stopped holder could write between the read and the first write
// of its successor.
type sharedRegister struct {
	listener net.Listener
	fenced   bool
	serving  sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	closed   bool
	value    int
	greatest int64
	count    counts
	changed  chan struct{} // closed and replaced at each request
	// reader is the client in its critical section: it has read and not yet
	// written or given up. cycle counts reads.
	reader, cycle int
}

// counts are a register's counters.
type counts struct {
	Writes  int // acknowledged writes
	Refused int // reads and writes with too small a token
	Stale   int // acknowledged writes of a value that was not the replaced value plus one
	Told    int // holders that noticed their loss, and did not write
}

// lost counts the acknowledged updates that the value does not contain.
func (r *sharedRegister) lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count.Writes - r.value
}

// The register's requests and replies. Token is zero for clients without
// tokens.
type (
	registerRequest struct {
		Op     string // read, write, or told: the client has noticed its loss
		Client int
		Value  int
		Token  int64
	}
	registerReply struct {
		Value   int
		Refused bool
	}
)

func newSharedRegister(t testing.TB, fenced bool) *sharedRegister {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &sharedRegister{listener: ln, fenced: fenced, conns: map[net.Conn]struct{}{}, changed: make(chan struct{}), reader: -1}
	r.serving.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *sharedRegister) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.mu.Lock()
		if r.closed {
			_ = conn.Close()
		} else {
			r.conns[conn] = struct{}{}
			r.serving.Go(func() { r.serve(conn) })
		}
		r.mu.Unlock()
	}
}

// close ends all connections: unacknowledged writes do not count. It may be
// called again.
func (r *sharedRegister) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.serving.Wait()
}

func (r *sharedRegister) serve(conn net.Conn) {
	defer conn.Close()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var q registerRequest
		if in.Decode(&q) != nil || out.Encode(r.handle(q)) != nil {
			return
		}
	}
}

func (r *sharedRegister) handle(q registerRequest) registerReply {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
	if q.Op != "read" && r.reader == q.Client {
		r.reader = -1
	}
	if q.Op == "told" {
		r.count.Told++
		return registerReply{}
	}
	if r.fenced {
		if q.Token < r.greatest {
			r.count.Refused++
			return registerReply{Refused: true}
		}
		r.greatest = q.Token
	}
	if q.Op == "read" {
		r.reader = q.Client
		r.cycle++
		return registerReply{Value: r.value}
	}
	if q.Value != r.value+1 {
		r.count.Stale++
	}
	r.value = q.Value
	r.count.Writes++
	return registerReply{}
}

// holder returns the client in its critical section, or -1, and its cycle.
// changed is closed at the next request.
func (r *sharedRegister) holder() (client, cycle int, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reader, r.cycle, r.changed
}

func (r *sharedRegister) counts() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// errRefused is the register's refusal, as a worker sees it.
var errRefused = errors.New("the register has seen a greater token")

// registerClient is a worker's connection to the register.
type registerClient struct {
	client int
	in     *json.Decoder
	out    *json.Encoder
}

func dialRegister(addr string, client int) (*registerClient, io.Closer, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	return &registerClient{client, json.NewDecoder(conn), json.NewEncoder(conn)}, conn, nil
}

func (c *registerClient) ask(op string, value int, token int64) (int, error) {
	if err := c.out.Encode(registerRequest{op, c.client, value, token}); err != nil {
		return 0, err
	}
	var reply registerReply
	if err := c.in.Decode(&reply); err != nil {
		return 0, err
	}
	if reply.Refused {
		return 0, errRefused
	}
	return reply.Value, nil
}

func TestRegisterCountsLostUpdatesAndRefusesSmallerTokens(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		r := newSharedRegister(t, fenced)
		for _, q := range []registerRequest{
			{"read", 1, 0, 7},
			{"read", 2, 0, 8}, // 1 is stopped, 2 has the lock
			{"write", 1, 1, 7},
			{"write", 2, 1, 8},
			{"told", 1, 0, 0},
		} {
			r.handle(q)
		}
		want := counts{Writes: 2, Stale: 1, Told: 1}
		lost := 1
		if fenced {
			want, lost = counts{Writes: 1, Refused: 1, Told: 1}, 0
		}
		if r.counts() != want || r.lost() != lost {
			t.Errorf("fenced %v: %+v, lost %d; want %+v, %d", fenced, r.counts(), r.lost(), want, lost)
		}
	}
}
