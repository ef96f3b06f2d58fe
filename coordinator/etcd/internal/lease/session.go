// Package lease keeps a session at etcd, for any layout of queues: a lease, a
// sentinel key, the epoch that fences joins, and the session's reads and
// watches.
//
//	Grant ─► sentinel ─► alive ──Close──────────────► revoked
//	                       │                              ▲
//	                       └─ sentinel or lease is gone: Done is closed
//
// The sentinel is an empty key bound to the lease. While it exists the session
// is alive, and a watch on it shows the end at once, not at the next renewal.
// Its mod revision is the session's epoch: see Joins.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/watch"
	"github.com/baton-go/baton/internal/patience"
)

// Conn is a client with Baton's settings.
type Conn struct {
	Client *clientv3.Client
	// Lead makes the context of a request that a member without a leader must
	// refuse.
	Lead    func(context.Context) context.Context
	Streams *watch.Streams
	// KeepAlive renews at most MostKept leases, at one member.
	KeepAlive func(context.Context, ...clientv3.LeaseID) (Kept, error)
	// Several: the client knows several addresses.
	Several bool
	TTL     time.Duration // of the session
	Silence *Silence
	Any     string // a key that the user may read
	// Go calls a function that ends soon in a goroutine that the driver's Close
	// waits for. Once Close was called it returns false.
	Go func(func()) bool
}

// Session is a lease and its sentinel. It has the methods of driver.Session
// that do not depend on the layout.
type Session struct {
	Conn   Conn
	Lease  clientv3.LeaseID
	layout Layout
	id     string // the lease, as etcdctl formats it
	// Cluster is the ID of the etcd cluster.
	Cluster uint64
	// Sentinel is a condition of every write that must not be applied after the
	// end of the session (C1), unless the write compares an entry of the
	// session.
	Sentinel keys.Entry
	Joins    Joins

	// life ends when the service says that the session is over, or with Close.
	life    context.Context
	End     context.CancelFunc
	unhook  func() bool   // stops waiting for the end of the client
	stopped chan struct{} // closed when watchSentinel has returned
	watcher watch.Watcher
	waits   waits
	// patience bounds the reads of waits: see within
	patience *patience.Patience
	firsts   firsts
	quorum   atomic.Int64 // the revision of the last refresh, read by quorum

	leader leadership

	// seen is the newest revision that a watch has shown. No later view may be
	// older (V1).
	seen atomic.Int64
	// removed is the newest revision of an answer that an entry of this session
	// is gone.
	removed atomic.Int64
}

