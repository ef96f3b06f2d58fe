package etcd

import (
	"context"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// served is a fake that is reached by gRPC, for what is decided on the way there. It notes who wants a leader.
type served struct {
	*fake
	addr string

	mu  sync.Mutex
	led map[string][]bool // the calls of each method
}

func serve(t *testing.T) *served {
	t.Helper()
	f, _ := newFake(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{fake: f, addr: l.Addr().String(), led: make(map[string][]bool)}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			s.note(ctx, info.FullMethod)
			return handle(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			s.note(stream.Context(), info.FullMethod)
			return handle(srv, stream)
		}),
	)
	pb.RegisterKVServer(server, servedKV{f: f})
	pb.RegisterLeaseServer(server, servedLease{l: fakeLease{f: f}})
	pb.RegisterWatchServer(server, servedWatch{w: fakeWatcher{f}})
	pb.RegisterMaintenanceServer(server, servedStatus{})
	pb.RegisterAuthServer(server, servedAuth{})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return s
}

func (s *served) note(ctx context.Context, method string) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	values := md["hasleader"]
	s.led[method] = append(s.led[method], len(values) > 0 && values[0] == "true") // etcd goes by the first
}

// own is a driver with a client of its own.
func (s *served) own(t *testing.T) native {
	t.Helper()
	d, err := Open(&url.URL{Scheme: "etcd", User: url.UserPassword("u", "p"), Host: s.addr, Path: "/ns"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return d.(native)
}

// client is one to be given to a driver.
func (s *served) client(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// given is a driver with a client that it was given.
func (s *served) given(t *testing.T) native {
	t.Helper()
	d, err := FromClient(s.client(t), Namespace("ns"))
	if err != nil {
		t.Fatal(err)
	}
	return d.(native)
}

// begin starts a session that the test closes.
func begin(t *testing.T, d native) *session {
	t.Helper()
	s, err := d.Open(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s.(*session)
}

type servedKV struct {
	pb.UnimplementedKVServer
	f *fake
}

func (s servedKV) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return s.f.Range(ctx, r)
}

func (s servedKV) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return s.f.Txn(ctx, r)
}

func (s servedKV) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return s.f.DeleteRange(ctx, r)
}

type servedLease struct {
	pb.UnimplementedLeaseServer
	l fakeLease
}

func (s servedLease) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	l, err := s.l.Grant(ctx, r.TTL)
	return &pb.LeaseGrantResponse{Header: &pb.ResponseHeader{}, ID: int64(l.ID), TTL: l.TTL}, err
}

func (s servedLease) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	_, err := s.l.Revoke(ctx, clientv3.LeaseID(r.ID))
	return &pb.LeaseRevokeResponse{Header: &pb.ResponseHeader{}}, err
}

func (s servedLease) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		l, err := s.l.KeepAliveOnce(stream.Context(), clientv3.LeaseID(r.ID))
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, ID: r.ID, TTL: l.TTL}); err != nil {
			return err
		}
	}
}

type servedWatch struct {
	pb.UnimplementedWatchServer
	w fakeWatcher
}

// Watch serves any number of watches, until the client goes.
func (s servedWatch) Watch(stream pb.Watch_WatchServer) error {
	var mu sync.Mutex // held to send
	for id := int64(0); ; id++ {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		create := r.GetCreateRequest()
		if create == nil {
			continue // the fake keeps a watch that was cancelled
		}
		opts := []clientv3.OpOption{clientv3.WithRange(string(create.RangeEnd))}
		if slices.Contains(create.Filters, pb.WatchCreateRequest_NOPUT) {
			opts = append(opts, clientv3.WithFilterPut())
		}
		go func() { // ends with the stream
			for resp := range s.w.Watch(stream.Context(), string(create.Key), opts...) {
				to := &pb.WatchResponse{Header: resp.Header, WatchId: id, Created: resp.Created, Events: resp.Events}
				mu.Lock()
				_ = stream.Send(to)
				mu.Unlock()
			}
		}()
	}
}

type servedStatus struct {
	pb.UnimplementedMaintenanceServer
}

func (servedStatus) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{}, Version: "3.7.0"}, nil
}

type servedAuth struct{ pb.UnimplementedAuthServer }

func (servedAuth) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return &pb.AuthenticateResponse{Header: &pb.ResponseHeader{}, Token: "t"}, nil
}
