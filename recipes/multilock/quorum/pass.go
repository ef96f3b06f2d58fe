package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock/internal/held"
	"github.com/baton-go/baton/recipes/multilock/quorum/internal/service"
)

// Why a wait was given up.
var (
	errStuck = errors.New("the first in its queue does not leave, and holds no quorum")
	errBack  = errors.New("the first in its queue does not leave, and a service that was " +
		"silent answers again")
)

// waiting is the wait in the queue of a member.
type waiting struct {
	queued chan struct{}   // closed when it has joined
	ended  chan struct{}   // closed afterwards
	trial  context.Context // ends with the wait
	cancel context.CancelCauseFunc

	// after ended
	hold    *recipes.Hold
	err     error
	trouble any // of a panic: an observer may
}

// enqueue begins to wait for a member.
func (r *round) enqueue(ctx context.Context, i int) *waiting {
	wait, cancel := context.WithCancelCause(ctx)
	trial, over := context.WithCancel(ctx)
	w := &waiting{queued: make(chan struct{}), ended: make(chan struct{}), trial: trial, cancel: cancel}
	go func() { // end waits for it
		defer func() {
			w.trouble = recover()
			over()
			close(w.ended)
		}()
		w.hold, w.err = r.quorum.services[i].Acquire(wait, service.Forever, func() { close(w.queued) })
	}()
	return w
}

// end ends the wait, if it has not ended, and returns its result.
func (w *waiting) end(cause error) (*recipes.Hold, error) {
	w.cancel(cause)
	<-w.ended
	if w.trouble != nil {
		panic(w.trouble)
	}
	return w.hold, w.err
}

// waitOrPass waits in the queue of a member. The caller ahead may have died, or
// be no caller of this quorum: its entry then blocks a member although enough
// others are free, or held by a quorum without it. So from time to time, and
// more and more seldom, it tries to acquire those after it. Meanwhile it keeps
// its place in the queue. It gives that up, and the round, when a service that
// was silent is back: with that there may be enough.
func (r *round) waitOrPass(
	ctx context.Context, i int, after []int,
) (hold *recipes.Hold, err error) {
	s, w, done := r.quorum.services[i], r.enqueue(ctx, i), false
	defer func() {
		if !done { // an observer panics
			h, _ := w.end(nil)
			release(ctx, map[int]*recipes.Hold{i: h})
		}
	}()
	pauses := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(service.Patience), backoff.WithMaxInterval(15*service.Patience),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.25),
		backoff.WithMaxElapsedTime(0))
	var pause <-chan time.Time
	var stuck recipes.Contender // the first in the queue, if it has stayed during a trial
	for queued, began := w.queued, time.Now(); ; {
		select {
		case <-w.ended:
			done = true
			if hold, err = w.end(nil); err != nil && stuck.Key != "" && ctx.Err() != nil {
				err = &coordinator.Error{Op: "lock", Name: r.quorum.name, Err: fmt.Errorf(
					"%s: waited for %v for the first in the queue, %q of %q: %w", s,
					time.Since(began).Round(time.Millisecond), stuck.Key, stuck.Identity, err)}
			}
			return hold, err
		case <-queued:
			queued, pause = nil, time.After(service.Patience)
			continue
		case <-pause:
		}
		var pass bool
		if pass, stuck = r.pass(ctx, w.trial, i, after); pass {
			s.Log().Warn("baton: a member of a quorum is passed over, since the first in its queue does not leave",
				"quorum", r.quorum.name, "service", s.String(), "first", stuck.Identity, "key", stuck.Key)
			done = true
			hold, err = w.end(errStuck)
			s.Rest()
			return hold, err
		}
		if r.back(w.trial) {
			done = true
			return w.end(errBack)
		}
		pause = time.After(pauses.NextBackOff())
	}
}

// back reports whether a service that was silent answers again.
func (r *round) back(ctx context.Context) bool {
	_, errs, _ := service.Identities(ctx, r.silent, true)
	return slices.Contains(errs, nil)
}

// pass reports whether to go on without a member that is waited for. It
// acquires those after it, without a wait, if that makes enough. Else it keeps
// none, since that would leave the order. Then it goes on if the caller that
// has them is not the first in the queue of this one: that caller does without
// this member, too. trial ends with the wait for the member.
//
// All that is so only if the first stays the same meanwhile, and is returned.
// After a release, those ahead in the queue of this member are next.
func (r *round) pass(
	ctx, trial context.Context, i int, after []int,
) (pass bool, stuck recipes.Contender) {
	head, ok := r.quorum.services[i].First(trial)
	if !ok {
		return false, stuck
	}
	holds := make(map[int]*recipes.Hold)
	keep := false
	defer func() { // also if an observer panics
		// When the call ends, it releases them together with the earlier ones:
		// one after the other would take twice the time.
		if !keep && ctx.Err() == nil {
			release(ctx, holds)
			return
		}
		for j, h := range holds {
			r.add(ctx, j, h)
		}
	}()
	need := r.quorum.need - r.lock.holds.Held()
	others, same := 0, false
	for _, j := range after {
		h, err := r.quorum.services[j].Acquire(trial, 0, nil)
		if taken, ok := errors.AsType[*recipes.TakenError](err); ok {
			others++
			same = same || taken.Holder.Identity == "" || taken.Holder.Identity == head.Identity
		}
		if err == nil {
			holds[j] = h
		}
	}
	again, ok := r.quorum.services[i].First(trial)
	switch {
	case !ok || again.Key != head.Key || again.Token != head.Token:
		return false, stuck
	case len(holds) < need:
		return others > 0 && !same && len(holds)+others >= need, head
	}
	keep = true
	return true, head
}

// release releases members, for a bounded time, and no longer than ctx lives.
// Then it goes on in the background.
func release(ctx context.Context, holds map[int]*recipes.Hold) {
	bound, cancel := context.WithTimeout(ctx, service.Patience)
	defer cancel()
	var all []*recipes.Hold
	for _, h := range holds {
		if h != nil {
			all = append(all, h)
		}
	}
	held.Together(len(all), func(i int) { _ = all[i].Release(bound) })
}
