// Package barrier holds back processes until another process opens the barrier.
// Package doublebarrier lets n members enter together and leave together.
//
//	gate, err := barrier.New(client, "import")
//	err = gate.Set(ctx)    // closed
//	...
//	err = gate.Wait(ctx)   // in other processes, until
//	err = gate.Remove(ctx) // opens it
//
// # Guaranteed
//
// A Wait that begins after a Set has returned waits until a Remove. It returns
// even if the barrier is set again at once. Each waiter is woken once. No
// session holds a barrier: it stays closed when clients end, so that the death
// of the process that set it opens nothing.
//
// A waiter whose context ends leaves nothing behind but a watch at the service,
// which ends with the next change. The record of the name stays.
package barrier

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// Barrier is a barrier that the service stores: Barriers with the same name,
// service and namespace are the same barrier. It is open before the first Set.
// It is safe for concurrent use.
type Barrier struct {
	queue *recipes.Queue
}

// New returns the barrier of a name (see [coordinator.CheckName]). It does no
// I/O. The error is coordinator.ErrInvalid, for an invalid name and for a
// client whose queues other libraries share.
func New(c *coordinator.Client, name string) (*Barrier, error) {
	queue, err := recipes.NewQueue(c, "barrier", name)
	if err != nil {
		return nil, err
	}
	return &Barrier{queue}, nil
}

// Name returns the barrier's name.
func (b *Barrier) Name() string { return b.queue.Name() }

// state is the record of a barrier. Changes counts the changes: the barrier is
// set if it is odd. So a client that missed changes knows that there were some.
type state struct {
	Set     bool  `json:"set"`
	Changes int64 `json:"changes"`
}

func decode(r driver.Record, err error) (s state, _ driver.Version, _ error) {
	if err != nil || r.Version == 0 {
		return s, 0, err
	}
	bad := json.Unmarshal(r.Value, &s)
	if bad != nil || s.Changes < 1 || s.Set != (s.Changes%2 == 1) {
		return s, 0, fmt.Errorf("%w: the record at the name is not a barrier's: %.80q",
			coordinator.ErrRefused, r.Value)
	}
	return s, r.Version, nil
}

// Set closes the barrier. If it is closed already, Set does nothing. Errors:
// the cause of ctx, with coordinator.ErrUnavailable if the service did not
// answer; ErrRefused, if the service refuses to write or the record is not that
// of a barrier; ErrClosed. coordinator.MayHaveApplied reports whether it may be
// closed nevertheless; repeat the call.
func (b *Barrier) Set(ctx context.Context) error { return b.change(ctx, "set", true) }

// Remove opens the barrier, and wakes all waiters. If it is open already,
// Remove does nothing. The errors are those of Set.
func (b *Barrier) Remove(ctx context.Context) error { return b.change(ctx, "remove", false) }

// change sends the next change. Each state that it reads is later than the
// start of the call. So if the change that it sent is part of the history, by
// this client or by another, the barrier was in the wanted state meanwhile.
func (b *Barrier) change(ctx context.Context, op string, set bool) error {
	maybe := int64(0) // the change that may have been applied
	for failures := 1; ; failures++ {
		s, version, err := decode(b.queue.LatestRecord(ctx))
		if err == nil {
			if s.Set == set || maybe > 0 && s.Changes >= maybe {
				return nil
			}
			s = state{Set: set, Changes: s.Changes + 1}
			value, _ := json.Marshal(s) // never fails for a number
			err = b.queue.SetRecord(ctx, value, version)
		}
		if coordinator.MayHaveApplied(err) {
			maybe = s.Changes
		}
		switch {
		case err == nil:
			return nil
		case recipes.Overtaken(ctx, err):
			err = recipes.PauseAgain(ctx, b.queue, failures)
		}
		if err != nil {
			if maybe > 0 {
				err = &coordinator.Error{Err: err, Maybe: true}
			}
			return recipes.Describe(ctx, op, b.Name(), err)
		}
	}
}

// Wait blocks until the barrier is open. Errors: the cause of ctx, with
// coordinator.ErrUnavailable if the service did not answer; ErrRefused, if the
// service refuses or the record is not that of a barrier; ErrClosed. It goes on
// after a lost session.
func (b *Barrier) Wait(ctx context.Context) error {
	first, version, err := decode(b.queue.LatestRecord(ctx))
	for s := first; err == nil && first.Set && s.Changes <= first.Changes; {
		s, version, err = decode(b.queue.NextRecord(ctx, version))
		if err == nil && s.Changes < first.Changes { // a new session may show an older record
			s, version, err = decode(b.queue.LatestRecord(ctx))
			if s.Changes < first.Changes { // it was deleted
				first = s
			}
		}
	}
	return recipes.Describe(ctx, "wait", b.Name(), err)
}
