package etcd

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// leaseServer counts streams of keep-alives. It does not answer for lease 2,
// and does not have lease 3.
type leaseServer struct {
	pb.UnimplementedLeaseServer
	mu              sync.Mutex
	streams, closed int
}

func (l *leaseServer) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	l.add(&l.streams)
	defer l.add(&l.closed)
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		ttl := int64(10)
		switch req.ID {
		case 2:
			<-stream.Context().Done()
			return nil
		case 3:
			ttl = 0
		}
		if err := stream.Send(&pb.LeaseKeepAliveResponse{ID: req.ID, TTL: ttl}); err != nil {
			return err
		}
	}
}

func (l *leaseServer) add(n *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
}

func (l *leaseServer) counts() [2]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return [2]int{l.streams, l.closed}
}

// keeper returns a client of a driver on a server of leases only.
func keeper(t *testing.T) (*renewals, *leaseServer, *grpc.Server, net.Addr) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	l, server := new(leaseServer), grpc.NewServer()
	pb.RegisterLeaseServer(server, l)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	cfg, _, err := parseURL(&url.URL{Scheme: "etcd", Host: listener.Addr().String()})
	check(t, err)
	d := newSource(cfg)
	t.Cleanup(func() { _ = d.close(context.Background()) })
	c, err := d.get(t.Context())
	check(t, err)
	// A request may be answered before gRPC reports the connection as ready.
	c.ActiveConnection().Connect()
	until(t, "a connection", func() bool { return c.ActiveConnection().GetState() == connectivity.Ready })
	return c.Lease.(*renewals), l, server, listener.Addr()
}

func TestKeepAlivesShareAStream(t *testing.T) {
	r, l, _, _ := keeper(t)
	for range 5 {
		_, err := r.KeepAliveOnce(t.Context(), 1)
		check(t, err)
	}
	if n := l.counts(); n != [2]int{1, 0} {
		t.Errorf("%d streams opened and closed", n)
	}
	if _, err := r.KeepAliveOnce(t.Context(), 3); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("a lease that does not exist: %v", err)
	}
	// One that is not answered has a stream of its own, and ends it.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.KeepAliveOnce(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an answer: %v", err)
	}
	_, err := r.KeepAliveOnce(t.Context(), 1)
	check(t, err)
	until(t, "two streams, one closed", func() bool { return l.counts() == [2]int{2, 1} })
}

// A keep-alive on a stream whose connection was lost uses another; without a
// connection it says why, and does not wait for one.
func TestKeepAliveWithoutAConnectionFailsAtOnce(t *testing.T) {
	r, _, server, addr := keeper(t)
	_, err := r.KeepAliveOnce(t.Context(), 1)
	check(t, err)
	server.Stop()
	until(t, "a refusal without a deadline", func() bool {
		_, err := r.KeepAliveOnce(t.Context(), 1)
		return err != nil && strings.Contains(err.Error(), "refused") && strings.Contains(err.Error(), "; check address and port")
	})
	listener, err := net.Listen("tcp", addr.String())
	check(t, err)
	again := grpc.NewServer()
	pb.RegisterLeaseServer(again, new(leaseServer))
	go func() { _ = again.Serve(listener) }()
	t.Cleanup(again.Stop)
	until(t, "an answer on a new connection", func() bool {
		_, err := r.KeepAliveOnce(t.Context(), 1)
		return err == nil
	})
}
