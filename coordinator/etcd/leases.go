package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// leases are those of a guest.
//
// A key of package concurrency is named after its lease alone, so one lease has room for one contender in a line. The first one takes
// the session's own. Whoever comes while that has a contender in the same line gets a lease more, which is renewed together with the
// session's, serves for other lines as well, and is revoked when it has been idle for as long as a renewal takes to come.
type leases struct {
	mu    sync.Mutex
	all   []*lease // the session's own first
	round int      // of renewals
}

type lease struct {
	id   clientv3.LeaseID
	busy map[driver.Line]string // the contender that it has there
	idle bool                   // it was so at the last renewal
}

func newLeases(own clientv3.LeaseID) *leases {
	return &leases{all: []*lease{{id: own, busy: make(map[driver.Line]string)}}}
}

// find returns the lease that a contender has, nil if it has none.
func (ls *leases) find(line driver.Line, id string) *lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.of(line, id)
}

func (ls *leases) of(line driver.Line, id string) *lease {
	for _, l := range ls.all {
		if l.busy[line] == id {
			return l
		}
	}
	return nil
}

// take returns the lease that a contender has, or one that is free in the line; nil, and the round of
// renewals, if another one is wanted.
func (ls *leases) take(line driver.Line, id string) (l *lease, round int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l = ls.of(line, id); l == nil {
		l = ls.of(line, "")
	}
	if l != nil {
		l.busy[line], l.idle = id, false
	}
	return l, ls.round
}

// add adds a lease that was granted, unless there was a renewal since the given round, which it may have missed.
func (ls *leases) add(id clientv3.LeaseID, round int) (ok bool, now int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.round != round {
		return false, ls.round
	}
	ls.all = append(ls.all, &lease{id: id, busy: make(map[driver.Line]string)})
	return true, round
}

// free says that a contender has no key and cannot get one.
func (ls *leases) free(line driver.Line, id string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of(line, id); l != nil {
		delete(l.busy, line)
	}
}

// renewal begins a round, and returns those leases that are to be renewed, and those that are to be revoked. The session's own is not
// among them.
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
// A holder's deadline counts from the sending of the last renewal. A lease that was granted before that and was not among
// those renewed could end earlier, so it is renewed once by itself.
func (g *guest) lease(ctx context.Context, line driver.Line, id string) (*lease, error) {
	for {
		l, round := g.leases.take(line, id)
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

// Renew renews all leases. If one has ended, its keys have gone, and the session is over: to its user there is one session.
func (g *guest) Renew(ctx context.Context) error {
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

// Close revokes all leases, the session's own first: without its sentinel no join that is under way is applied any more.
func (g *guest) Close(ctx context.Context) error {
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
