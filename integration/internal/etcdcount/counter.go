// Package etcdcount counts an etcd client's requests and events at gRPC's
// level.
//
//	counter := etcdcount.New()
//	client, err := clientv3.New(clientv3.Config{Endpoints: …, DialOptions: counter.DialOptions()})
//	...
//	before := counter.Snapshot()
//	... lock, unlock ...
//	spent := counter.Snapshot().Since(before) // spent.Unary: map[KV.Txn:2]
//
// The interceptors run inside those of the client library, so each of its
// silent retries counts.
package etcdcount

import (
	"context"
	"maps"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// Counts has the requests and events of one or more clients.
type Counts struct {
	// Unary counts calls by service and method: "KV.Txn", "KV.Range",
	// "Lease.LeaseGrant".
	Unary map[string]int
	// Streams counts streams that were opened: "Watch.Watch",
	// "Lease.LeaseKeepAlive".
	Streams map[string]int
	// KeepAlives counts renewals sent over keep-alive streams.
	KeepAlives int
	// WatchCreates and WatchCancels were sent by the client; the last watch of
	// a stream ends with its stream, without a cancel. WatchCanceled were sent
	// by the server by itself (compaction, lost leader) or in answer to a
	// cancel.
	WatchCreates, WatchCancels, WatchCanceled int
	// WatchEvents are changes delivered, WatchResponses the messages that
	// carried them.
	WatchEvents, WatchResponses int
}

// Total returns the number of requests that cost the servers work: unary calls
// and watch creations, without renewals and cancels.
func (c Counts) Total() int {
	total := c.WatchCreates
	for _, n := range c.Unary {
		total += n
	}
	return total
}

// Since returns the counts since an earlier snapshot. Calls that did not occur
// are absent.
func (c Counts) Since(earlier Counts) Counts {
	return Counts{
		Unary:          since(c.Unary, earlier.Unary),
		Streams:        since(c.Streams, earlier.Streams),
		KeepAlives:     c.KeepAlives - earlier.KeepAlives,
		WatchCreates:   c.WatchCreates - earlier.WatchCreates,
		WatchCancels:   c.WatchCancels - earlier.WatchCancels,
		WatchCanceled:  c.WatchCanceled - earlier.WatchCanceled,
		WatchEvents:    c.WatchEvents - earlier.WatchEvents,
		WatchResponses: c.WatchResponses - earlier.WatchResponses,
	}
}

func since(now, earlier map[string]int) map[string]int {
	d := map[string]int{}
	for k, n := range now {
		if n > earlier[k] {
			d[k] = n - earlier[k]
		}
	}
	return d
}

// Counter counts for every client with its dial options. Its methods may be
// called concurrently.
type Counter struct {
	mu     sync.Mutex
	counts Counts
}

// New returns a counter at zero.
func New() *Counter {
	return &Counter{counts: Counts{Unary: map[string]int{}, Streams: map[string]int{}}}
}

// DialOptions returns the options for the client's configuration.
func (c *Counter) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(c.Unary),
		grpc.WithChainStreamInterceptor(c.Stream),
	}
}

// Snapshot returns a copy of the counts so far.
func (c *Counter) Snapshot() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	counts.Unary, counts.Streams = maps.Clone(counts.Unary), maps.Clone(counts.Streams)
	return counts
}

func (c *Counter) count(change func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.counts)
}

// Unary is a [grpc.UnaryClientInterceptor].
func (c *Counter) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	c.count(func(n *Counts) { n.Unary[short(method)]++ })
	return invoke(ctx, method, req, reply, cc, opts...)
}

// Stream is a [grpc.StreamClientInterceptor].
func (c *Counter) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.count(func(n *Counts) { n.Streams[short(method)]++ })
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &counted{ClientStream: stream, counter: c}, nil
}

// counted counts the messages of one stream.
type counted struct {
	grpc.ClientStream
	counter *Counter
}

func (s *counted) SendMsg(m any) error {
	s.counter.count(func(n *Counts) { n.sent(m) })
	return s.ClientStream.SendMsg(m)
}

func (s *counted) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.counter.count(func(n *Counts) { n.received(m) })
	}
	return err
}

func (c *Counts) sent(m any) {
	switch m := m.(type) {
	case *pb.LeaseKeepAliveRequest:
		c.KeepAlives++
	case *pb.WatchRequest:
		if m.GetCreateRequest() != nil {
			c.WatchCreates++
		}
		if m.GetCancelRequest() != nil {
			c.WatchCancels++
		}
	}
}

func (c *Counts) received(m any) {
	r, ok := m.(*pb.WatchResponse)
	if !ok {
		return
	}
	if r.Canceled {
		c.WatchCanceled++
	}
	if len(r.Events) > 0 {
		c.WatchResponses++
		c.WatchEvents += len(r.Events)
	}
}

// short returns "KV.Txn" for "/etcdserverpb.KV/Txn".
func short(method string) string {
	method = method[strings.LastIndex(method, ".")+1:]
	return strings.Replace(method, "/", ".", 1)
}
