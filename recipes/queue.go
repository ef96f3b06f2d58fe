package recipes

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// Queue is the wait queue of one name. Who is in it is stored at the service.
// Two Queues of one name have the same contenders, but each has kept and shared
// turns of its own. It is safe for concurrent use.
type Queue struct {
	options
	client  *engine.Client
	name    string
	kind    string
	id      driver.Queue  // at the service
	key     any           // a holdKey
	foreign driver.Sharer // nil, unless other clients use the queue too

	keeper  *keeper // nil without WithRetain
	sharer  *sharer // nil without WithSharedTurns
	vacancy vacancy
	// the token of the latest hold of which a caller of this Queue was warned
	// that it may wait for itself; see attempt.suspectOwn
	suspected atomic.Int64
	record    atomic.Pointer[lastRecord] // the latest that was read or written; see Terms
}

// lastRecord is a record that a session has read or written. Another session
// does not trust it: after a loss of data versions begin anew, so that the
// version may be that of another record.
type lastRecord struct {
	driver.Record
	by *engine.Session
}

// NewQueue returns the queue of a recipe's kind and a name. It does no I/O.
func NewQueue(client *coordinator.Client, kind, name string, opts ...Option) (*Queue, error) {
	if client == nil {
		return nil, engine.Invalid("nil client")
	}
	queue := &Queue{client: engine.Of(client), name: name, kind: kind}
	for _, o := range opts {
		if o == nil {
			return nil, engine.Invalid("nil option for %s %q", kind, name)
		}
		o(&queue.options)
	}
	if queue.identity == "" {
		queue.identity = client.Identity()
	}
	var err error
	if queue.id, err = queue.client.Queue(kind, name); err != nil {
		return nil, err
	}
	if err := queue.check(name); err != nil {
		return nil, err
	}
	queue.key, queue.foreign = holdKey{queue.client, queue.id}, queue.client.Sharer()
	if queue.delay != 0 && queue.foreign != nil {
		return nil, engine.Invalid("lock-delay %v for %q: "+
			"the other clients of a shared queue ignore it", queue.delay, name)
	}
	if _, err := queue.encode(info{Identity: queue.identity, Payload: queue.payload}); err != nil {
		return nil, err
	}
	if queue.retains {
		if queue.foreign != nil {
			return nil, engine.Invalid("retention of %v for %q: the other clients of a shared "+
				"queue do not know it", queue.retain, name)
		}
		queue.keeper = &keeper{queue: queue}
	}
	if queue.shares {
		if queue.retains {
			return nil, engine.Invalid("retention of %v for %q: its turns cannot be shared as well",
				queue.retain, name)
		}
		queue.sharer = &sharer{queue: queue}
	}
	queue.client.Observe(event.Event{Kind: event.Created, Queue: queue.id})
	return queue, nil
}

// Name returns the name given to NewQueue.
func (q *Queue) Name() string { return q.name }

// describe adds the operation and the name to an error that lacks them.
func (q *Queue) describe(ctx context.Context, op string, err error) error {
	taken, ok := err.(*TakenError) //nolint:errorlint // ours, not one in ctx's cause
	if ok && taken.Name == q.name && taken.Op == op {
		return taken
	}
	return engine.Describe(ctx, op, q.name, err)
}

// PauseAgain waits before a step is repeated that has failed n times, one after
// the other: after a write for which [Overtaken] holds, or a lost session. It
// waits for a random time: up to 5 ms for the first, and up to 1.28 s after the
// ninth. If ctx ends first, it returns the cause.
//
// Without it, writers that compete would fail together again, and a service
// that fails at once would get as many requests as it can answer.
func PauseAgain(ctx context.Context, q *Queue, n int) error { return q.client.PauseAgain(ctx, n) }

