// Package lease keeps a session at etcd, whatever the layout of its queues: a
// lease, a sentinel key, the epoch that fences joins, and reads and watches
// that a session may rely on.
//
//	Grant ─► sentinel ─► alive ──Close──────────────► revoked
//	                       │                              ▲
//	                       └─ sentinel or lease is gone: Done is closed
//
// The sentinel is an empty key bound to the lease. Its presence says that the
// session lives, and a watch on it shows the end at once and not at the next
// renewal. Its mod revision is the session's epoch: see Joins.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/watch"
)

// Conn is a client, and how Baton uses it.
type Conn struct {
	Client *clientv3.Client
	// Lead is the context of a request that a member without a leader must
	// refuse.
	Lead    func(context.Context) context.Context
	Streams *watch.Streams
}

// Session is a lease and its sentinel. It has those methods of driver.Session
// that do not depend on the layout.
type Session struct {
	Conn   Conn
	Lease  clientv3.LeaseID
	layout Layout
	ttl    time.Duration
	id     string // the lease as etcdctl writes it
	// Sentinel is a condition of every write that only a session which is not
	// over may do, late or not (C1), unless it compares an entry of the
	// session.
	Sentinel keys.Entry
	Joins    Joins

	// life ends when the service says that the session is over, or with Close.
	life    context.Context
	End     context.CancelFunc
	stopped chan struct{} // closed when watchSentinel has returned
	watcher watch.Watcher

	// seen is the newest revision that a watch has shown, a floor of later
	// views (V1).
	seen atomic.Int64
}

