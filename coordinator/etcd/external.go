package etcd

import (
	"context"
	"errors"
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

// externalDriver is the driver of FromSession: its one session is on the lease
// of a concurrency.Session. A second Baton session would have the same ID (O3).
type externalDriver struct {
	*service
	owner *concurrency.Session
	// nonce is drawn once and not for each Open, so that an Open repeated after
	// a lost reply writes the same sentinel and leaves nothing behind.
	nonce string

	lock lock // guards what follows
	used bool
	// tidy deletes the sentinel that a failed Open may have left, or is nil
	tidy func(context.Context)
}

// Open starts the session on the external lease. It takes two requests and a
// renewal: the deadline of the engine counts a whole TTL from the call, but the
// lease may have nearly ended. The owner's renewals do not help, since they are
// not known here.
func (d *externalDriver) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
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
		return nil, conn.Failed(ctx, err)
	}
	if info.TTL <= 0 {
		return nil, driver.ErrSessionLost
	}
	if granted := time.Duration(info.GrantedTTL) * time.Second; granted != ttl {
		return nil, answer.Invalid("asked for a TTL of %v, the session's lease has %v", ttl, granted)
	}
	kept, err := conn.KeepAlive(ctx, id)
	switch {
	case err != nil:
		return nil, conn.Failed(ctx, err)
	case len(kept.Missing) > 0:
		return nil, driver.ErrSessionLost
	}
	sentinel := d.keys.Sentinel(id, d.nonce)
	s, err := lease.Begin(ctx, conn, d.keys, id, sentinel)
	if err == nil { // a deposed leader cannot have shown the sentinel's term
		if err = answer.Wrap(ctx, s.Counts(kept.Header)); err != nil {
			s.Stop()
		}
	}
	if err != nil {
		// The put may have been applied, and this lease may live for years. Now
		// one attempt is made to delete the sentinel, and another one in Close;
		// a later Open would reuse the key.
		d.tidy = func(ctx context.Context) { deleteSentinel(ctx, conn, sentinel) }
		if ctx.Err() == nil {
			d.tidy(ctx)
		}
		return nil, err
	}
	d.used, d.tidy = true, nil
	// The owner may stop keeping the lease (Orphan) while it still has some
	// TTL. Then Baton must not renew it, and the session is over.
	unhook := context.AfterFunc(d.owner.Ctx(), s.End)
	return &externalSession{
		session: d.session(s), unhook: unhook, owner: d.owner.Ctx(), removed: make(chan struct{}),
	}, nil
}

// Close also deletes the sentinel of an Open that failed.
func (d *externalDriver) Close(ctx context.Context) error {
	if err := d.lock.acquire(ctx); err != nil {
		return err
	}
	defer d.lock.release()
	if d.tidy != nil {
		bound, cancel := context.WithTimeout(ctx, longestLate)
		d.tidy(bound)
		cancel()
		d.tidy = nil
	}
	return d.service.Close(ctx)
}

// deleteSentinel deletes the sentinel of an Open that failed. Applied after a
// later Open has written the key again, it deletes nothing.
func deleteSentinel(ctx context.Context, conn lease.Conn, key string) {
	got, err := conn.Client.Get(conn.Lead(ctx), key)
	if err != nil || len(got.Kvs) == 0 {
		return
	}
	_, _ = conn.Client.Txn(conn.Lead(ctx)).
		If(keys.Unchanged(key, got.Kvs[0].ModRevision)).
		Then(clientv3.OpDelete(key)).
		Commit()
}

// externalSession is a session on an external lease, which outlives it.
type externalSession struct {
	*session
	unhook func() bool     // stops waiting for the owner of the lease
	owner  context.Context // ends when the owner stops keeping the lease

	late    sync.Once     // starts removeLater
	once    sync.Once     // closes removed
	removed chan struct{} // closed when Close or removeLater has succeeded
}

var errOwnerEnded = errors.New("etcd: the concurrency.Session that keeps the lease has ended")

