package etcd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
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
	ttl      time.Duration
	sentinel entry

	// life ends when the service says that the session is over, or with Close.
	life    context.Context
	end     context.CancelFunc
	stopped chan struct{} // closed when watchSentinel has returned

	joins  joins
	writes writes
	memory memory
	// seen is the newest revision that a Watch has told about, a floor of later views (V1).
	seen atomic.Int64
	// nearest is who stood directly ahead in the last view, for Watch to save its look.
	nearest atomic.Pointer[sighting]
}

func newSession(d *service, c *clientv3.Client, lease clientv3.LeaseID, ttl time.Duration) *session {
	s := &session{
		c: c, wire: d.clients.wire(c), lead: d.clients.lead, keys: d.keys, streams: &d.streams, lease: lease, id: leaseHex(lease), ttl: ttl,
		stopped: make(chan struct{}),
	}
	s.joins.calls = make(map[string]*call)
	s.joins.unheard = make(map[string]bool)
	s.writes.last = make(map[string]written)
	s.memory = newMemory()
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// begin makes the sentinel and starts to watch it. The get in the transaction tells its
// create revision even if it was there: a repeated Open on an external lease.
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

// Capabilities are all that recipes of Baton's own layout use. etcd wants IDs to be used again:
// it keeps each name that was ever used, and walks over it when it reads the queue.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Handoff: s, Converter: s, Writer: s, HeadWatcher: s, QueueWatcher: s, Operator: s, ReuseIDs: true,
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
	w := &wait{made: map[string]int64{s.sentinel.key: s.sentinel.rev}, newest: s.sentinel, shown: shown}
	for s.life.Err() == nil {
		if s.awaitLeaving(s.life, "", w) == nil {
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
	s.stop()
	_, err := s.c.Revoke(s.lead(ctx), s.lease)
	if isAnswer(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return wrap(ctx, err)
}

// stop releases what the session has in this process.
func (s *session) stop() {
	s.end()
	<-s.stopped // at once: nothing there outlives s.life
}

// living is a condition of what only a session that is not over may write, late
// or not (C1). It is not needed where an entry of the session is compared,
// which goes before the sentinel or with it.
func (s *session) living() clientv3.Cmp { return s.sentinel.stands() }

// readSentinel is for the else branch of a transaction with that condition, or
// for itself, and judgeSentinel takes what it has read: the session is over if
// the condition did not hold. The lease is gone then, and the entries with it.
// If somebody deleted only the sentinel, the session is unusable all the same,
// and Close revokes the lease.
func (s *session) readSentinel() clientv3.Op {
	return clientv3.OpGet(s.sentinel.key, clientv3.WithKeysOnly())
}

func (s *session) judgeSentinel(read []*mvccpb.KeyValue) error {
	if s.sentinel.in(read) {
		return nil
	}
	s.end()
	return driver.ErrSessionLost
}

// raiseEpoch gives the sentinel a new mod revision. Its create revision is compared first, lest a
// request that is late makes a new sentinel after the session's end.
func (s *session) raiseEpoch() clientv3.Op {
	return clientv3.OpTxn(
		[]clientv3.Cmp{s.living()},
		[]clientv3.Op{clientv3.OpPut(s.sentinel.key, "", clientv3.WithLease(s.lease))},
		nil)
}

// leases are those of a foreignSession.
//
// A key of package concurrency is named after its lease alone, so one lease has
// room for one contender in a queue. The first one takes the session's own.
// Whoever comes while that has a contender in the same queue gets a lease more,
// which is renewed together with the session's, serves for other queues as well,
// and is revoked when it has been idle for as long as a renewal takes to come.
type leases struct {
	mu    sync.Mutex
	all   []*lease // the session's own first
	round int      // of renewals
}

type lease struct {
	id   clientv3.LeaseID
	busy map[driver.Queue]string // the contender that it has there
	idle bool                    // it was so at the last renewal
}

func newLeases(own clientv3.LeaseID) *leases {
	return &leases{all: []*lease{{id: own, busy: make(map[driver.Queue]string)}}}
}

// find returns the lease that a contender has, nil if it has none.
func (ls *leases) find(queue driver.Queue, id string) *lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.of(queue, id)
}

func (ls *leases) of(queue driver.Queue, id string) *lease {
	for _, l := range ls.all {
		if l.busy[queue] == id {
			return l
		}
	}
	return nil
}

// take returns the lease that a contender has, or one that is free in the queue;
// nil, and the round of renewals, if another one is wanted.
func (ls *leases) take(queue driver.Queue, id string) (l *lease, round int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l = ls.of(queue, id); l == nil {
		l = ls.of(queue, "")
	}
	if l != nil {
		l.busy[queue], l.idle = id, false
	}
	return l, ls.round
}

// add adds a lease that was granted, unless there was a renewal since the given
// round, which it may have missed.
func (ls *leases) add(id clientv3.LeaseID, round int) (ok bool, now int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.round != round {
		return false, ls.round
	}
	ls.all = append(ls.all, &lease{id: id, busy: make(map[driver.Queue]string)})
	return true, round
}

// free says that a contender has no key and cannot get one.
func (ls *leases) free(queue driver.Queue, id string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of(queue, id); l != nil {
		delete(l.busy, queue)
	}
}

// renewal begins a round, and returns those leases that are to be renewed, and
// those that are to be revoked. The session's own is not among them.
func (ls *leases) renewal() (renew, revoke []clientv3.LeaseID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.round++
	ls.all = slices.DeleteFunc(ls.all, func(l *lease) bool {
		switch {
		case l == ls.all[0]:
			return false
		case l.idle:
			revoke = append(revoke, l.id)
			return true
		}
		l.idle = len(l.busy) == 0
		renew = append(renew, l.id)
		return false
	})
	return renew, revoke
}

// rest are all but the session's own.
func (ls *leases) rest() (rest []clientv3.LeaseID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.all[1:] {
		rest = append(rest, l.id)
	}
	return rest
}

// lease returns the lease for a contender, and has one granted if all are taken.
//
// A holder's deadline counts from the sending of the last renewal. A lease that
// was granted before that and was not among those renewed could end earlier, so
// it is renewed once by itself.
func (g *foreignSession) lease(ctx context.Context, queue driver.Queue, id string) (*lease, error) {
	for {
		l, round := g.leases.take(queue, id)
		if l != nil {
			return l, nil
		}
		granted, err := g.c.Grant(g.lead(ctx), int64(g.ttl/time.Second))
		if err != nil {
			return nil, g.failed(ctx, err)
		}
		for {
			var ok bool
			if ok, round = g.leases.add(granted.ID, round); ok {
				break
			}
			if _, err := g.c.KeepAliveOnce(ctx, granted.ID); err != nil {
				_, _ = g.c.Revoke(g.lead(ctx), granted.ID) // else its TTL ends it
				return nil, wrap(ctx, err)
			}
		}
	}
}

// mostAtOnce bounds how many leases are renewed, or revoked, at once.
const mostAtOnce = 16

// forAll calls f for all leases, some at once, and returns the first error.
func forAll(ids []clientv3.LeaseID, f func(clientv3.LeaseID) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, mostAtOnce)
	errs := make([]error, len(ids))
	for i, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(id)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Renew renews all leases. If one has ended, its keys have gone, and the
// session is over: to its user there is one session.
func (g *foreignSession) Renew(ctx context.Context) error {
	renew, revoke := g.leases.renewal()
	own := g.session.Renew(ctx)
	err := forAll(renew, func(id clientv3.LeaseID) error {
		_, err := g.c.KeepAliveOnce(ctx, id)
		return g.failed(ctx, err)
	})
	_ = forAll(revoke, func(id clientv3.LeaseID) error { // what is left ends with its TTL
		_, err := g.c.Revoke(g.lead(ctx), id)
		return err
	})
	if own == nil || errors.Is(err, driver.ErrSessionLost) {
		return err
	}
	return own
}

// Close revokes all leases, the session's own first: without its sentinel no
// join that is under way is applied any more.
func (g *foreignSession) Close(ctx context.Context) error {
	err := g.session.Close(ctx)
	if rest := forAll(g.leases.rest(), func(id clientv3.LeaseID) error {
		_, err := g.c.Revoke(g.lead(ctx), id)
		if isAnswer(err, rpctypes.ErrLeaseNotFound) {
			return nil
		}
		return wrap(ctx, err)
	}); err == nil {
		err = rest
	}
	return err
}
