package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
	"github.com/baton-go/baton/internal/engine"
)

// threeMembers answer keep-alives in turn. After deposed the first one still
// acknowledges them, as an old leader whose disk hangs, but they do not count.
// After cut the others do not answer.
type threeMembers struct {
	clientv3.Lease
	deposed, cut time.Time

	mu      sync.Mutex
	asked   int
	counted time.Time // when the last keep-alive came that counts
}

func (m *threeMembers) KeepAliveOnce(
	_ context.Context, id clientv3.LeaseID,
) (*clientv3.LeaseKeepAliveResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	first, now := m.asked%3 == 0, time.Now()
	header := &pb.ResponseHeader{RaftTerm: 1}
	switch {
	case !first && !now.Before(m.cut):
		return nil, rpctypes.ErrTimeout
	case now.Before(m.deposed):
		m.counted = now
	case !first:
		header.RaftTerm, m.counted = 2, now
	}
	return &clientv3.LeaseKeepAliveResponse{ResponseHeader: header, ID: id, TTL: 10}, nil
}

// TestOnlyAnOlderTermRefusesAKeepAlive: a member that has applied nothing since
// its start shows no term.
func TestOnlyAnOlderTermRefusesAKeepAlive(t *testing.T) {
	var shown uint64
	s := &lease.Session{Conn: lease.Conn{
		KeepAlive: func(context.Context, ...clientv3.LeaseID) (lease.Kept, error) {
			return lease.Kept{Header: &pb.ResponseHeader{RaftTerm: shown}}, nil
		},
	}}
	for i, one := range []struct {
		term    uint64
		refused bool
	}{{0, false}, {7, false}, {7, false}, {0, false}, {6, true}, {8, false}, {7, true}, {8, false}} {
		shown = one.term
		_, err := s.Keep(t.Context(), 1)
		if (err != nil) != one.refused || one.refused && !errors.Is(answer.Kind(err), driver.ErrUnavailable) {
			t.Errorf("%d. term %d: %v", i, one.term, err)
		}
	}
}

// TestKeepAlivesOfADeposedLeaderDoNotCount is promise P2 when the old leader
// goes on answering: the session ends at the client before the lease does,
// which counts only what the new leader has seen.
func TestKeepAlivesOfADeposedLeaderDoNotCount(t *testing.T) {
	for phase := range 40 {
		synctest.Test(t, func(t *testing.T) {
			_, c := newFake(t)
			now := time.Now()
			deposed := now.Add(20*time.Second + time.Duration(phase)*75*time.Millisecond)
			m := &threeMembers{Lease: c.Lease, deposed: deposed, counted: now,
				cut: deposed.Add(time.Duration(4+phase%7) * time.Second)}
			c.Lease = m
			d, err := FromClient(c)
			check(t, err)
			client, err := coordinator.New(d)
			check(t, err)
			s, err := engine.Of(client).Session(t.Context())
			check(t, err)
			time.Sleep(time.Until(m.cut))
			if s.Err() != nil {
				t.Errorf("phase %d: lost while two members renew it: %v", phase, s.Err())
			}
			select {
			case <-s.Context().Done():
				m.mu.Lock()
				if lives := time.Since(m.counted); lives > s.TTL() {
					t.Errorf("phase %d: ended %v after the last renewal that counts", phase, lives)
				}
				m.mu.Unlock()
			case <-time.After(time.Minute):
				t.Errorf("phase %d: the deposed leader keeps the session", phase)
			}
			check(t, client.Close(t.Context()))
		})
	}
}

// TestRenewalThatCountsRestsOnALiveLeader: an acknowledgement may count for
// nothing, and then the lease lives for a TTL from the moment at which a quorum
// was asked last. The session must not count on more, however the renewals are
// timed; the process may be late by some milliseconds.
func TestRenewalThatCountsRestsOnALiveLeader(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, time.Hour} {
		for tenths := range 20 {
			synctest.Test(t, func(t *testing.T) {
				f, c := newFake(t)
				d, err := FromClient(c)
				check(t, err)
				opened, err := d.Open(t.Context(), ttl)
				check(t, err)
				defer opened.Close(context.Background())
				s := opened.(*session)
				f.settled(t, s)
				s.Conn.Several = true
				s.Conn.KeepAlive = func(context.Context, ...clientv3.LeaseID) (lease.Kept, error) {
					return lease.Kept{Header: &pb.ResponseHeader{MemberId: 1}}, nil
				}
				check(t, s.Renew(t.Context()))
				quorum := time.Now()
				f.sent(func() { check(t, s.Renew(t.Context())) })
				time.Sleep(ttl / driver.RenewalsPerTTL * time.Duration(tenths) / 10)
				asked := f.sent(func() { check(t, s.Renew(t.Context())) })
				margin := ttl/10 + s.Slack()
				if beyond := time.Since(quorum) - margin; asked == 0 && beyond > 100*time.Millisecond {
					t.Errorf("TTL %v: a renewal %v after the last quorum counts for %v too long", ttl, time.Since(quorum), beyond)
				}
				if asked > 0 && tenths <= 10 {
					t.Errorf("TTL %v: a renewal on time costs %d reads", ttl, asked)
				}
			})
		}
	}
}