// Begin makes the sentinel and starts to watch it. The get in the transaction
// reads its create revision even if it was there: a repeated Open on an
// external lease.
func Begin(
	ctx context.Context, c Conn, layout Layout,
	lease clientv3.LeaseID, ttl time.Duration, sentinel string,
) (*Session, error) {
	resp, err := c.Client.Txn(c.Lead(ctx)).Then(
		clientv3.OpPut(sentinel, "", clientv3.WithLease(lease)),
		clientv3.OpGet(sentinel, clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return nil, answer.Wrap(ctx, err)
	}
	kv := resp.Responses[1].GetResponseRange().Kvs[0]
	s := &Session{
		Conn: c, Lease: lease, layout: layout, ttl: ttl, id: keys.LeaseHex(lease),
		Sentinel: keys.Entry{Key: sentinel, Rev: kv.CreateRevision},
		Joins:    newJoins(kv.ModRevision), stopped: make(chan struct{}),
	}
	s.life, s.End = context.WithCancel(context.Background())
	s.watcher = watch.Watcher{Client: c.Client, Streams: c.Streams, Life: s.life}
	go s.watchSentinel()
	return s, nil
}

// NewNonce is the part of a sentinel's key that no other session has.
func NewNonce() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// ID is the lease in hex, as etcdctl writes it.
func (s *Session) ID() string { return s.id }

// TTL is what etcd granted, which is what was asked for.
func (s *Session) TTL() time.Duration { return s.ttl }

// Slack is zero: the leader counts the TTL from the moment at which it handles
// a renewal, which is after the sending, and a new leader counts it from its
// election anew. A leader that lost its quorum refuses renewals before it
// counts them.
func (s *Session) Slack() time.Duration { return 0 }

// Done is closed when the sentinel or the lease was found gone, and by Close.
func (s *Session) Done() <-chan struct{} { return s.life.Done() }

// Alive is what every call but Close begins with: once a session was found to
// be over it stays so, even for a call that the service would still answer
// (R2).
func (s *Session) Alive() error {
	if s.life.Err() != nil {
		return driver.ErrSessionLost
	}
	return nil
}

// Failed makes an error of the contract of err, and ends the session if etcd
// said that the lease does not exist. A context whose cause happens to be
// ErrSessionLost does not count: the service did not say so.
func (s *Session) Failed(ctx context.Context, err error) error {
	if answer.Is(err, rpctypes.ErrLeaseNotFound) {
		s.End()
	}
	return answer.Wrap(ctx, err)
}

// Renew sends one keep-alive. Renewals of the client's own loop would not do:
// its callers cannot know when an acknowledged one was sent.
func (s *Session) Renew(ctx context.Context) error {
	if err := s.Alive(); err != nil {
		return err
	}
	if err := s.KeepAlive(ctx, s.Lease); err != nil {
		return err
	}
	return s.Alive()
}

// KeepAlive renews a lease of the session. It does not ask for a leader: the
// client would repeat at once what is refused so.
func (s *Session) KeepAlive(ctx context.Context, lease clientv3.LeaseID) error {
	_, err := s.Conn.Client.KeepAliveOnce(ctx, lease)
	return s.Failed(ctx, err)
}

// Grant asks for a lease of exactly the session's TTL, or returns ErrInvalid
// (O2).
func (c Conn) Grant(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	secs := int64(ttl / time.Second)
	lease, err := c.Client.Grant(c.Lead(ctx), secs)
	if err != nil {
		return 0, answer.Wrap(ctx, err)
	}
	if lease.TTL != secs {
		// The server applied its floor. A session with that TTL would outlive
		// its holders by more than the caller agreed to.
		_ = c.Revoke(ctx, lease.ID)
		return 0, answer.Invalid("asked for a TTL of %v, etcd grants %v "+
			"(its floor is 1.5 election timeouts)", ttl, time.Duration(lease.TTL)*time.Second)
	}
	return lease.ID, nil
}

// Revoke ends a lease, with all keys that are bound to it.
func (c Conn) Revoke(ctx context.Context, lease clientv3.LeaseID) error {
	_, err := c.Client.Revoke(c.Lead(ctx), lease)
	if answer.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return answer.Wrap(ctx, err)
}

// watchSentinel waits for the end of the session, whatever happens to its
// watches meanwhile. It runs for as long as the session; Close waits for it.
func (s *Session) watchSentinel() {
	// pause keeps a client off a member that refuses watches at once, because
	// it has no leader for instance. It delays the news only while there is
	// none to be had.
	const pause = 250 * time.Millisecond

	defer close(s.stopped)
	for s.life.Err() == nil {
		if s.awaitLeaving(s.life, "", s.Sentinel) == nil {
			s.End()
			return
		}
		select {
		case <-s.life.Done():
		case <-time.After(pause):
		}
	}
}

// Close revokes the lease. etcd deletes its keys in the same step, after which
// no join that is still on its way can be applied: the sentinel that it
// compares is gone, and so is the lease that its put names (C1).
//
// It may be called again after an error. What the session has in this process
// is released first, whatever the service does (C2).
func (s *Session) Close(ctx context.Context) error {
	s.Stop()
	return s.Conn.Revoke(ctx, s.Lease)
}

// Stop releases what the session has in this process.
func (s *Session) Stop() {
	s.End()
	<-s.stopped // at once: nothing there outlives s.life
}

// InEpoch is the condition of a join that was sent with an epoch.
func (s *Session) InEpoch(epoch int64) clientv3.Cmp {
	return keys.Unchanged(s.Sentinel.Key, epoch)
}

// ReadSentinel is for the else branch of a transaction with one of these
// conditions. JudgeSentinel takes what it has read.
func (s *Session) ReadSentinel() clientv3.Op {
	return clientv3.OpGet(s.Sentinel.Key, clientv3.WithKeysOnly())
}

// JudgeSentinel returns the epoch, or ErrSessionLost if there is no sentinel.
// Then the lease is gone, and the entries with it. If only the sentinel was
// deleted, the session is unusable all the same, and Close revokes the lease.
func (s *Session) JudgeSentinel(read []*mvccpb.KeyValue) (epoch int64, err error) {
	if !s.Sentinel.In(read) {
		s.End()
		return 0, driver.ErrSessionLost
	}
	epoch = read[0].ModRevision
	s.Joins.Raise(epoch)
	return epoch, nil
}

// RaiseEpoch gives the sentinel a new mod revision. It compares the create
// revision first, lest a late request makes a new sentinel after the session's
// end.
func (s *Session) RaiseEpoch() clientv3.Op {
	return clientv3.OpTxn(
		[]clientv3.Cmp{s.Sentinel.Stands()},
		[]clientv3.Op{clientv3.OpPut(s.Sentinel.Key, "", clientv3.WithLease(s.Lease))},
		nil)
}
