package foreign

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// leases are those of a session.
//
// A key of package concurrency is named after its lease alone, so one lease has
// room for one contender in a queue. The first one takes the session's own. A
// further contender in the same queue gets another lease, which is renewed
// together with the session's, serves for other queues as well, and is revoked
// when it has been idle between two renewals.
type leases struct {
	mu    sync.Mutex
	all   []*oneLease // the session's own first
	round int         // of renewals
}

type oneLease struct {
	id         clientv3.LeaseID
	contenders map[driver.Queue]contender
	idle       bool // it was so at the last renewal
}

// contender is the contender that a lease has in a queue.
type contender struct {
	id  string
	rev int64 // the create revision of its key, zero until that is known
}

func newLeases(own clientv3.LeaseID) *leases {
	ls := &leases{}
	ls.all = append(ls.all, newLease(own))
	return ls
}

func newLease(id clientv3.LeaseID) *oneLease {
	return &oneLease{id: id, contenders: make(map[driver.Queue]contender)}
}

// find returns the lease that a contender has, nil if it has none, and the
// create revision of its key.
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

// take returns the lease that a contender has, or one that is free in the
// queue; nil, and the round of renewals, if another one is wanted.
func (ls *leases) take(queue driver.Queue, id string) (l *oneLease, round int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l = ls.of(queue, id); l == nil {
		l = ls.of(queue, "")
	}
	if l != nil {
		l.contenders[queue], l.idle = contender{id: id}, false
	}
	return l, ls.round
}

// joined says that a contender has a key of the given create revision.
func (ls *leases) joined(queue driver.Queue, id string, rev int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of(queue, id); l != nil {
		l.contenders[queue] = contender{id, rev}
	}
}

// add adds a lease that was granted, unless there was a renewal since the given
// round, which it may have missed.
func (ls *leases) add(id clientv3.LeaseID, round int) (ok bool, now int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.round != round {
		return false, ls.round
	}
	ls.all = append(ls.all, newLease(id))
	return true, round
}

// free says that a contender has no key and cannot get one.
func (ls *leases) free(queue driver.Queue, id string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of(queue, id); l != nil {
		delete(l.contenders, queue)
	}
}

// renewal begins a round, and returns those leases that are to be renewed, and
// those that are to be revoked. The session's own is not among them.
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
		l.idle = len(l.contenders) == 0
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

// leaseFor returns the lease for a contender, and has one granted if all are
// taken.
//
// A holder's deadline counts from the sending of the last renewal. A lease that
// was granted before that and was not among those renewed could end earlier, so
// it is renewed once by itself.
func (s *session) leaseFor(ctx context.Context, queue driver.Queue, id string) (*oneLease, error) {
	for {
		l, round := s.leases.take(queue, id)
		if l != nil {
			return l, nil
		}
		granted, err := s.Conn.Grant(ctx, s.TTL())
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

// maxAtOnce bounds how many leases are renewed, or revoked, at once.
const maxAtOnce = 16

// forAll calls f for all leases, some at once, and returns the first error.
func forAll(ids []clientv3.LeaseID, f func(clientv3.LeaseID) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxAtOnce)
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

// renewExtra renews a lease besides the session's own. If the service does not
// have it, and the session has not revoked it in a renewal that ran at the same
// time, the session is over.
func (s *session) renewExtra(ctx context.Context, id clientv3.LeaseID) error {
	_, err := s.Conn.Client.KeepAliveOnce(ctx, id)
	if answer.Is(err, rpctypes.ErrLeaseNotFound) && !slices.Contains(s.leases.rest(), id) {
		return nil
	}
	return s.Failed(ctx, err)
}

// Renew renews all leases. If one has ended, its keys have gone, and the
// session is over: to its user there is one session.
func (s *session) Renew(ctx context.Context) error {
	renew, revoke := s.leases.renewal()
	own := s.Session.Renew(ctx)
	err := forAll(renew, func(id clientv3.LeaseID) error { return s.renewExtra(ctx, id) })
	// A lease that is not revoked ends with its TTL.
	_ = forAll(revoke, func(id clientv3.LeaseID) error { return s.Conn.Revoke(ctx, id) })
	if own == nil || errors.Is(err, driver.ErrSessionLost) {
		return err
	}
	return own
}
