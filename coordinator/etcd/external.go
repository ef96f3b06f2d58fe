package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has the sessions of FromSession, on a lease that somebody else
// keeps.

// externalLease is a lease that FromSession was given. It can be adopted once: a
// second Baton session would have the ID of the first (O3).
type externalLease struct {
	owner *concurrency.Session
	// nonce is drawn once and not for each Open, so that an Open that is repeated
	// after a lost reply writes the same sentinel and leaves nothing behind.
	nonce string
	lock  lock
	used  bool // guarded by lock
}

func newExternalLease(s *concurrency.Session) *externalLease {
	return &externalLease{owner: s, nonce: newNonce(), lock: newLock()}
}

// adopt starts the one session of an external lease.
func (d *service) adopt(ctx context.Context, c *clientv3.Client, ttl time.Duration) (driver.Session, error) {
	l := d.lease
	if err := l.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer l.lock.release()
	if l.used || l.owner.Ctx().Err() != nil {
		return nil, driver.ErrSessionLost
	}
	lease, err := c.TimeToLive(d.clients.lead(ctx), l.owner.Lease())
	if err != nil {
		return nil, wrap(ctx, err)
	}
	if lease.TTL <= 0 {
		return nil, driver.ErrSessionLost
	}
	if granted := time.Duration(lease.GrantedTTL) * time.Second; granted != ttl {
		return nil, invalid("asked for a TTL of %v, the session's lease has %v", ttl, granted)
	}
	s := newSession(d, c, l.owner.Lease(), ttl)
	s.joins.mine = make(map[string]bool)
	if err := s.begin(ctx, l.nonce); err != nil {
		// The put may have been applied, and this lease may live for years. One
		// attempt to take it back is made; a later Open would reuse the key.
		if ctx.Err() == nil {
			_, _ = c.Delete(d.clients.lead(ctx), d.keys.sentinel(l.owner.Lease(), l.nonce))
		}
		return nil, err
	}
	l.used = true
	// The owner may stop keeping the lease (Orphan) while it still has some TTL: from
	// then on it is not ours to renew, so the session is over although etcd does not
	// say so yet.
	return &externalSession{s, context.AfterFunc(l.owner.Ctx(), s.end)}, nil
}

// externalSession is a session on an external lease.
type externalSession struct {
	*session
	unhook func() bool // stops waiting for the owner of the lease
}

// Capabilities are those of the session, with another Pass.
func (x *externalSession) Capabilities() driver.Capabilities {
	c := x.session.Capabilities()
	c.Handoff = x
	return c
}

// Pass makes no handoff marker: the lease outlives the session, and with it the
// marker.
func (x *externalSession) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return x.Leave(ctx, queue, own)
}

// Forget deletes the tail key too if it names the contender: the lease, with
// which it would go, outlives the session.
func (x *externalSession) Forget(ctx context.Context, queue driver.Queue, id string) error {
	return x.forget(ctx, queue, id, x.dropTail(x.keys.tail(queue)))
}

// Close leaves the lease.
func (x *externalSession) Close(ctx context.Context) error {
	x.unhook()
	x.stop()
	return x.withdraw(ctx)
}

// withdraw ends an adopted session: the sentinel goes and with it the epoch, so
// nothing that compares it and is under way can be applied any more, and in the
// same transaction go the entries, and the tails that may name them. Those that
// were ever asked for are known here, in doubt or not; the lease's list of keys
// would not do, since the lease has keys of others, and since a member may
// answer before it has applied the last join.
//
// A session may lose more contenders than a transaction takes (128 operations by default);
// the rest follows in further ones, safe because nothing can be added.
func (x *externalSession) withdraw(ctx context.Context) error {
	const most = 100
	keys := x.joins.asked()
	ops := []clientv3.Op{clientv3.OpDelete(x.sentinel.key)}
	for last := ""; ; ops = ops[:0] {
		n := 0
		for ; n < len(keys) && len(ops) < most; n++ {
			if tail := tailOf(keys[n]); tail != last {
				last = tail
				ops = append(ops, x.dropTail(tail))
			}
			ops = append(ops, clientv3.OpDelete(keys[n], clientv3.WithPrefix()))
		}
		if _, err := x.c.Txn(x.lead(ctx)).Then(ops...).Commit(); err != nil {
			return wrap(ctx, err)
		}
		x.joins.removed(keys[:n]...)
		if keys = keys[n:]; len(keys) == 0 {
			return nil
		}
	}
}

// dropTail deletes a queue's tail if it names a contender of this lease. That is
// safe at any time: whoever comes next reads the queue.
func (x *externalSession) dropTail(tail string) clientv3.Op {
	mine := clientv3.Compare(clientv3.LeaseValue(tail), "=", int64(x.lease))
	return clientv3.OpTxn([]clientv3.Cmp{mine}, []clientv3.Op{clientv3.OpDelete(tail)}, nil)
}
