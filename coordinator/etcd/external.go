package etcd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// borrower is the driver of FromSession: its one session is on the lease of a
// concurrency.Session. A second Baton session would have the ID of the first (O3).
type borrower struct {
	*service
	owner *concurrency.Session
	// nonce is drawn once and not for each Open, so that an Open that is repeated
	// after a lost reply writes the same sentinel and leaves nothing behind.
	nonce string
	lock  lock
	used  bool // guarded by lock
}

// Open adopts the lease.
func (d *borrower) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	conn, err := d.conn(ctx, ttl)
	if err != nil {
		return nil, err
	}
	if err := d.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer d.lock.release()
	if d.used || d.owner.Ctx().Err() != nil {
		return nil, driver.ErrSessionLost
	}
	id := d.owner.Lease()
	info, err := conn.Client.TimeToLive(conn.Lead(ctx), id)
	if err != nil {
		return nil, answer.Wrap(ctx, err)
	}
	if info.TTL <= 0 {
		return nil, driver.ErrSessionLost
	}
	if granted := time.Duration(info.GrantedTTL) * time.Second; granted != ttl {
		return nil, answer.Invalid("asked for a TTL of %v, the session's lease has %v", ttl, granted)
	}
	s, sentinel := lease.New(conn, id, ttl), d.keys.Sentinel(id, d.nonce)
	if err := s.Begin(ctx, sentinel); err != nil {
		// The put may have been applied, and this lease may live for years. One
		// attempt to take it back is made; a later Open would reuse the key.
		if ctx.Err() == nil {
			_, _ = conn.Client.Delete(conn.Lead(ctx), sentinel)
		}
		return nil, err
	}
	d.used = true
	// The owner may stop keeping the lease (Orphan) while it still has some TTL: from
	// then on it is not ours to renew, so the session is over although etcd does not
	// say so yet.
	unhook := context.AfterFunc(d.owner.Ctx(), s.End)
	own := d.session(s)
	return &externalSession{session: own, unhook: unhook, prefixes: make(map[string]bool)}, nil
}

// externalSession is a session on an external lease, which outlives it. So it
// remembers all keys that its contenders may have, and deletes them at its end.
type externalSession struct {
	*session
	unhook func() bool // stops waiting for the owner of the lease

	mu       sync.Mutex
	prefixes map[string]bool // of the keys that contenders may have
}

// Capabilities are those of the session, but for what an external lease changes.
func (x *externalSession) Capabilities() driver.Capabilities {
	c := x.session.Capabilities()
	c.Handoff, c.Converter = x, x
	return c
}

// expect remembers the prefix of a key that a request may make. The check of Alive
// happens under the mutex: Close ends the session before it reads the prefixes, so a
// request either is in its list or is refused here.
func (x *externalSession) expect(prefix string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.Alive(); err != nil {
		return err
	}
	x.prefixes[prefix] = true
	return nil
}

// removed says that these contenders have no entry, converted or not, and can get
// none.
func (x *externalSession) removed(contenders ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range contenders {
		delete(x.prefixes, c)
		delete(x.prefixes, keys.Converted(c))
	}
}

func (x *externalSession) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	prefix := x.keys.Contender(queue, c.ID, x.Lease, "")
	if err := x.expect(prefix); err != nil {
		return driver.Joined{}, err
	}
	j, err := x.session.Join(ctx, queue, c)
	for _, nothingMade := range []error{driver.ErrTaken, driver.ErrStale, driver.ErrInvalid} {
		if errors.Is(err, nothingMade) {
			x.removed(prefix)
		}
	}
	return j, err
}

func (x *externalSession) Convert(
	ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
) (driver.Place, error) {
	e, err := x.own(queue, own.Place)
	if err != nil {
		return driver.Place{}, err
	}
	if err := x.expect(keys.Converted(e.contender)); err != nil {
		return driver.Place{}, err
	}
	return x.session.Convert(ctx, queue, own, mode, value)
}

func (x *externalSession) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	err := x.session.Leave(ctx, queue, own)
	if e, bad := x.own(queue, own); err == nil && bad == nil {
		x.removed(e.contender)
	}
	return err
}

// Pass makes no handoff marker: the lease outlives the session, and with it the
// marker.
func (x *externalSession) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return x.Leave(ctx, queue, own)
}

// Forget deletes the tail key too if it names the contender: the lease, with which
// it would go, outlives the session.
func (x *externalSession) Forget(ctx context.Context, queue driver.Queue, id string) error {
	err := x.forget(ctx, queue, id, x.dropTail(x.keys.Tail(queue)))
	if err == nil {
		x.removed(x.keys.Contender(queue, id, x.Lease, ""))
	}
	return err
}

// Close leaves the lease. The sentinel goes and with it the epoch, so nothing that
// compares it and is under way can be applied any more, and in the same transaction
// go the entries, and the tail keys that may name them. The lease's list of keys
// would not do, since the lease has keys of others, and since a member may answer
// before it has applied the last join.
//
// A session may lose more contenders than a transaction takes (128 operations by
// default); the rest follows in further ones, safe because nothing can be added.
func (x *externalSession) Close(ctx context.Context) error {
	const most = 100
	x.unhook()
	x.Stop()
	x.mu.Lock()
	prefixes := slices.Sorted(maps.Keys(x.prefixes))
	x.mu.Unlock()
	ops := []clientv3.Op{clientv3.OpDelete(x.Sentinel.Key)}
	for last := ""; ; ops = ops[:0] {
		n := 0
		for ; n < len(prefixes) && len(ops) < most; n++ {
			if tail := keys.TailOf(prefixes[n]); tail != last {
				last = tail
				ops = append(ops, x.dropTail(tail))
			}
			ops = append(ops, clientv3.OpDelete(prefixes[n], clientv3.WithPrefix()))
		}
		if _, err := x.Txn(ctx).Then(ops...).Commit(); err != nil {
			return answer.Wrap(ctx, err)
		}
		x.removed(prefixes[:n]...)
		if prefixes = prefixes[n:]; len(prefixes) == 0 {
			return nil
		}
	}
}

// dropTail deletes a queue's tail key if it names a contender of this lease. That is
// safe at any time: the next contender reads the queue.
func (x *externalSession) dropTail(tail string) clientv3.Op {
	mine := clientv3.Compare(clientv3.LeaseValue(tail), "=", int64(x.Lease))
	return clientv3.OpTxn([]clientv3.Cmp{mine}, []clientv3.Op{clientv3.OpDelete(tail)}, nil)
}
