package concurrency

import (
	"context"
	"errors"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	v3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

var (
	// ErrElectionNotLeader means that the caller does not lead.
	ErrElectionNotLeader = errors.New("election: not leader")
	// ErrElectionNoLeader means that there is no leader.
	ErrElectionNoLeader = errors.New("election: no leader")
)

// Election elects one of the sessions that campaign. It is safe for concurrent
// use.
type Election struct {
	s      *Session
	prefix string
	queue  *recipes.Queue
	err    error // of NewElection, which cannot return it

	turn chan struct{} // full during Campaign

	mu   sync.Mutex
	hold *recipes.Hold // nil after ResumeElection
	key  string        // of the leader that was elected here, or empty
	rev  int64
	hdr  *pb.ResponseHeader
}

// NewElection returns the election of a prefix. It does no I/O. The first
// Campaign returns an error for an invalid prefix.
func NewElection(s *Session, pfx string) *Election {
	e := &Election{s: s, prefix: pfx + "/", turn: make(chan struct{}, 1)}
	e.queue, e.err = recipes.NewQueue(s.baton, "election", pfx)
	return e
}

// ResumeElection returns an election that was won with a key and its create
// revision. As in etcd's package, pfx includes the last "/".
func ResumeElection(s *Session, pfx, leaderKey string, leaderRev int64) *Election {
	e := NewElection(s, strings.TrimSuffix(pfx, "/"))
	e.prefix, e.key, e.rev = pfx, leaderKey, leaderRev
	return e
}

// Campaign blocks until the caller leads with the value val. An Election that
// leads already proclaims it: for all goroutines that share it, it is one
// candidate. If ctx ends first, nothing is held or left behind.
func (e *Election) Campaign(ctx context.Context, val string) error {
	if e.err != nil {
		return e.err
	}
	if err := e.s.enter(ctx, e.turn, false); err != nil {
		return err
	}
	defer func() { <-e.turn }()
	e.mu.Lock()
	h := e.hold
	e.mu.Unlock()
	if h != nil && h.Check(ctx) == nil {
		return e.Proclaim(ctx, val)
	}
	h, err := e.s.acquire(ctx, e.queue, recipes.Request{Op: "campaign", Payload: []byte(val)})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = h
	e.key, e.rev = owned(h)
	e.hdr = &pb.ResponseHeader{Revision: e.rev}
	return nil
}

// Proclaim changes the value. The error is ErrElectionNotLeader if the caller
// does not lead.
func (e *Election) Proclaim(ctx context.Context, val string) error {
	e.mu.Lock()
	h, key, rev := e.hold, e.key, e.rev
	e.mu.Unlock()
	switch {
	case h != nil:
		err := h.Write(ctx, []byte(val))
		for _, over := range []error{coordinator.ErrSessionLost, coordinator.ErrClosed,
			coordinator.ErrRemoved, coordinator.ErrReleased} {
			if errors.Is(err, over) && !engine.IsCause(ctx, err) {
				e.over(key)
				return ErrElectionNotLeader
			}
		}
		return err
	case key == "":
		return ErrElectionNotLeader
	}
	return e.resumed(ctx, key, rev, v3.OpPut(key, val, v3.WithIgnoreLease()))
}

// over makes Key return "", unless another term has begun.
func (e *Election) over(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.key == key {
		e.key = ""
	}
}

// resumed applies op to the key of ResumeElection if its create revision is
// rev.
func (e *Election) resumed(ctx context.Context, key string, rev int64, op v3.Op) error {
	same := v3.Compare(v3.CreateRevision(key), "=", rev)
	resp, err := e.s.client.Txn(ctx).If(same).Then(op).Commit()
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		e.over(key)
		return ErrElectionNotLeader
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hdr = resp.Header
	return nil
}

// Resign ends the leadership. It works with a ctx that has ended. It is no
// error if the caller does not lead. The error is ErrSessionExpired if the
// leadership was lost with the session.
func (e *Election) Resign(ctx context.Context) error {
	e.mu.Lock()
	h, key, rev := e.hold, e.key, e.rev
	e.hold, e.key = nil, ""
	e.mu.Unlock()
	switch {
	case h != nil:
		return gone(h.Release(ctx))
	case key == "":
		return nil
	}
	err := e.resumed(ctx, key, rev, v3.OpDelete(key))
	if errors.Is(err, ErrElectionNotLeader) {
		return nil
	}
	return err
}

// Leader reads the key of the leader. The error is ErrElectionNoLeader if there
// is none.
func (e *Election) Leader(ctx context.Context) (*v3.GetResponse, error) {
	resp, err := e.s.client.Get(ctx, e.prefix, v3.WithFirstCreate()...)
	if err == nil && len(resp.Kvs) == 0 {
		return nil, ErrElectionNoLeader
	}
	return resp, err
}

// Observe sends the current result of Leader, and then each new one. It may
// skip results, but not the latest. While there is no leader it sends nothing.
// The channel is closed when ctx or the session ends, or the service refuses.
func (e *Election) Observe(ctx context.Context) <-chan *v3.GetResponse {
	out := make(chan *v3.GetResponse)
	go e.observe(ctx, out)
	return out
}

func (e *Election) observe(ctx context.Context, out chan<- *v3.GetResponse) {
	defer close(out)
	if e.err != nil {
		return
	}
	f := e.queue.Follow()
	for shown := int64(0); e.s.ctx.Err() == nil; {
		_, ok, err := f.Next(ctx)
		if err != nil {
			return
		}
		if !ok {
			continue
		}
		resp, err := e.Leader(ctx)
		if errors.Is(err, ErrElectionNoLeader) || err == nil && resp.Kvs[0].ModRevision == shown {
			continue // Next returns what has changed since
		}
		if err != nil {
			return
		}
		shown = resp.Kvs[0].ModRevision
		select {
		case out <- resp:
		case <-ctx.Done():
			return
		}
	}
}

// Key returns the key of the leader that was elected here, or "".
func (e *Election) Key() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.key
}

// Rev returns the create revision of the leader's key: the fencing token.
func (e *Election) Rev() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rev
}

// Header has the create revision of the leader's key. After ResumeElection it
// is the header of the last Proclaim or Resign.
func (e *Election) Header() *pb.ResponseHeader {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hdr
}
