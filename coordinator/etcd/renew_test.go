package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/test/bufconn"
)

// leaseServer counts streams of keep-alives. It does not answer for lease 2,
// and does not have lease 3.
type leaseServer struct {
	pb.UnimplementedLeaseServer
	member uint64
	// hangs, if set, is called when a request comes, which is not answered.
	hangs           atomic.Pointer[context.CancelFunc]
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
		ttl, hangs := int64(10), l.hangs.Load()
		if hangs != nil {
			(*hangs)()
		}
		switch {
		case hangs != nil, req.ID == 2:
			<-stream.Context().Done()
			return nil
		case req.ID == 3:
			ttl = 0
		}
		header := &pb.ResponseHeader{MemberId: l.member}
		if err := stream.Send(&pb.LeaseKeepAliveResponse{Header: header, ID: req.ID, TTL: ttl}); err != nil {
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
func keeper(t *testing.T) (*renewals, *leaseServer, *grpc.Server, *network) {
	t.Helper()
	l, n := new(leaseServer), new(network)
	server := l.serve(t, n, "10.0.0.1:2379")
	return keeperOf(t, n, "10.0.0.1:2379"), l, server, n
}

func (l *leaseServer) serve(t *testing.T, n *network, addr string) *grpc.Server {
	t.Helper()
	server := grpc.NewServer()
	pb.RegisterLeaseServer(server, l)
	listener := n.listen(addr)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server
}

// network has servers in memory, by address. A client that dials another
// address is refused, as by a machine without the server.
type network struct {
	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
	conns     []net.Conn
	held      bool // no dial is answered
}

func (n *network) listen(addr string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = make(map[string]*bufconn.Listener)
	}
	n.listeners[addr] = bufconn.Listen(1 << 16)
	return n.listeners[addr]
}

func (n *network) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l, held := n.listeners[addr], n.held
	n.mu.Unlock()
	if held {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if l != nil {
		if conn, err := l.DialContext(ctx); err == nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.conns = append(n.conns, conn)
			return conn, nil
		}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// keeperOfThree returns a client of a driver on three members.
func keeperOfThree(t *testing.T) (r *renewals, members []*leaseServer, servers []*grpc.Server) {
	t.Helper()
	n := new(network)
	var hosts []string
	for i := range mostMembers {
		l, addr := &leaseServer{member: uint64(i) + 1}, fmt.Sprintf("10.0.0.%d:2379", i+1)
		members, servers = append(members, l), append(servers, l.serve(t, n, addr))
		hosts = append(hosts, addr)
	}
	return keeperOf(t, n, strings.Join(hosts, ",")), members, servers
}

// keeperOf returns a connected client of a driver.
func keeperOf(t *testing.T, n *network, hosts string) *renewals {
	t.Helper()
	cfg, _, err := parseURL(&url.URL{Scheme: "etcd", Host: hosts})
	check(t, err)
	d := newSource(cfg)
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(n.dial)) // the last one counts
	t.Cleanup(func() { _ = d.close(context.Background()) })
	c, err := d.get(t.Context())
	check(t, err)
	// A request may be answered before gRPC reports the connection as ready.
	c.ActiveConnection().Connect()
	until(t, "a connection", func() bool { return c.ActiveConnection().GetState() == connectivity.Ready })
	return d.renewals
}

// TestMembersThatReturnAreSearchedForWithinATTL: only they show that the one
// that was left has been deposed. A session renews ten times in a TTL.
func TestMembersThatReturnAreSearchedForWithinATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, members, servers := keeperOfThree(t)
		renew := func(n int) map[uint64]bool {
			from := map[uint64]bool{}
			for range n {
				if kept, err := r.keepAlive(t.Context(), 1); err == nil {
					from[kept.Header.MemberId] = true
				}
			}
			return from
		}
		servers[1].Stop()
		servers[2].Stop()
		until(t, "keep-alives of one member", func() bool { return len(renew(mostMembers)) == 1 })
		renew(3 * mostTwins) // the search gives up
		r.mu.Lock()
		r.twins = mostTwins
		r.mu.Unlock()
		before := members[0].counts()[0]
		renew(10)
		if members[0].counts()[0] == before {
			t.Error("no stream was opened to find another member")
		}
	})
}

// TestMemberThatHangsIsSearchedForSeldom: the keep-alives that go to it are
// lost.
func TestMemberThatHangsIsSearchedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, members, _ := keeperOfThree(t)
		for range 2 * mostMembers {
			_, err := r.keepAlive(t.Context(), 1)
			check(t, err)
		}
		before, lost := members[0].counts()[0], 0
		for range 20 * mostMembers {
			ctx, cancel := context.WithCancel(t.Context())
			members[0].hangs.Store(&cancel)
			if _, err := r.keepAlive(ctx, 1); err != nil {
				lost++
			}
			cancel()
		}
		if n := members[0].counts()[0] - before; n > 3+mostTwins {
			t.Errorf("%d streams were opened to it, and %d keep-alives lost", n, lost)
		}
		members[0].hangs.Store(nil)
		until(t, "an answer of the member that hung", func() bool {
			kept, err := r.keepAlive(t.Context(), 1)
			return err == nil && kept.Header.MemberId == 1
		})
	})
}

// TestManyKeepAlivesAtOnceShareStreams: layout concurrency renews a lease for
// each waiter of a session in a queue.
func TestManyKeepAlivesAtOnceShareStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l, _, _ := keeper(t)
		for range 20 {
			var all sync.WaitGroup
			for range mostIdle {
				all.Go(func() {
					if _, err := r.keepAlive(t.Context(), 1); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		if n := l.counts(); n[0] > mostIdle || n[1] != 0 {
			t.Errorf("%d streams opened and closed for %d keep-alives", n, 20*mostIdle)
		}
		r.close()
		until(t, "no streams", func() bool { n := l.counts(); return n[0] == n[1] })
	})
}

func TestKeepAlivesShareAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l, _, _ := keeper(t)
		for range 5 {
			_, err := r.keepAlive(t.Context(), 1)
			check(t, err)
		}
		if n := l.counts(); n != [2]int{1, 0} {
			t.Errorf("%d streams opened and closed", n)
		}
		if all, err := r.keepAlive(t.Context(), 1, 3, 1); err != nil || !slices.Equal(all.Missing, []clientv3.LeaseID{3}) {
			t.Errorf("with a lease that does not exist: %v, %v", all, err)
		}
		// One that is not answered has a stream of its own, and ends it.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := r.keepAlive(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without an answer: %v", err)
		}
		_, err := r.keepAlive(t.Context(), 1)
		check(t, err)
		until(t, "two streams, one closed", func() bool { return l.counts() == [2]int{2, 1} })
	})
}

// A keep-alive on a stream whose connection was lost uses another; without a
// connection it says why, and does not wait for one.
func TestKeepAliveWithoutAConnectionFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, server, n := keeper(t)
		_, err := r.keepAlive(t.Context(), 1)
		check(t, err)
		server.Stop()
		until(t, "a refusal without a deadline", func() bool {
			_, err := r.keepAlive(t.Context(), 1)
			return err != nil && strings.Contains(err.Error(), "refused") && strings.Contains(err.Error(), "; check address and port")
		})
		new(leaseServer).serve(t, n, "10.0.0.1:2379")
		until(t, "an answer on a new connection", func() bool {
			_, err := r.keepAlive(t.Context(), 1)
			return err == nil
		})
	})
}
