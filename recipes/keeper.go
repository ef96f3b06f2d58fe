package recipes

import (
	"context"
	"slices"
	"sync"
	"time"
)

// keeper has the turns of a queue with WithRetain, and the callers that wait
// for them. Nothing of it runs for a queue without the option: see
// kept.go for the life of a turn.
//
// Callers that need another entry share one: it belongs to the turn to come,
// and not to the caller that began it. So a caller that gives up takes nobody
// else's place in the queue with it.
type keeper struct {
	queue *Queue

	// Locked before the mu of a turn. No request is sent and no observer
	// called while it is locked.
	mu         sync.Mutex
	mode       string    // of all its turns
	open       *kept     // the turn whose gate is open, or nil
	next       []*caller // wait for an entry, in order
	joining    *joining  // for them; nil if there are none
	pause      time.Duration
	until      time.Time // no turn is kept before: see waste
	joinsAlone bool      // a caller that goes alone joins or waits
	alone      *turn     // that such a caller had last
}

// keeps reports whether a request can have a turn that is kept. All callers
// must be able to share the entry: its mode, its value, its rule.
func (k *keeper) keeps(ctx context.Context, request *Request) bool {
	if !request.exclusive() || request.Lesser != "" || request.Payload != nil || request.Queued != nil {
		return false
	}
	k.mu.Lock()
	if k.mode == "" {
		k.mode = request.Mode
	}
	// The first request decides: callers of another mode have an entry of their
	// own, and the turn is passed on for them as for other clients.
	same, known := k.mode == request.Mode, k.open != nil || k.joining != nil
	k.mu.Unlock()
	if !same || known {
		return same
	}
	return k.queue.watches(ctx)
}

// acquire is Queue.contend for a request that keeps.
func (k *keeper) acquire(ctx context.Context, request Request) (*Hold, error) {
	if k.goesAlone() {
		return k.goAlone(ctx, request)
	}
	waiter := &caller{call: call{Request: request, ctx: ctx, began: time.Now()}}
	k.mu.Lock()
	turn := k.open
	// The fast path: no request, no channel, and no goroutine.
	if turn != nil && !turn.busy {
		turn.busy = true
		turn.idle.Stop()
		k.mu.Unlock()
		return k.served(turn, waiter)
	}
	waiter.got = make(chan *kept, 1)
	switch {
	case turn != nil && request.Try:
		k.mu.Unlock()
		return nil, k.failed(waiter, turn.taken(request.Op))
	case request.Try:
		// Its own attempt: it must not wait behind others of this Queue. It
		// joins only an empty queue, or behind a turn that may be idle: see
		// askIdle.
		k.mu.Unlock()
		return k.try(waiter)
	// The gate is open: nobody else is known to wait, so this overtakes nobody.
	case turn != nil:
		waiter.in, waiter.since = turn, waiter.began
		turn.waiting = append(turn.waiting, waiter)
		turn.suspect()
		turn.tellWanted()
	// There is no turn, or its gate is closed: then this caller waits behind
	// the contender for which it was closed.
	default:
		if k.joining != nil && k.joining.queued {
			waiter.since = waiter.began
		}
		k.next = append(k.next, waiter)
		k.join()
	}
	k.mu.Unlock()
	return k.wait(waiter)
}

// goesAlone reports whether a caller has an entry of its own, as without the
// option: while no turn is kept (see waste), unless another caller is there. A
// turn would have a join in another goroutine, which is for nothing then.
// Callers that come until it releases share the next entry behind it.
func (k *keeper) goesAlone() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.joinsAlone || k.open != nil || k.joining != nil || !time.Now().Before(k.until) ||
		k.alone != nil && !k.alone.over() {
		return false
	}
	k.joinsAlone = true
	return true
}

