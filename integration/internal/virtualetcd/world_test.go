package virtualetcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/etcd"
)

const ttl = 10 * time.Second

// world is an etcd and its clients in one bubble.
type world struct {
	t      *testing.T
	server *etcdserver.EtcdServer
}

// inWorld runs a test in a bubble with a new etcd.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

// newWorld starts an etcd. It is called in a bubble.
func newWorld(t *testing.T) *world {
	t.Helper()
	valCtxCh = make(chan struct{})
	server, err := etcdserver.NewServer(serverConfig(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	<-server.ReadyNotify()
	t.Cleanup(func() {
		server.HardStop()
		time.Sleep(time.Minute) // for goroutines that end by a timer
	})
	return &world{t, server}
}

func serverConfig(t *testing.T, dir string) config.ServerConfig {
	t.Helper()
	peer, err := types.NewURLs([]string{"http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	members, err := types.NewURLsMap("n0=http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	return config.ServerConfig{
		Name: "n0", DataDir: dir, ClientURLs: types.URLs{url.URL{Scheme: "http", Host: "127.0.0.1:2"}},
		PeerURLs: peer, InitialPeerURLsMap: members, InitialClusterToken: "x", NewCluster: true,
		TickMs: 100, ElectionTicks: 10, PreVote: true, MaxLearners: 1,
		SnapshotCount: 10000, SnapshotCatchUpEntries: 5000, MaxTxnOps: 128,
		MaxRequestBytes: 1 << 20, MaxConcurrentStreams: 1 << 20, StrictReconfigCheck: true,
		Logger: zap.NewNop(), UnsafeNoFsync: true, AuthToken: "simple", BcryptCost: 4, TokenTTL: 300,
		WarningApplyDuration: time.Second, WatchProgressNotifyInterval: 10 * time.Minute,
		CompactHashCheckTime: time.Minute,
		ServerFeatureGate:    features.NewDefaultServerFeatureGate("n0", zap.NewNop()),
	}
}

// client is an etcd client that knows some members of its own.
type client struct {
	*clientv3.Client
	members []*member
}

// client makes a client of n members. With a user it authenticates.
func (w *world) client(n int, user string) *client {
	w.t.Helper()
	c, by := &client{}, map[string]*member{}
	cfg := clientv3.Config{Logger: zap.NewNop(), Username: user, Password: user}
	for i := range n {
		m := newMember(uint64(i)+1, w.server)
		name := fmt.Sprintf("m%d", i)
		by[name] = m
		c.members = append(c.members, m)
		cfg.Endpoints = append(cfg.Endpoints, "http://"+name)
	}
	cfg.DialOptions = []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return by[addr].dial(ctx) }),
	}
	var err error
	if c.Client, err = clientv3.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = c.Close()
		for _, m := range c.members {
			m.grpc.Stop()
		}
	})
	return c
}

// serving is the member that serves the client's watches.
func (c *client) serving() *member {
	for _, m := range c.members {
		if m.watching() > 0 {
			return m
		}
	}
	return nil
}

// baton makes a client of Baton on a client of etcd.
func (w *world) baton(c *client, opts ...etcd.Option) *coordinator.Client {
	w.t.Helper()
	d, err := etcd.FromClient(c.Client, append(opts, etcd.Namespace("x"))...)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := coordinator.New(d, coordinator.WithTTL(ttl), coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ttl)
		defer cancel()
		_ = b.Close(ctx)
	})
	return b
}

// member is a gRPC server of the etcd, on pipes.
type member struct {
	id     uint64 // which its answers to keep-alives show
	server *etcdserver.EtcdServer
	grpc   *grpc.Server
	conns  chan net.Conn
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex
	watches int   // open streams of watches
	stalled int64 // the revision at which it stopped to apply, or 0
	silent  bool  // it answers no reads, either
	hung    bool  // it answers no keep-alives
	// disturb, if set, handles requests; it is set before the first.
	disturb func(ctx context.Context, req any, handle grpc.UnaryHandler) (any, error)
	term    uint64 // which its answers to keep-alives show, more than the server's
}

