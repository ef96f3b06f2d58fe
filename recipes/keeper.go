package recipes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
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
	mu      sync.Mutex
	mode    string    // of all its turns
	turn    *kept     // the turn whose gate is open, or nil
	next    []*caller // wait for an entry, in order
	joining *joining  // for them; nil if there are none
	pause   time.Duration
	until   time.Time // no turn is kept before: see waste
}

// caller is a call of Acquire that keeps.
type caller struct {
	call

	// guarded by the keeper's mu
	in     *kept     // it waits in the local queue of this turn
	last   bool      // it has given up as the last one, and waits for the join
	waited bool      // in a local queue
	since  time.Time // when it was queued: there, or at the service

	got chan *kept // the turn, or nil if err is set; has room for one
	err error      // set before got, as left and handed
}

func (w *caller) get(t *kept) {
	w.in, w.handed = nil, time.Now()
	w.got <- t // never blocks: a caller waits for one answer at a time
}

// joining is a join for all callers of next.
type joining struct {
	cancel            context.CancelCauseFunc
	cancelled, queued bool
}

// enqueued notes that the callers are in the queue of the service.
func (k *keeper) enqueued() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.joining.queued = true
	for _, w := range k.next {
		if w.since.IsZero() { // else it was in a local queue before
			w.since = time.Now()
		}
	}
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
	same, known := k.mode == request.Mode, k.turn != nil || k.joining != nil
	k.mu.Unlock()
	if !same || known {
		return same
	}
	return k.queue.watches(ctx)
}

// acquire is Queue.contend for a request that keeps.
func (k *keeper) acquire(ctx context.Context, request Request) (*Hold, error) {
	waiter := &caller{call: call{Request: request, ctx: ctx, began: time.Now()}}
	k.mu.Lock()
	turn := k.turn
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
		// Its own attempt: it must not wait behind others of this process. It
		// joins only an empty queue.
		k.mu.Unlock()
		return k.try(waiter)
	case turn != nil:
		waiter.in, waiter.since = turn, waiter.began
		turn.waiting = append(turn.waiting, waiter)
		turn.suspect()
		turn.want()
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
	w.ended(k.queue, err)
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
	case at >= 0 && k.joining.ends(k.next, waiter):
		waiter.last, k.joining.cancelled = true, true
		k.joining.cancel(cause)
		k.mu.Unlock()
		t := <-waiter.got // soon: the attempt ends with its context
		return t, nil
	case at >= 0:
		k.next = slices.Delete(k.next, at, at+1)
		err := unanswered(waiter.ctx, cause, k.queue.client, k.joining.queued)
		k.mu.Unlock()
		return nil, err
	case waiter.in != nil:
		waiter.in.waiting = slices.DeleteFunc(waiter.in.waiting, func(o *caller) bool { return o == waiter })
		k.mu.Unlock()
		return nil, cause
	}
	k.mu.Unlock()
	t := <-waiter.got // it is there
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

// unanswered is the error of a caller that gives up while its join goes on for
// others: the cause, with ErrUnavailable if the service does not answer.
func unanswered(ctx context.Context, cause error, c *engine.Client, queued bool) error {
	inTime := queued || errors.Is(ctx.Err(), context.Canceled)
	if inTime && c.Connected() {
		return cause
	}
	return driver.Wrap(coordinator.ErrUnavailable, cause)
}

// join starts to join the queue for the callers of next, unless that is under
// way. The caller holds k.mu.
func (k *keeper) join() {
	if k.joining != nil || len(k.next) == 0 {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	j := &joining{cancel: cancel}
	k.joining = j
	r := k.next[0].Request
	if !k.queue.client.Go(func() { k.attempt(ctx, j, r) }) {
		cancel(nil)
		k.joined(j, coordinator.ErrClosed, nil) // nobody else can be in next
	}
}

// attempt joins and waits, for whichever callers there are by then.
func (k *keeper) attempt(ctx context.Context, join *joining, request Request) {
	defer join.cancel(nil)
	request.Queued = k.enqueued
	won := k.begin(request)
	defer won.leaveLater() // does nothing, unless an observer panics
	err := won.win(ctx)
	if err == nil {
		k.won(won)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.joined(join, err, won)
}

func (k *keeper) begin(r Request) *attempt {
	r.Payload = k.queue.payload
	i := k.queue.info(r, time.Now())
	i.Retains = true
	return k.queue.attempt(r, i)
}

// joined ends a join that has failed. If it was cancelled, only the caller that
// has cancelled it gets the error: the others came later, and try again. The
// caller holds k.mu.
func (k *keeper) joined(j *joining, err error, left *attempt) {
	k.joining = nil
	all := k.next
	k.next = nil
	for _, w := range all {
		if j.cancelled && !w.last {
			k.next = append(k.next, w)
			continue
		}
		w.err, w.left = err, left
		left = nil // one event ends the one entry
		w.get(nil)
	}
	k.join()
}

// won gives the turn that a join has won to the first caller, and puts the
// others in its local queue.
func (k *keeper) won(won *attempt) {
	turn := k.take(won, true)
	k.mu.Lock()
	k.joining = nil
	all := k.next
	k.next = nil
	for i, w := range all {
		// The join was cancelled too late for its last caller, whose context
		// has ended. It gets the turn only if it need not wait for others.
		if w.last && i > 0 {
			w.err = context.Cause(w.ctx)
			w.get(nil)
			continue
		}
		w.in = turn
		turn.waiting = append(turn.waiting, w)
	}
	k.open(turn)
	k.mu.Unlock()
	// With the local queue in place: if the session has ended, the local queue
	// is sent away.
	turn.begin(turn, won)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case turn.gone:
	case len(turn.waiting) > 0:
		if turn.pop(); len(turn.waiting) > 0 {
			turn.suspect()
		}
	default: // all have given up just now
		turn.depart()
		turn.session.Go(func() { turn.end(turn.session.Context()) })
	}
}

// try is acquire for a Try while there is no turn.
func (k *keeper) try(waiter *caller) (*Hold, error) {
	won := k.begin(waiter.Request)
	defer won.leaveLater() // as in contend
	if err := won.win(waiter.ctx); err != nil {
		waiter.left, waiter.since = won, won.since
		return nil, k.failed(waiter, err)
	}
	k.mu.Lock()
	// Callers that wait for an entry came first: then the turn is passed on.
	open := k.turn == nil && k.joining == nil
	t := k.take(won, open)
	if open {
		k.open(t)
	}
	k.mu.Unlock()
	t.begin(t, won)
	return k.served(t, waiter)
}

// open makes t the turn for callers that come. The caller holds k.mu.
func (k *keeper) open(t *kept) {
	// An operator may have removed the entry of the turn before, which does not
	// know it yet.
	if k.turn != nil {
		k.turn.shut()
	}
	k.turn = t
}

// requeue makes callers wait for another entry, before those that already do:
// they came earlier. The caller holds k.mu.
func (k *keeper) requeue(waiting []*caller) {
	var again []*caller
	for _, w := range waiting {
		if w.last { // its context has ended
			w.err = context.Cause(w.ctx)
			w.get(nil)
			continue
		}
		w.in = nil
		again = append(again, w)
	}
	k.next = append(again, k.next...)
	k.join()
}