// Begin puts the sentinel and starts to watch it. The get in the transaction
// reads its create revision even if it existed: a repeated Open on an external
// lease.
func Begin(
	ctx context.Context, c Conn, layout Layout,
	lease clientv3.LeaseID, sentinel string,
) (*Session, error) {
	sent := time.Now()
	resp, err := c.Client.Txn(c.Lead(ctx)).Then(
		clientv3.OpPut(sentinel, "", clientv3.WithLease(lease)),
		clientv3.OpGet(sentinel, clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return nil, c.Failed(ctx, err)
	}
	kv := resp.Responses[1].GetResponseRange().Kvs[0]
	s := &Session{
		Conn: c, Lease: lease, layout: layout, id: keys.LeaseHex(lease),
		Cluster:  resp.Header.GetClusterId(),
		Sentinel: keys.Entry{Key: sentinel, Rev: kv.CreateRevision},
		Joins:    newJoins(kv.ModRevision), stopped: make(chan struct{}),
	}
	s.leader.confirmed(resp.Header.GetRaftTerm(), sent)
	s.life, s.End = context.WithCancel(context.Background())
	s.unhook = context.AfterFunc(c.Client.Ctx(), s.End) // if its owner closes it
	s.watcher = watch.Watcher{
		Client: c.Client, Streams: c.Streams, Life: s.life, User: c.Client.Username != "",
	}
	s.patience = patience.New(s.life, s.rest()/4)
	go s.watchSentinel()
	return s, nil
}

// NewNonce returns the unique part of a sentinel's key.
func NewNonce() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// ID is the lease in hex, as etcdctl formats it.
func (s *Session) ID() string { return s.id }

// TTL is the granted TTL, which is the requested one.
func (s *Session) TTL() time.Duration { return s.Conn.TTL }

// Slack is zero: the leader counts the TTL from the moment when it handles a
// renewal, after the sending, and a new leader restarts it at its election. A
// leader that lost its quorum refuses renewals before it counts them, but see
// leadership for older ones.
func (s *Session) Slack() time.Duration { return 0 }

// Done is closed when the sentinel or the lease was found gone, and by Close.
func (s *Session) Done() <-chan struct{} { return s.life.Done() }

// Err says why Done is closed, if the service did not end the session.
func (s *Session) Err() error {
	if s.Conn.Closed() != nil {
		return driver.Wrap(driver.ErrSessionLost, errClosed)
	}
	return nil
}

// Alive begins every call but Close: once a session was found to be over it
// stays so, even for a call that the service would still accept (R2).
func (s *Session) Alive() error {
	if s.life.Err() != nil {
		return driver.ErrSessionLost
	}
	return nil
}

// Failed makes an error of the contract of err, and ends the session if etcd
// says that the lease does not exist. A context whose cause is ErrSessionLost
// does not count: the service did not say so.
func (s *Session) Failed(ctx context.Context, err error) error {
	if answer.Is(err, rpctypes.ErrLeaseNotFound) {
		s.End()
	}
	return s.Conn.Failed(ctx, err)
}

// Grant grants a lease of exactly the TTL, or returns ErrInvalid (O2).
func (c Conn) Grant(ctx context.Context) (clientv3.LeaseID, error) {
	secs := int64(c.TTL / time.Second)
	lease, err := c.Client.Grant(c.Lead(ctx), secs)
	if err != nil {
		return 0, c.Failed(ctx, err)
	}
	if lease.TTL != secs {
		// The server applied its floor. A session with that TTL would outlive
		// its holders by more than the caller agreed to.
		_ = c.Revoke(ctx, lease.ID)
		return 0, answer.Invalid("asked for a TTL of %v, etcd grants %v "+
			"(its floor is 1.5 election timeouts)", c.TTL, time.Duration(lease.TTL)*time.Second)
	}
	return lease.ID, nil
}

// Closed returns ErrClosed if the client was closed. Such a client repeats
// requests for 5 s.
func (c Conn) Closed() error {
	if c.Client.Ctx().Err() != nil {
		return driver.Wrap(driver.ErrClosed, errClosed)
	}
	return nil
}

var errClosed = errors.New("etcd: the owner of the clientv3.Client has closed it")

// Revoke ends a lease and deletes its keys. After a silence it sends two
// requests at once, as Session.Get does: the second one finds no lease.
func (c Conn) Revoke(ctx context.Context, lease clientv3.LeaseID) error {
	if err := c.Closed(); err != nil {
		return err
	}
	revoke := func(ctx context.Context) (struct{}, error) {
		_, err := c.Client.Revoke(c.Lead(ctx), lease)
		if answer.Is(err, rpctypes.ErrLeaseNotFound) {
			err = nil
		}
		return struct{}{}, err
	}
	_, err := fastest(ctx, c.Silence.copies(), nil, 0, revoke)
	return c.Failed(ctx, err)
}

// watchSentinel waits for the end of the session, over failures of its watches.
// It runs as long as the session; Close waits for it.
func (s *Session) watchSentinel() {
	// pause bounds the retries at a member that refuses watches at once, for
	// instance because it has no leader.
	const pause = 250 * time.Millisecond

	defer close(s.stopped)
	defer s.unhook()
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

// Close revokes the lease. etcd deletes its keys in the same step. After that
// no late join can be applied: the sentinel that it compares is gone, and so is
// the lease of its put (C1).
//
// It may be called again after an error. It first releases the session's
// resources in this process, whatever the service does (C2).
func (s *Session) Close(ctx context.Context) error {
	s.Stop()
	return s.Conn.Revoke(ctx, s.Lease)
}

// Stop releases the session's resources in this process.
func (s *Session) Stop() {
	s.End()
	<-s.stopped // at once: the goroutine ends with s.life
	s.waits.stop()
}

// InEpoch is the condition of a join with an epoch.
func (s *Session) InEpoch(epoch int64) clientv3.Cmp {
	return keys.Unchanged(s.Sentinel.Key, epoch)
}

// ReadSentinel is for the else branch of a transaction with one of these
// conditions. JudgeSentinel handles its result.
func (s *Session) ReadSentinel() clientv3.Op {
	return clientv3.OpGet(s.Sentinel.Key, clientv3.WithKeysOnly())
}

// JudgeSentinel returns the epoch, or ErrSessionLost if the sentinel is
// missing. Then the lease is gone with its entries, or the sentinel was deleted
// alone, which makes the session unusable, and Close revokes the lease.
func (s *Session) JudgeSentinel(read []*mvccpb.KeyValue) (epoch int64, err error) {
	if !s.Sentinel.In(read) {
		s.End()
		return 0, driver.ErrSessionLost
	}
	epoch = read[0].ModRevision
	s.Joins.Raise(epoch)
	return epoch, nil
}

// StopJoins stops the contender's running joins before their next request, as
// Forget does first.
func (s *Session) StopJoins(contender string) { s.Joins.forget(contender) }

// RaiseEpoch gives the sentinel a new mod revision. It compares the create
// revision first, so that a late request creates no sentinel after the
// session's end.
func (s *Session) RaiseEpoch() clientv3.Op {
	return clientv3.OpTxn(
		[]clientv3.Cmp{s.Sentinel.Exists()},
		[]clientv3.Op{clientv3.OpPut(s.Sentinel.Key, "", clientv3.WithLease(s.Lease))},
		nil)
}
