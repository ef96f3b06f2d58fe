package lease

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// MostKept bounds the leases of one call of KeepAlive, all of whose requests
// are sent before the first reply is read.
const MostKept = 512

// Kept is what a member has answered to keep-alives.
type Kept struct {
	Header  *pb.ResponseHeader // of the first reply
	Missing []clientv3.LeaseID // leases that do not exist
	// Refuse, if set, leaves the member, whose answers do not count.
	Refuse func()
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
// its error. See leadership for keep-alives that are acknowledged and do not
// count.
//
// After a refusal Keep asks the next member. With several calls for one renewal
// one of them would always reach the deposed leader, and no renewal would
// succeed.
func (s *Session) Keep(
	ctx context.Context, leases ...clientv3.LeaseID,
) (missing []clientv3.LeaseID, err error) {
	for range mostRefused {
		sent := time.Now()
		var kept Kept
		kept, err = s.Conn.KeepAlive(ctx, leases...)
		if err != nil {
			return nil, err
		}
		if err = s.confirm(ctx, kept.Header, sent); err == nil {
			return kept.Missing, nil
		}
		if !errors.Is(err, errOldTerm) {
			return nil, err
		}
		if kept.Refuse != nil {
			kept.Refuse()
		}
	}
	return nil, err
}

// mostRefused is how often Keep asks. Less than half of the members are behind,
// but calls take turns with each other.
const mostRefused = 3

// mostLate is how late a renewal may be that needs no read by quorum. A new
// leader takes as long to find that a lease has ended.
const mostLate = 100 * time.Millisecond

// confirm returns an error if an acknowledgement does not count. If no other
// member has been asked since the renewal before, it asks a quorum: the engine
// counts a TTL, less a margin of a tenth, from the sending, and the lease may
// end a TTL after the other member was asked.
func (s *Session) confirm(ctx context.Context, header *pb.ResponseHeader, sent time.Time) error {
	since, err := s.leader.shows(header, sent)
	interval := s.TTL() / driver.RenewalsPerTTL
	if err != nil || !s.Conn.Several || sent.Sub(since) <= interval+min(interval/2, mostLate) {
		return err
	}
	asked := time.Now()
	r, err := s.GetFromAny(ctx, interval/2, s.ReadSentinel())
	if err != nil {
		return err
	}
	s.leader.confirmed(r.Term, asked)
	return s.Counts(header)
}

// Counts returns an error if an acknowledgement with this header does not
// count, by what the session has seen so far.
func (s *Session) Counts(header *pb.ResponseHeader) error { return s.leader.counts(header) }
