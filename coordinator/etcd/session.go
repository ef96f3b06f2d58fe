package etcd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// session is a lease and its sentinel; it implements driver.Session.
type session struct {
	c        *clientv3.Client
	wire     wire
	lead     func(context.Context) context.Context // see clients.lead
	keys     layout
	streams  *streams
	lease    clientv3.LeaseID
	id       string // the lease as etcdctl writes it
	borrowed bool   // the lease is someone else's
	ttl      time.Duration
	sentinel entry

	// life ends when the service says that the session is over, or with Close.
	life    context.Context
	end     context.CancelFunc
	unhook  func() bool   // stops waiting for the owner of a borrowed lease
	stopped chan struct{} // closed when watchSentinel has returned

	joins  joins
	writes writes
	memory memory
	tapes  tapes
	// seen is the newest revision that a Watch has told about, a floor of later views (V1).
	seen atomic.Int64
	// nearest is who stood directly ahead in the last view, for Watch to save its look.
	nearest atomic.Pointer[sighting]
}

func newSession(d *service, c *clientv3.Client, lease clientv3.LeaseID, ttl time.Duration) *session {
	s := &session{
		c: c, wire: d.clients.wire(c), lead: d.clients.lead, keys: d.keys, streams: &d.streams, lease: lease, id: leaseHex(lease), ttl: ttl,
		unhook: func() bool { return true }, stopped: make(chan struct{}),
	}
	s.joins.calls = make(map[string]*call)
	s.joins.unheard = make(map[string]bool)
	s.writes.last = make(map[string]written)
	s.memory = newMemory()
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// begin makes the sentinel and starts to watch it. The get in the transaction tells its
// create revision even if it was there: a repeated Open on a borrowed lease.
func (s *session) begin(ctx context.Context, nonce string) error {
	key := s.keys.sentinel(s.lease, nonce)
	resp, err := s.c.Txn(s.lead(ctx)).Then(
		clientv3.OpPut(key, "", clientv3.WithLease(s.lease)),
		clientv3.OpGet(key, clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		s.end()
		return wrap(ctx, err)
	}
	kv := resp.Responses[1].GetResponseRange().Kvs[0]
	s.sentinel = entry{key, kv.CreateRevision}
	s.joins.epoch = kv.ModRevision
	go s.watchSentinel(kv.ModRevision)
	return nil
}

// newNonce is the part of a sentinel's key that no other session has.
func newNonce() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// ID is the lease in hex, as etcdctl writes it.
func (s *session) ID() string { return s.id }

// Capabilities are all but a watch of a whole queue, and etcd wants IDs to be used again: it keeps
// each name that was ever used, and walks over it when it reads the queue.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Handoff: s, Converter: s, Writer: s, HeadWatcher: s, Operator: s, ReuseIDs: true,
	}
}

// TTL is what etcd granted, which is what was asked for.
func (s *session) TTL() time.Duration { return s.ttl }

// Slack is zero: the leader counts the TTL from the moment at which it handles a renewal,
// which is after the sending, and a new leader counts it from its election anew. A
// leader that lost its quorum refuses renewals before it counts them.
func (s *session) Slack() time.Duration { return 0 }

// Done is closed when the sentinel or the lease was found gone, and by Close.
func (s *session) Done() <-chan struct{} { return s.life.Done() }

// alive is what every call but Close begins with: once a session was found to be over it stays
// so, even for a call that the service would still answer (R2).
func (s *session) alive() error {
	if s.life.Err() != nil {
		return driver.ErrSessionLost
	}
	return nil
}

// failed makes an error of the contract of err, and ends the session if etcd said
// that the lease is no more. A context whose cause happens to be ErrSessionLost does
// not count: that was not the service's word.
func (s *session) failed(ctx context.Context, err error) error {
	if isAnswer(err, rpctypes.ErrLeaseNotFound) {
		s.end()
	}
	return wrap(ctx, err)
}

// Renew sends one keep-alive. Renewals of the client's own loop would not do: its callers
// cannot know when an acknowledged one was sent.
func (s *session) Renew(ctx context.Context) error {
	if err := s.alive(); err != nil {
		return err
	}
	// Not led: see withLeader.
	if _, err := s.c.KeepAliveOnce(ctx, s.lease); err != nil {
		return s.failed(ctx, err)
	}
	return s.alive()
}

// watchSentinel waits for the end of the session, over anything that may happen to
// watches meanwhile. It runs for as long as the session; Close waits for it.
func (s *session) watchSentinel(shown int64) {
	// pause keeps a client off a member that refuses watches at once, for want of a
	// leader say. It delays the news only while there is none to be had.
	const pause = 250 * time.Millisecond

	defer close(s.stopped)
	w := &wait{s.sentinel, shown}
	for s.life.Err() == nil {
		if s.awaitLeaving(s.life, w) == nil {
			s.end()
			return
		}
		select {
		case <-s.life.Done():
		case <-time.After(pause):
		}
	}
}

// Close revokes the lease. etcd deletes its keys in the same step, after which no
// join under way can be applied: the sentinel that it compares is gone, and so is the lease
// that its put names (C1).
//
// It may be called again after an error. What the session has in this process
// is released first, whatever the service does (C2).
func (s *session) Close(ctx context.Context) error {
	s.unhook()
	s.end()
	<-s.stopped // at once: nothing there outlives s.life
	if s.borrowed {
		return s.withdraw(ctx)
	}
	_, err := s.c.Revoke(s.lead(ctx), s.lease)
	if isAnswer(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return wrap(ctx, err)
}
