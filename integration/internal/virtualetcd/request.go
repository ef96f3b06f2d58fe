package virtualetcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Request is a request that has arrived at a member, for OnRequest: the message
// of a call, a keep-alive, or the creation of a watch.
type Request struct {
	Link    *Link
	Member  *Member
	Message any
	Context context.Context // at the member: it has the metadata of the request
}

// Fate is the fault of one request. The zero Fate is none.
type Fate struct {
	// DelayRequest and DelayReply are added to what the link takes. A delayed
	// request is applied even if its caller has given up: it was on its way.
	DelayRequest, DelayReply time.Duration
	// DropRequest breaks the connection before the request arrives, DropReply
	// after it was applied.
	DropRequest, DropReply bool
	// Err is the reply, an error of gRPC. Nothing is applied.
	Err error
}

// OnRequest calls decide for each request that arrives.
func (e *Etcd) OnRequest(decide func(Request) Fate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.decide = decide
}

func (e *Etcd) fate(r Request) Fate {
	e.mu.Lock()
	decide := e.decide
	e.mu.Unlock()
	if decide == nil {
		return Fate{}
	}
	return decide(r)
}

var errDropped = status.Error(codes.Unavailable, "the connection is broken")

// connOf is the connection of a call.
func connOf(ctx context.Context) *conn {
	p, _ := peer.FromContext(ctx)
	return p.Addr.(address).conn
}

// reset breaks a connection.
func (c *conn) reset() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.abort()
}

// arrive applies the first half of a fate. The returned context is that of the
// request from now on.
func (m *Member) arrive(ctx context.Context, f Fate, c *conn) (context.Context, error) {
	if f.DelayRequest > 0 {
		ctx = context.WithoutCancel(ctx)
		time.Sleep(f.DelayRequest)
	}
	switch life := m.alive(); {
	case life.Err() != nil:
		return ctx, errDropped // it has arrived at a member that has stopped
	case f.DropRequest:
		c.reset()
		return ctx, errDropped
	}
	return ctx, f.Err
}

// alive is the context of the server's present start.
func (m *Member) alive() context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}

// unary is the interceptor of all calls but those of streams.
func (m *Member) unary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	c := connOf(ctx)
	a := &attempt{member: m, life: m.alive(), req: req, handle: handle}
	f := m.etcd.fate(Request{c.link, m, req, ctx})
	ctx, err := m.arrive(ctx, f, c)
	if err != nil {
		return nil, err
	}
	if a.life.Err() != nil { // a delayed request of an earlier start
		return nil, errDropped
	}
	resp, err := a.serve(ctx)
	if f.DelayReply > 0 {
		time.Sleep(f.DelayReply)
	}
	if f.DropReply {
		c.reset()
		return nil, errDropped
	}
	return resp, err
}

// attempt is a request that has arrived.
type attempt struct {
	member *Member
	life   context.Context // of the server's start
	req    any
	handle grpc.UnaryHandler
}

// serve answers as the member does in its condition.
func (a *attempt) serve(ctx context.Context) (any, error) {
	s := a.member.at()
	local := s.behind() && s.local(a.req)
	switch {
	case s.Condition == Mute:
		if err := s.await(ctx, a.life); err != nil {
			return nil, err
		}
		return a.serve(ctx)
	case local, forwarded(a.req), !s.behind():
	case s.Condition == Deposed:
		return a.within(ctx, func() (any, error) {
			<-a.life.Done()
			return nil, errDropped
		})
	case s.Condition == Stalled:
		return a.within(ctx, func() (any, error) {
			// It happens although its caller has given up, unless the member
			// has given it up, too.
			late := context.WithoutCancel(ctx)
			bound, cancel := context.WithTimeout(late, a.member.etcd.timeout)
			defer cancel()
			if err := s.await(bound, a.life); err != nil {
				return nil, TimedOut
			}
			return a.serve(late)
		})
	case s.Condition == Lagging:
		return a.within(ctx, func() (any, error) {
			resp, err := a.apply(ctx)
			if waiting := s.await(context.WithoutCancel(ctx), a.life); waiting != nil {
				return nil, waiting
			}
			a.member.show(resp, a.member.at())
			return resp, err
		})
	}
	resp, err := a.apply(ctx)
	a.member.show(resp, s)
	return resp, err
}

// apply lets the server answer.
func (a *attempt) apply(ctx context.Context) (any, error) {
	if grant, ok := a.req.(*pb.LeaseGrantRequest); ok {
		a.member.etcd.regrant(grant)
	}
	a.member.etcd.handles(a, true)
	resp, err := a.handle(ctx, a.req)
	// What it changes is seen at this instant, but maybe after its return.
	time.AfterFunc(1, func() { a.member.etcd.handles(a, false) })
	return resp, err
}

// within makes a call that may outlive the caller's patience and the server's.
func (a *attempt) within(ctx context.Context, call func() (any, error)) (any, error) {
	type outcome struct {
		resp any
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		resp, err := call()
		done <- outcome{resp, err}
	}()
	timer := time.NewTimer(a.member.etcd.timeout)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.resp, o.err
	case <-timer.C:
		return nil, TimedOut
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// regrant changes a request for a lease, see GrantTTL.
func (e *Etcd) regrant(r *pb.LeaseGrantRequest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.granted > 0 {
		r.TTL = e.granted
	}
}

// Errors that members return for a time.
var (
	NoLeader = rpctypes.ErrGRPCNoLeader
	TimedOut = rpctypes.ErrGRPCTimeout
	Refused  = rpctypes.ErrGRPCPermissionDenied
)
