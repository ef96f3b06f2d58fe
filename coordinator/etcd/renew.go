package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// renewals sends keep-alives. KeepAliveOnce of clientv3 opens a stream for each
// of them, which costs the server more than the keep-alive, and with a user
// name an authentication, tens of milliseconds of its CPU. Here a stream is
// used again when its keep-alive was answered.
//
// The streams of a session take turns, and lead to different members if they
// can. So a member that hangs costs some renewals and not all. And a leader
// that was deposed without noticing, and acknowledges keep-alives that do not
// count, is found out: the others show a newer term. While all lead to one
// member, each keep-alive costs a read, see package internal/lease.
type renewals struct {
	source *source
	client *clientv3.Client
	remote pb.LeaseClient

	mu     sync.Mutex
	idle   []*stream // the one that waits longest first
	opened int       // idle or in use
	twins  int       // answers on streams to one member, since the search began
	closed bool
}

type stream struct {
	pb.Lease_LeaseKeepAliveClient
	end    context.CancelFunc
	member uint64 // which answered last, 0 if unknown
}

const (
	// mostMembers is how many members a session's keep-alives go to in turn.
	// The third shows which of two is behind.
	mostMembers = 3

	// mostIdle is for layout concurrency, which uses several streams at once.
	mostIdle = 16

	// mostTwins bounds the search for a stream to another member: it may be
	// down.
	mostTwins = 4

	// searchAgain is how many answers on streams to one member cause one more
	// step of the search: the other member may be back. searchSoon is that
	// number if all streams lead to one member, as each answer costs a read.
	searchAgain, searchSoon = 64, 8
)

func newRenewals(d *source, c *clientv3.Client) *renewals {
	return &renewals{source: d, client: c, remote: clientv3.RetryLeaseClient(c)}
}

// keepAlive is lease.Conn's KeepAlive. It fails at once if there is no
// connection: keep-alives that waited for one would all be sent together.
func (r *renewals) keepAlive(ctx context.Context, ids ...clientv3.LeaseID) (lease.Kept, error) {
	for r.client.ActiveConnection().GetState() != connectivity.Connecting {
		if s := r.take(); s != nil {
			resp, err := r.send(ctx, s, ids)
			if answer.Code(err) == codes.Unavailable && ctx.Err() == nil {
				continue // its connection was lost
			}
			return resp, err
		}
		s, err := r.open(ctx)
		if err != nil {
			return lease.Kept{}, err
		}
		return r.send(ctx, s, ids)
	}
	return lease.Kept{}, r.source.explain(errors.New("no connection"))
}

// members is how many streams there are at least.
func (r *renewals) members() int { return min(len(r.client.Endpoints()), mostMembers) }

// take returns an idle stream, or nil if a new one has to be opened.
func (r *renewals) take() *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened < r.members() || len(r.idle) == 0 {
		return nil
	}
	s := r.idle[0]
	r.idle = slices.Delete(r.idle, 0, 1)
	return s
}

func (r *renewals) open(ctx context.Context) (*stream, error) {
	life, end := context.WithCancel(r.client.Ctx())
	stop := context.AfterFunc(ctx, end)
	s, err := r.remote.LeaseKeepAlive(life, grpc.WaitForReady(false))
	if err == nil && stop() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.opened++
		return &stream{Lease_LeaseKeepAliveClient: s, end: end}, nil
	}
	end()
	switch r.source.noteDialError(err); {
	case err == nil:
		err = ctx.Err()
	case answer.Code(err) == codes.Unavailable:
		err = r.source.explain(errors.New("no connection"))
	}
	return nil, err
}

// send sends keep-alives on a stream. The server answers them in their order.
// Those of one call are few enough for the windows of a stream.
func (r *renewals) send(
	ctx context.Context, s *stream, ids []clientv3.LeaseID,
) (all lease.Kept, err error) {
	stop := context.AfterFunc(ctx, s.end)
	for _, id := range ids {
		_ = s.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}) // Recv returns why it failed
	}
	for range ids {
		resp, err := s.Recv()
		if err != nil {
			r.fail(s, answer.Code(err) == codes.Unauthenticated)
			return lease.Kept{}, clientv3.ContextError(ctx, err)
		}
		all.Add(resp.Header, clientv3.LeaseID(resp.ID), resp.TTL)
	}
	r.source.noteDialError(nil)
	member := all.Header.GetMemberId()
	s.member = member
	all.Refuse = func() { r.refuse(member) } // when another call may use s
	r.put(s, stop())
	return all, nil
}

// put makes a stream idle if it can be used again. Of two streams to one member
// it closes one: the next is opened to the next member.
func (r *renewals) put(s *stream, usable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	twin := len(r.idle) < r.members() && slices.ContainsFunc(r.idle, s.leadsTo)
	if twin {
		r.twins++
	}
	every := searchAgain
	if !slices.ContainsFunc(r.idle, func(other *stream) bool { return !s.leadsTo(other) }) {
		every = searchSoon
	}
	switch {
	case twin && (r.twins <= mostTwins || r.twins%every == 0):
		r.drop(s)
	case !usable || r.closed || len(r.idle) >= mostIdle:
		r.drop(s)
	default:
		r.idle = append(r.idle, s)
	}
}

// leadsTo reports whether two streams are known to lead to one member.
func (s *stream) leadsTo(other *stream) bool {
	return s.member != 0 && s.member == other.member
}

// fail closes a stream whose keep-alive was not answered, and the idle ones to
// the same member. With all it closes all idle ones: their token is as old.
//
// A stream that never had an answer was found by the search for another member,
// which then goes on: begun anew, it would find a member that hangs again and
// again, and close streams to the others for it.
func (r *renewals) fail(s *stream, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(s)
	if s.member != 0 {
		r.twins = 0
	}
	r.idle = slices.DeleteFunc(r.idle, func(other *stream) bool {
		ends := all || other.leadsTo(s)
		if ends {
			r.drop(other)
		}
		return ends
	})
}

// refuse closes the idle streams if all of them lead to a member whose answers
// do not count. Else the next one is to another member.
func (r *renewals) refuse(member uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.idle, func(s *stream) bool { return s.member != member }) {
		return
	}
	for _, s := range r.idle {
		r.drop(s)
	}
	r.idle, r.twins = nil, 0
}

// drop closes a stream. The caller holds r.mu.
func (r *renewals) drop(s *stream) {
	s.end()
	r.opened--
}

// close closes the streams, for a client that lives on.
func (r *renewals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.idle {
		r.drop(s)
	}
	r.idle, r.closed = nil, true
}