// Err says so if the owner has stopped keeping the lease.
func (x *externalSession) Err() error {
	if err := x.session.Err(); err != nil || x.owner.Err() == nil {
		return err
	}
	return driver.Wrap(driver.ErrSessionLost, errOwnerEnded)
}

// Capabilities are the session's, with this Pass.
func (x *externalSession) Capabilities() driver.Capabilities {
	c := x.session.Capabilities()
	c.Handoff = x
	return c
}

// Pass writes no handoff marker: the lease outlives the session, and with it
// the marker.
func (x *externalSession) Pass(ctx context.Context, queue driver.Queue, own driver.Place) error {
	return x.Leave(ctx, queue, own)
}

// Forget also deletes the tail key if it names the contender: it is bound to
// the lease, which outlives the session.
func (x *externalSession) Forget(ctx context.Context, queue driver.Queue, id string) error {
	return x.forget(ctx, queue, id, x.dropTail(x.keys.Tail(queue)))
}

// maxPerTxn bounds the contenders that one transaction removes, with three
// operations each: a member accepts 128 by default.
const maxPerTxn = 40

// Close keeps the lease. It deletes the sentinel first, and with it the epoch,
// so that no late request which compares it can be applied. Then it deletes the
// entries, and the tail keys that may name them. The lease's list of keys would
// not do: the lease has keys of others, and a member may answer before it has
// applied the last join. A Join that finds the session alive has called expect
// before.
//
// If that fails, it goes on in the background: the lease may live for years.
func (x *externalSession) Close(ctx context.Context) error {
	x.unhook()
	x.Stop()
	err := x.remove(ctx)
	if err == nil {
		x.once.Do(func() { close(x.removed) })
		return nil
	}
	x.late.Do(func() { go x.removeLater() })
	return err
}

// removeLater removes the entries over failures, in a goroutine that belongs to
// the owner of the lease: it ends at the latest when the owner's session or
// client does.
func (x *externalSession) removeLater() {
	const pause = time.Second
	patience := min(max(x.TTL()/attemptsPerTTL, pause), longestAttempt)
	for {
		select {
		case <-x.owner.Done():
			return
		case <-x.removed:
			return
		case <-time.After(pause):
		}
		ctx, cancel := context.WithTimeout(x.owner, patience)
		err := x.remove(ctx)
		cancel()
		switch {
		case errors.Is(err, driver.ErrClosed):
			return
		case err == nil:
			x.once.Do(func() { close(x.removed) })
			return
		}
	}
}

const (
	// attemptsPerTTL bounds an attempt, like those of the engine.
	attemptsPerTTL = 4
	// longestAttempt bounds one with a long TTL: a member may take a request
	// and never answer it.
	longestAttempt = 10 * time.Second
)

// remove is an attempt of Close. The next one goes on where it ended: with
// thousands of contenders, one may not have time for all.
func (x *externalSession) remove(ctx context.Context) error {
	if err := x.Conn.Closed(); err != nil {
		return err
	}
	if _, err := x.Do(ctx, clientv3.OpDelete(x.Sentinel.Key)); err != nil {
		return x.Conn.Failed(ctx, err)
	}
	for some := range slices.Chunk(x.memory.all(), maxPerTxn) {
		var ops []clientv3.Op
		for _, contender := range some {
			ops = append(ops, x.dropTail(keys.TailOf(contender)),
				clientv3.OpDelete(contender, clientv3.WithPrefix()),
				clientv3.OpDelete(keys.Converted(contender), clientv3.WithPrefix()))
		}
		if _, err := x.Txn(ctx).Then(ops...).Commit(); err != nil {
			return x.Conn.Failed(ctx, err)
		}
		for _, contender := range some { // without the sentinel it gets no entry
			x.memory.drop(contender)
		}
	}
	return nil
}

// dropTail deletes a queue's tail key if it names a contender of this lease.
func (x *externalSession) dropTail(tail string) clientv3.Op {
	mine := clientv3.Compare(clientv3.LeaseValue(tail), "=", int64(x.Lease))
	return clientv3.OpTxn([]clientv3.Cmp{mine}, []clientv3.Op{clientv3.OpDelete(tail)}, nil)
}