// goAlone is acquire for such a caller.
func (k *keeper) goAlone(ctx context.Context, request Request) (hold *Hold, err error) {
	defer func() { // also if an observer panics
		k.mu.Lock()
		defer k.mu.Unlock()
		k.joinsAlone, k.alone = false, nil
		if hold != nil {
			k.alone = hold.turn()
		}
	}()
	return k.queue.contend(ctx, request)
}

// wait waits until the caller has the turn and holds, or its context ends.
func (k *keeper) wait(w *caller) (*Hold, error) {
	var t *kept
	select {
	case t = <-w.got:
	case <-w.ctx.Done():
		var err error
		if t, err = k.giveUp(w); err != nil {
			return nil, k.failed(w, err)
		}
	}
	if t == nil {
		return nil, k.failed(w, w.err)
	}
	return k.served(t, w)
}

// served is the outcome of a caller that got a turn. If that is of no use, the
// caller waits for another one, but a Try joins alone: those that wait would
// get its error.
func (k *keeper) served(t *kept, w *caller) (*Hold, error) {
	h, err := t.serve(w)
	switch {
	case err != nil:
		return nil, k.failed(w, err)
	case h != nil:
		return h, nil
	case w.Try:
		return k.try(w)
	}
	return k.wait(w)
}

// failed notifies the observers of a caller that does not get the turn, and
// returns its error.
func (k *keeper) failed(w *caller, err error) error {
	w.notGranted(k.queue, err)
	k.mu.Lock()
	since := w.since
	k.mu.Unlock()
	return k.queue.explain(w.ctx, w.Op, since, err)
}

// giveUp removes a caller whose context has ended, and returns the cause. If it
// was the last one for which an entry is joined, giveUp cancels the join and
// returns what comes of it: so the error says whether the service has answered.
// That may be the turn, if it was admitted at that moment.
func (k *keeper) giveUp(waiter *caller) (*kept, error) {
	cause := context.Cause(waiter.ctx)
	k.mu.Lock()
	at := slices.Index(k.next, waiter)
	switch {
	// The last one waits for the attempt to end: when the call returns, its
	// entry is gone, or its removal is under way.
	case at >= 0 && k.joining.ends(k.next, waiter):
		waiter.cancelled, k.joining.cancelled = true, true
		k.joining.cancel(cause)
		k.mu.Unlock()
		t := <-waiter.got // soon: the attempt ends with its context
		return t, nil
	case at >= 0:
		k.next = slices.Delete(k.next, at, at+1)
		err := unanswered(waiter.ctx, cause, k.queue.client, k.joining.queued)
		k.mu.Unlock()
		return nil, err
	// In a local queue it has no entry: nothing has to be undone.
	case waiter.in != nil:
		waiter.in.waiting = slices.DeleteFunc(waiter.in.waiting, func(o *caller) bool { return o == waiter })
		k.mu.Unlock()
		return nil, cause
	}
	k.mu.Unlock()
	// In neither: what took it out has answered, under mu. The turn came too
	// late for this caller, so the next one has it.
	t := <-waiter.got
	if t == nil {
		return nil, waiter.err
	}
	t.handOver()
	return nil, cause
}

// ends reports whether the join is to be cancelled when w gives up.
func (j *joining) ends(next []*caller, w *caller) bool {
	others := slices.ContainsFunc(next, func(o *caller) bool { return o != w })
	return !others && !j.cancelled
}

// try is acquire for a Try while there is no turn.
func (k *keeper) try(waiter *caller) (*Hold, error) {
	won := k.newAttempt(waiter.Request)
	defer won.leaveLater() // as in contend
	if err := won.win(waiter.ctx); err != nil {
		waiter.failed, waiter.since = won, won.since
		return nil, k.failed(waiter, err)
	}
	k.mu.Lock()
	// Callers that wait for an entry came first: then the turn is passed on.
	open := k.open == nil && k.joining == nil
	t := k.take(won, open)
	if open {
		k.setTurn(t)
	}
	k.mu.Unlock()
	t.begin(t, won)
	return k.served(t, waiter)
}
