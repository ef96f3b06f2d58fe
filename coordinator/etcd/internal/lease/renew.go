package lease

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// MostKept bounds the leases of one call of KeepAlive, all of whose requests
// are sent before the first reply is read.
const MostKept = 512

// Kept is what a member has answered to keep-alives.
type Kept struct {
	Header  *pb.ResponseHeader // of the first reply
	Missing []clientv3.LeaseID // leases that do not exist
}

// Add notes one reply.
func (k *Kept) Add(header *pb.ResponseHeader, id clientv3.LeaseID, ttl int64) {
	if k.Header == nil {
		k.Header = header
	}
	if ttl <= 0 {
		k.Missing = append(k.Missing, id)
	}
}

// Renew sends one keep-alive. The client's own loop does not tell when an
// acknowledged one was sent.
func (s *Session) Renew(ctx context.Context) error {
	if err := s.Alive(); err != nil {
		return err
	}
	if err := s.KeepAlive(ctx, s.Lease); err != nil {
		return err
	}
	return s.Alive()
}

// KeepAlive renews a lease of the session.
func (s *Session) KeepAlive(ctx context.Context, lease clientv3.LeaseID) error {
	missing, err := s.Keep(ctx, lease)
	if len(missing) > 0 {
		err = rpctypes.ErrLeaseNotFound
	}
	return s.Failed(ctx, err)
}

var errOldTerm = errors.New("etcd: a member that is behind in its raft term " +
	"acknowledged a keep-alive, which may not count")

// Keep renews at most MostKept leases. Failed makes an error of the contract of
// its error.
//
// A leader whose disk hangs is deposed without noticing. Before etcd 3.4.31 and
// 3.5.13 it still acknowledged keep-alives, which no other leader counted;
// later ones can do so for a keep-alive that a follower forwards. The reply
// shows the term of the member that sent it. So a keep-alive does not count if
// another member has shown a newer term. This costs no request, since the
// keep-alives of a session go to the members in turn: between two replies of
// the deposed one others show the new term, and renew the lease.
//
// A member that lags is refused as well, until it has applied an entry of the
// new term.
//
// After a refusal Keep asks the next member. With several calls for one renewal
// one of them would always reach the deposed leader, and no renewal would
// succeed.
func (s *Session) Keep(
	ctx context.Context, leases ...clientv3.LeaseID,
) (missing []clientv3.LeaseID, err error) {
	for range mostRefused {
		var kept Kept
		kept, err = s.Conn.KeepAlive(ctx, leases...)
		if err != nil {
			return nil, err
		}
		if err = s.Counts(kept.Header); err == nil {
			return kept.Missing, nil
		}
	}
	return nil, err
}

// mostRefused is how often Keep asks. Less than half of the members are behind,
// but calls take turns with each other.
const mostRefused = 3

// Counts returns an error if an acknowledgement with this header does not
// count, by what the session has seen so far. See Keep.
func (s *Session) Counts(header *pb.ResponseHeader) error {
	if !s.learnTerm(header) {
		return errOldTerm
	}
	return nil
}

// learnTerm notes a member's term, and reports whether it is not older than one
// shown before. A member that has applied nothing since its start shows 0. It
// is no leader from before, and need not lag.
func (s *Session) learnTerm(header *pb.ResponseHeader) bool {
	shown := header.GetRaftTerm()
	if shown == 0 {
		return true
	}
	for newest := s.term.Load(); shown >= newest; newest = s.term.Load() {
		if s.term.CompareAndSwap(newest, shown) {
			return true
		}
	}
	return false
}
