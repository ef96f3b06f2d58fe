package foreign

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// leases are the leases of a session.
//
// A key of package concurrency is named after its lease alone, so each
// contender of a session in one queue needs its own lease. The first uses the
// session's. A further one gets another lease, which is renewed together with
// the session's, serves for other queues as well, and is revoked after two
// renewals without a contender.
type leases struct {
	mu    sync.Mutex
	all   []*oneLease // the session's own first
	round int         // of renewals
}

type oneLease struct {
	id         clientv3.LeaseID
	contenders map[driver.Queue]contender
	idle       bool // had no contenders at the last renewal
}

// contender is the contender of a lease in a queue.
type contender struct {
	id  string
	rev int64 // the create revision of its key, 0 if unknown
	// doubtful: a Forget of it had no answer. Applied late, it deletes the key
	// of any contender.
	doubtful bool
}

// spent is the ID in place of a doubtful contender that is forgotten. It keeps
// the key from others.
const spent = "-"

func newLeases(own clientv3.LeaseID) *leases {
	ls := &leases{}
	ls.all = append(ls.all, newLease(own))
	return ls
}

func newLease(id clientv3.LeaseID) *oneLease {
	return &oneLease{id: id, contenders: make(map[driver.Queue]contender)}
}

// find returns the lease of a contender, or nil, and the create revision of its
// key.
func (ls *leases) find(queue driver.Queue, id string) (l *oneLease, rev int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l = ls.of(queue, id); l != nil {
		rev = l.contenders[queue].rev
	}
	return l, rev
}

func (ls *leases) of(queue driver.Queue, id string) *oneLease {
	for _, l := range ls.all {
		if l.contenders[queue].id == id {
			return l
		}
	}
	return nil
}

// take returns the lease of a contender, or one without a contender in the
// queue; nil, and the round of renewals, if there is none. It takes none if
// stopped returns an error: a Forget that stops the join later finds the lease.
func (ls *leases) take(
	queue driver.Queue, id string, stopped func() error,
) (l *oneLease, round int, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := stopped(); err != nil {
		return nil, 0, err
	}
	if l = ls.of(queue, id); l == nil {
		l = ls.of(queue, "")
	}
	if l != nil {
		l.contenders[queue] = contender{id: id, doubtful: l.contenders[queue].doubtful}
		l.idle = false
	}
	return l, ls.round, nil
}

// joined notes the create revision of a contender's key.
func (ls *leases) joined(queue driver.Queue, id string, rev int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of(queue, id); l != nil {
		l.contenders[queue] = contender{id, rev, l.contenders[queue].doubtful}
	}
}

// doubt notes that a Forget of a contender had no answer.
func (ls *leases) doubt(queue driver.Queue, id string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of(queue, id); l != nil {
		l.contenders[queue] = contender{id, l.contenders[queue].rev, true}
	}
}

// add adds a granted lease, unless a renewal since the given round has missed
// it.
func (ls *leases) add(id clientv3.LeaseID, round int) (ok bool, now int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.round != round {
		return false, ls.round
	}
	ls.all = append(ls.all, newLease(id))
	return true, round
}

// free notes that a contender has no key and cannot get one.
func (ls *leases) free(queue driver.Queue, id string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	switch l := ls.of(queue, id); {
	case l == nil:
	case l.contenders[queue].doubtful:
		l.contenders[queue] = contender{id: spent}
	default:
		delete(l.contenders, queue)
	}
}

// renewal begins a round, and returns the leases to renew and to revoke. The
// session's own is not among them.
func (ls *leases) renewal() (renew, revoke []clientv3.LeaseID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.round++
	ls.all = slices.DeleteFunc(ls.all, func(l *oneLease) bool {
		switch {
		case l == ls.all[0]:
			return false
		case l.idle:
			revoke = append(revoke, l.id)
			return true
		}
		l.idle = true
		for _, c := range l.contenders {
			l.idle = l.idle && c.id == spent
		}
		renew = append(renew, l.id)
		return false
	})
	return renew, revoke
}

// rest returns all leases but the session's own.
func (ls *leases) rest() (rest []clientv3.LeaseID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.all[1:] {
		rest = append(rest, l.id)
	}
	return rest
}

// leaseFor returns the lease for a contender that joins. If all have one in the
// queue, it grants another.
//
// A holder's deadline counts from the sending of the last renewal. A lease
// granted before that and not renewed then could end earlier, so it is renewed
// alone.
func (s *session) leaseFor(
	ctx context.Context, queue driver.Queue, id string, join *lease.Call,
) (*oneLease, error) {
	stopped := func() error {
		_, err := s.Joins.Take(join)
		return err
	}
	for {
		l, round, err := s.leases.take(queue, id, stopped)
		if l != nil || err != nil {
			return l, err
		}
		granted, err := s.Conn.Grant(ctx)
		if err != nil {
			return nil, err
		}
		for {
			var ok bool
			if ok, round = s.leases.add(granted, round); ok {
				break
			}
			if err := s.KeepAlive(ctx, granted); err != nil {
				_ = s.Conn.Revoke(ctx, granted) // else its TTL ends it
				return nil, err
			}
		}
	}
}

const (
	// maxAtOnce bounds how many requests of a session that concern leases are
	// under way at once.
	maxAtOnce = 16

	// leastKept are renewed with one call: fewer are not worth a stream.
	leastKept = 64
)

// forAll calls f for all elements concurrently, and returns the first error.
func forAll[T any](all []T, f func(T) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxAtOnce)
	errs := make([]error, len(all))
	for i, one := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(one)
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

// renewExtra renews leases other than the session's own. If one is gone, and no
// concurrent renewal of the session has revoked it, the session is over.
func (s *session) renewExtra(ctx context.Context, ids []clientv3.LeaseID) error {
	missing, err := s.Keep(ctx, ids...)
	if len(missing) > 0 {
		rest := s.leases.rest()
		isOurs := func(id clientv3.LeaseID) bool { return slices.Contains(rest, id) }
		if slices.ContainsFunc(missing, isOurs) {
			err = rpctypes.ErrLeaseNotFound
		}
	}
	return s.Failed(ctx, err)
}

// Renew renews all leases. If one has ended, its keys are gone, and the session
// is over as a whole.
//
// A member answers the keep-alives of a stream one after the other, and a
// follower asks the leader for each. So many leases are shared among several
// streams.
func (s *session) Renew(ctx context.Context) error {
	if err := s.Session.Renew(ctx); err != nil {
		return err
	}
	renew, revoke := s.leases.renewal() // an attempt without an answer is no round
	each := min(max((len(renew)+maxAtOnce-1)/maxAtOnce, leastKept), lease.MostKept)
	err := forAll(slices.Collect(slices.Chunk(renew, each)), func(ids []clientv3.LeaseID) error {
		return s.renewExtra(ctx, ids)
	})
	// A lease that is not revoked ends with its TTL.
	_ = forAll(revoke, func(id clientv3.LeaseID) error { return s.Conn.Revoke(ctx, id) })
	return err
}
