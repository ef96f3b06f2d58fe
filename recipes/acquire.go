package recipes

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Acquire joins the queue and blocks until the rule admits the contender. The
// caller must release the hold. A context that carries a live hold of this
// queue (see [Hold.Context]) re-enters that instead: without a request, with
// the same token.
//
// On failure nothing is held, and the entry is removed, in the background if
// necessary. Errors: a [WaitError] with the cause of ctx, if it ends while the
// contender is queued, and coordinator.ErrUnavailable besides, if the service
// does not answer by then; the cause itself, if it ends before; ErrSessionLost;
// ErrRemoved; ErrRefused; ErrInvalid, for a payload that is too long or a TTL
// that the service does not accept; ErrClosed.
func (q *Queue) Acquire(ctx context.Context, request Request) (*Hold, error) {
	if err := request.check(q.name); err != nil {
		return nil, err
	}
	if len(request.Payload) > MaxPayload {
		return nil, q.describe(ctx, request.Op, engine.Invalid(
			"payload has %d bytes; at most %d are allowed", len(request.Payload), MaxPayload))
	}
	request.Fresh = request.Fresh || q.anew
	hold, err := q.reenter(ctx, &request)
	switch {
	case err != nil:
		return nil, q.describe(ctx, request.Op, err)
	case hold != nil:
		q.client.Observe(event.Event{Kind: event.Reentered, Session: hold.Session(), Op: request.Op,
			Queue: q.id, Token: hold.Token(), Context: ctx})
		return hold, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if hold, err = q.acquire(ctx, request); err != nil {
		return nil, q.failure(ctx, request.Op, err)
	}
	return hold, nil
}

// failure is the error of a call whose attempt failed with err.
func (q *Queue) failure(ctx context.Context, op string, err error) error {
	err = q.describe(ctx, op, err)
	failed, ok := err.(*engine.Error)    //nolint:errorlint // ours
	if !ok || engine.IsCause(ctx, err) { // the cause of ctx is not to be changed
		return err
	}
	failed.Maybe = false // a join without an answer is undone: the caller holds nothing
	if ctx.Err() != nil && engine.Same(failed.Err, context.Cause(ctx)) {
		return failed.Err // as if ctx had ended between two requests
	}
	return err
}

// acquire is Acquire without re-entry.
func (q *Queue) acquire(ctx context.Context, request Request) (*Hold, error) {
	if q.keeper != nil && q.keeper.keeps(ctx, &request) {
		return q.keeper.acquire(ctx, request)
	}
	if q.sharer != nil && q.sharer.shares(ctx, &request) {
		return q.sharer.acquire(ctx, request)
	}
	return q.contend(ctx, request)
}

// contend is acquire with an entry of the caller's own.
func (q *Queue) contend(ctx context.Context, request Request) (*Hold, error) {
	if request.Payload == nil {
		request.Payload = q.payload
	}
	began := time.Now()
	i := q.newInfo(request, began)
	i.Nest = q.outerHolds(ctx, request.Waits)
	a := q.newAttempt(request, i)
	if q.sharer != nil {
		q.sharer.rivalComes(a)
	}
	defer a.leaveLater() // does nothing, unless an observer that is direct panics
	if err := a.win(ctx); err != nil {
		a.observe(ctx, began, event.NotGranted, err)
		return nil, q.explain(ctx, a.Op, a.since, err)
	}
	// Before the hold exists: observers get a grant before its loss.
	a.observe(ctx, began, event.Granted, nil)
	return a.hold(ctx), nil
}
