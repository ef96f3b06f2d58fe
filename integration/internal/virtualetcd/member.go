package virtualetcd

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
)

// Member is a member of the cluster as clients see it: a gRPC server of its
// own. All members have the same server behind them, and each shows an ID of
// its own. A fault of a member is a condition, see Condition.
type Member struct {
	etcd  *Etcd
	index int
	place atomic.Pointer[place]

	mu     sync.Mutex
	grpc   *grpc.Server
	inbox  *listener
	life   context.Context // of this start of the server
	now    state
	opened map[*watchStream]int // streams of watches, numbered in the order of all members
}

// Index counts the members from 0.
func (m *Member) Index() int { return m.index }

// Serving is the member that serves the latest watches of the link's client, or
// nil.
func (l *Link) Serving() (serving *Member) {
	latest := -1
	for _, m := range l.etcd.members {
		m.mu.Lock()
		for s, n := range m.opened {
			if s.conn.link == l && n > latest {
				serving, latest = m, n
			}
		}
		m.mu.Unlock()
	}
	return serving
}

func (m *Member) start(life context.Context, server *etcdserver.EtcdServer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life = life
	m.now = state{}
	m.inbox = &listener{conns: make(chan net.Conn, 1024), done: make(chan struct{})}
	m.grpc = v3rpc.Server(server, nil, m.unary, grpc.ChainStreamInterceptor(m.stream))
	serve, inbox := m.grpc.Serve, m.inbox
	go func() { _ = serve(inbox) }()
}

// Stop stops this member, until the next start of the Etcd: connections break,
// and new ones are refused. The server behind all members goes on.
func (m *Member) Stop() {
	m.Heal()
	m.mu.Lock()
	server := m.grpc
	m.mu.Unlock()
	server.Stop()
}

// Move gives the member another address on all links. Its connections break;
// packets to the old address are dropped. It goes on otherwise, as one that has
// been replaced in no time.
func (m *Member) Move() {
	moves, _ := m.lastMove()
	m.place.Store(&place{(moves + 1) % 100, time.Now()})
	m.etcd.mu.Lock()
	links := m.etcd.links
	m.etcd.mu.Unlock()
	for _, l := range links {
		l.loseMember(m)
	}
}

func (m *Member) lastMove() (moves int, at time.Time) {
	if p := m.place.Load(); p != nil {
		return p.moves, p.since
	}
	return 0, time.Time{}
}

// place is where a member is after so many moves.
type place struct {
	moves int
	since time.Time
}

// accept gives a connection to the member, if it runs.
func (m *Member) accept(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.inbox.done:
		return false
	case m.inbox.conns <- c:
		return true
	}
}

// listener is a net.Listener on a channel.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{} }

// firstID is the ID of the first member.
const firstID = 0xba70

// show makes a reply one of this member, in this state.
func (m *Member) show(resp any, s state) {
	r, ok := resp.(interface{ GetHeader() *pb.ResponseHeader })
	if !ok || r.GetHeader() == nil {
		return
	}
	h := r.GetHeader()
	h.MemberId = firstID + uint64(m.index)
	h.RaftTerm = m.etcd.shownTerm(h.RaftTerm)
	if s.behind() {
		h.Revision = min(h.Revision, s.rev)
		h.RaftTerm = s.term
	}
	if status, ok := resp.(*pb.StatusResponse); ok {
		status.RaftTerm = h.RaftTerm
		status.Leader = firstID
	}
}
