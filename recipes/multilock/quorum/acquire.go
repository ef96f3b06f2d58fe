package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock/internal/held"
	"github.com/baton-go/baton/recipes/multilock/quorum/internal/service"
)

// key finds the innermost hold of a quorum of this name in a context.
type key struct{ name string }

// acquire plays rounds until one succeeds:
//
//	order: ask all services who they are, and miss those without an answer
//	for each of the others, in order: acquire its member
//	    wait for other callers, but once enough are held only for a moment
//	    miss it after an error, or without an answer in time
//	    miss it if its queue does not move, and enough of those after it are
//	    free, or a service that was missed answers again: then the next round
//	    asks that, too
//	enough are held: done
//	too few are left: release all, pause, next round
func (q *Quorum) acquire(ctx context.Context, wait time.Duration) (*Lock, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	outer, ok := ctx.Value(key{q.name}).(*Lock)
	if ok && q.overlaps(outer.quorum) && q.services[0].Reenters() {
		if err := outer.Err(); err == nil {
			return (&round{quorum: q, lock: q.newLock(ctx), outer: outer}).play(ctx)
		} else if !errors.Is(err, coordinator.ErrReleased) {
			return nil, err
		}
	}
	pauses := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(2*time.Second),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxElapsedTime(0))
	for all := false; ; {
		r := &round{quorum: q, lock: q.newLock(ctx), wait: wait, all: all}
		l, err := r.play(ctx)
		switch all = r.spared > 0; {
		case err == nil || ctx.Err() != nil || r.taken:
			return l, err
		case all: // those may be enough
			continue
		case wait == 0 || len(q.services)-r.failed < q.need:
			return nil, err
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}
}

// round is one attempt to acquire all members.
type round struct {
	quorum *Quorum
	lock   *Lock
	wait   time.Duration // for other callers
	all    bool          // ask those that did not answer a moment ago, too
	outer  *Lock         // re-enter this one, or nil

	spared int                // members that were not asked
	silent []*service.Service // without an answer at the beginning of the round
	failed int                // members for which another round is useless
	taken  bool               // it would have had to wait
}

func (q *Quorum) newLock(ctx context.Context) *Lock {
	l := &Lock{quorum: q, sequencers: make([]fence.Sequencer, len(q.services))}
	l.holds = held.New(ctx, len(q.services), q.need,
		func(i int) string { return q.services[i].String() })
	l.holds.Carry(key{q.name}, l)
	return l
}

// play acquires the quorum, or releases all that it has acquired.
func (r *round) play(ctx context.Context) (*Lock, error) {
	done := false
	defer func() {
		if !done { // also if an observer panics
			_ = r.lock.release(ctx)
		}
	}()
	order, err := r.order(ctx)
	if err != nil {
		return nil, err
	}
	for at, i := range order {
		switch {
		case r.lock.holds.Err() != nil:
			return r.grant()
		case r.lock.holds.Holding(i): // see pass
			continue
		}
		enough, wait, after := r.lock.holds.Held() >= r.quorum.need, r.wait, order[at+1:]
		if enough {
			wait, after = min(wait, service.Brief), nil // longer could deadlock
		}
		err := r.acquire(ctx, i, wait, after)
		switch {
		case err == nil || enough:
		case ctx.Err() != nil:
			return nil, err
		case r.wait == 0 && errors.Is(err, coordinator.ErrTaken):
			// The caller that has this member is ahead of this one. To try the
			// others could make both fail.
			r.taken = true
			return nil, fmt.Errorf("%s: %w", r.quorum.services[i], err)
		}
	}
	l, err := r.grant()
	done = err == nil
	return l, err
}

func (r *round) grant() (*Lock, error) {
	if err := r.lock.holds.Grant(); err != nil {
		return nil, &coordinator.Error{Op: "lock", Name: r.quorum.name, Err: err}
	}
	return r.lock, nil
}

// order returns the indexes of the members whose services answer, in the order
// that all callers use.
func (r *round) order(ctx context.Context) (order []int, err error) {
	if r.outer != nil {
		return r.inner(), nil
	}
	ids, errs, spared := service.Identities(ctx, r.quorum.services, r.all)
	r.spared = spared
	for i, err := range errs {
		if err != nil {
			r.miss(i, err)
			r.silent = append(r.silent, r.quorum.services[i])
			continue
		}
		if j := slices.Index(ids, ids[i]); j < i {
			r.failed = len(ids)
			return nil, invalid("quorum %q: clients %d and %d are of one service, %s",
				r.quorum.name, j, i, r.quorum.services[i])
		}
		order = append(order, i)
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(ids[i], ids[j]) })
	return order, nil
}

// acquire acquires a member, or misses it. after are the members after it in
// the order, which it may acquire instead: see pass.
func (r *round) acquire(ctx context.Context, i int, wait time.Duration, after []int) error {
	bound, stop := r.lock.holds.Wait(recipes.DeferMaxHold(ctx))
	defer stop()
	var h *recipes.Hold
	var err error
	if wait == service.Forever && len(after)+len(r.silent) > 0 {
		h, err = r.waitOrPass(bound, i, after)
	} else {
		h, err = r.quorum.services[i].Acquire(bound, wait, nil)
	}
	if err != nil {
		r.miss(i, err)
		return err
	}
	r.add(bound, i, h)
	return nil
}

// add adds a member that is held. Its sequencer needs no request: order has
// read the identity of the service, unless the session is another one.
func (r *round) add(ctx context.Context, i int, h *recipes.Hold) {
	r.lock.holds.Add(i, h, h.Release)
	bound, cancel := context.WithTimeoutCause(ctx, service.Patience, service.ErrSilent)
	defer cancel()
	seq, err := h.Sequencer(bound)
	if err != nil {
		r.lock.holds.Miss(i, err)
	}
	r.lock.sequencers[i] = seq
}

func (r *round) miss(i int, err error) {
	if errors.Is(err, coordinator.ErrClosed) || errors.Is(err, coordinator.ErrRefused) ||
		errors.Is(err, coordinator.ErrInvalid) {
		r.failed++
	}
	r.lock.holds.Miss(i, err)
}

// inner returns the members of the outer hold and misses all others: to wait
// for one while later ones are held would leave the order.
func (r *round) inner() (order []int) {
	for i, s := range r.quorum.services {
		if j := r.outer.quorum.index(s); j >= 0 && r.outer.holds.Holding(j) {
			order = append(order, i)
		} else {
			r.miss(i, coordinator.ErrNotHeld)
		}
	}
	return order
}

func (q *Quorum) index(s *service.Service) int {
	return slices.IndexFunc(q.services, func(m *service.Service) bool { return m.Client == s.Client })
}

func (q *Quorum) overlaps(o *Quorum) bool {
	return slices.ContainsFunc(q.services, func(s *service.Service) bool { return o.index(s) >= 0 })
}