// List returns all contenders in order. Those admitted by the rule of their
// mode are holders.
func (q *Queue) List(ctx context.Context, rule func(mode string) Rule) ([]Contender, error) {
	var entries []driver.Entry
	err := q.client.OnSession(ctx, func(s *engine.Session) (err error) {
		entries, err = s.List(ctx, q.id, 0)
		return err
	})
	if err != nil {
		return nil, engine.Describe(ctx, "list", q.name, err)
	}
	all := make([]driver.Place, len(entries))
	list := make([]Contender, len(entries))
	for i, e := range entries {
		all[i], list[i] = e.Place, q.contender(e)
		list[i].Holding = rule(e.Mode)(all[:i]).Admitted
	}
	return list, nil
}

// Describe gives err the operation and the name that the recipe's user knows,
// in place of those of the failed step. It returns nil and the cause of ctx
// unchanged.
func Describe(ctx context.Context, op, name string, err error) error {
	return engine.Describe(ctx, op, name, err)
}

// encode returns the value of an entry. On a queue shared with other clients it
// has their format.
func (q *Queue) encode(i info) ([]byte, error) {
	if q.foreign == nil {
		b, _ := json.Marshal(i) // never fails for strings, bytes and the present time
		return b, nil
	}
	b, err := q.foreign.SharedValue(q.kind, i.Identity, i.Payload)
	if err != nil {
		return nil, fmt.Errorf("baton: %s %q: %w", q.kind, q.name, err)
	}
	return b, nil
}

// contender decodes an entry. A foreign value becomes the payload, and identity
// and time stay empty. A value whose identity breaks the rule of WithIdentity
// is foreign: otherwise a program that may write to the queue could put lines
// and terminal commands into the logs of all that show it.
func (q *Queue) contender(e driver.Entry) Contender {
	c := Contender{Token: e.Token, Session: e.Session, ID: e.ID, Key: e.Key, Mode: e.Mode,
		Stray: e.Stray}
	var i info
	if q.foreign != nil || json.Unmarshal(e.Value, &i) != nil || engine.CheckIdentity(i.Identity) != nil {
		c.Payload = e.Value
		return c
	}
	c.Identity, c.Since, c.Payload, c.Retains = i.Identity, i.Since, i.Payload, i.Retains
	if n := i.Nest.checked(); n != nil {
		c.Under, c.UnderLeftOut = n.Under, n.LeftOut
	}
	return c
}

// Reenters reports whether a context that carries a hold of the queue re-enters
// it: it does not with WithoutReentry.
func (q *Queue) Reenters() bool { return !q.anew }

// RefuseLockDelay returns an error if the queue has a lock-delay. It is for
// recipes whose holders do not exclude each other.
func RefuseLockDelay(q *Queue, recipe string) error {
	if q.delay == 0 {
		return nil
	}
	return engine.Invalid("lock-delay %v for %s %q: only a mutex and an election have one",
		q.delay, recipe, q.name)
}

// RefuseRetain returns an error if the queue keeps turns. It is for recipes
// whose contenders are not equal, so that none can take another's turn.
func RefuseRetain(q *Queue, recipe string) error {
	if q.keeper == nil {
		return nil
	}
	return engine.Invalid("retention of %v for %s %q: only a mutex has one", q.retain, recipe, q.name)
}

// RefuseDeadlockError returns an error if the queue has the option
// WithDeadlockError. It is for recipes that wait for one of several holders, or
// whose callers do not wait.
func RefuseDeadlockError(q *Queue, recipe string) error {
	if !q.yields {
		return nil
	}
	return engine.Invalid("an error for deadlocks of %s %q: only a mutex and a read-write lock have one",
		recipe, q.name)
}

// RefuseMaxHold returns an error if the queue has a longest hold. It is for
// recipes whose holds have no end that their users choose.
func RefuseMaxHold(q *Queue, recipe string) error {
	if q.maxHold == 0 {
		return nil
	}
	return engine.Invalid("longest hold %v for %s %q: only a mutex, a read-write lock and a "+
		"semaphore have one", q.maxHold, recipe, q.name)
}