func newMember(id uint64, server *etcdserver.EtcdServer) *member {
	m := &member{id: id, server: server, conns: make(chan net.Conn), done: make(chan struct{})}
	m.grpc = v3rpc.Server(server, nil, m.unary, grpc.ChainStreamInterceptor(m.stream))
	go func() { _ = m.grpc.Serve(m) }()
	return m
}

func (m *member) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.done:
	case <-ctx.Done():
	}
	return nil, errors.New("no server")
}

// Accept, Close and Addr are net.Listener.
func (m *member) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *member) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

func (m *member) Addr() net.Addr { return &net.UnixAddr{} }

// stall lets the member stop to apply: a disk that hangs. It answers pings, old
// reads and new watches, and passes on keep-alives.
func (m *member) stall() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stalled = m.server.KV().Rev()
}

// heal ends stall. Watches on it never get the events that they missed.
func (m *member) heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stalled = 0
}

func (m *member) at() (stalled int64, silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stalled, m.silent
}

func (m *member) watching() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watches
}

func (m *member) unary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	rev, silent := m.at()
	switch {
	case rev == 0 && m.disturb != nil:
		return m.disturb(ctx, req, handle)
	case rev == 0:
		return handle(ctx, req)
	}
	old := func(r *pb.RangeRequest) bool {
		r.Revision = rev
		return r.Serializable
	}
	local := false
	switch r := req.(type) {
	case *pb.RangeRequest:
		local = old(r)
	case *pb.TxnRequest:
		local = len(r.Compare) == 0
		for _, op := range append(r.Success, r.Failure...) {
			local = local && op.GetRequestRange() != nil && old(op.GetRequestRange())
		}
	}
	if !local || silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	resp, err := handle(ctx, req)
	switch r := resp.(type) {
	case *pb.RangeResponse:
		r.Header.Revision = rev
	case *pb.TxnResponse:
		r.Header.Revision = rev
	}
	return resp, err
}

// keepAlives sets what the member does with keep-alives.
func (m *member) keepAlives(hung bool, term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hung, m.term = hung, term
}

func (m *member) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	switch info.FullMethod {
	case pb.Lease_LeaseKeepAlive_FullMethodName:
		return handle(srv, &keepAliveStream{s, m})
	case pb.Watch_Watch_FullMethodName:
	default:
		return handle(srv, s)
	}
	m.mu.Lock()
	m.watches++
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watches--
	}()
	return handle(srv, &watchStream{s, m})
}

// watchStream sends no events while its member is stalled.
type watchStream struct {
	grpc.ServerStream
	m *member
}

func (s *watchStream) SendMsg(msg any) error {
	resp, ok := msg.(*pb.WatchResponse)
	if rev, silent := s.m.at(); ok && rev > 0 {
		if !resp.Created && !resp.Canceled || silent {
			return nil
		}
		resp.Header.Revision = rev
	}
	return s.ServerStream.SendMsg(msg)
}

// keepAliveStream answers keep-alives as its member is told.
type keepAliveStream struct {
	grpc.ServerStream
	m *member
}

func (s *keepAliveStream) RecvMsg(msg any) error {
	err := s.ServerStream.RecvMsg(msg)
	s.m.mu.Lock()
	hung := s.m.hung
	s.m.mu.Unlock()
	if hung && err == nil {
		<-s.Context().Done()
		return s.Context().Err()
	}
	return err
}

func (s *keepAliveStream) SendMsg(msg any) error {
	if resp, ok := msg.(*pb.LeaseKeepAliveResponse); ok {
		s.m.mu.Lock()
		resp.Header.RaftTerm += s.m.term
		resp.Header.MemberId = s.m.id
		s.m.mu.Unlock()
	}
	return s.ServerStream.SendMsg(msg)
}
