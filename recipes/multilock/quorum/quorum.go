// Package quorum holds a name on a majority of independent services, so that
// the lock outlives the loss of the others.
//
//	q, err := quorum.New(clients, "nightly", quorum.Majority) // of three etcds
//	err = q.Do(ctx, func(ctx context.Context, l *quorum.Lock) error {
//		return report(ctx, l.Sequencers()) // ctx ends when fewer than two of three are held
//	})
//
// One cluster of etcd or ZooKeeper already outlives the loss of a minority of
// its servers, faster and with one token. Use a quorum if a whole cluster may
// fail. It acquires the members one after the other.
//
// # Guaranteed
//
// The members of a hold are the mutexes of the name at the services. Two
// majorities share a member, so no two holds live at once. Each member has the
// loss clock of its session. The context of the hold ends when fewer than need
// are held, before anyone else can hold.
//
// All callers acquire the members in one order, by the identity of the service,
// and wait only for members after those that they hold. So callers with a
// minority each do not deadlock. A service is passed over if it does not answer
// within two seconds, or the session is suspended; and so is one whose queue
// does not move for two seconds, for instance after the death of a holder, if
// enough of those after it are free. The pauses between such trials grow to 30
// s. A caller that cannot get need members releases what it has, and tries
// again within three seconds.
//
// # Tokens
//
// Each member that was held at the grant has a token of its own. Tokens of
// different services cannot be compared, so the holder shows sequencers, which
// name their service: see [Lock.Sequencers]. A resource demands those of a
// majority, and refuses all if one is smaller than the greatest seen of its
// service: two holders share a member. [fence.QuorumGate] does that. Or let it
// compare the token of one agreed service, and refuse holders that have none of
// it: then nobody can work while that service is away.
//
// # Not guaranteed
//
// The services must not share servers or disks. Two namespaces of one cluster
// pass for two services.
//
// The critics of Redlock are right here, too: without tokens, exclusion rests
// on clocks and on stored data. A server clock that is faster than the client's
// by more than the margin, a tenth of the TTL, gives a member away early. So
// does a service that loses its data: keep it away for a TTL first. Its tokens
// may start again; the resource refuses them until it forgets the old ones. A
// stopped process can complete a write when another one holds: only the tokens
// stop that. Unlike Redlock's, a hold is renewed, and waiters are queued.
//
// A lost member is not acquired again during the hold. A holder that dies
// delays the next one for up to the TTL. One that cannot reach a service to
// unlock, or a plain mutex of the name on one service, delays it for some
// seconds.
package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock/internal/held"
	"github.com/baton-go/baton/recipes/multilock/quorum/internal/service"
)

// Majority is the smallest need: more than half of the services.
const Majority = 0

// Quorum is a lock on several services. It remembers for a while which of them
// do not answer, so keep it. It is safe for concurrent use.
type Quorum struct {
	name     string
	need     int
	services []*service.Service
}

// New returns the lock of a name on the services of clients. need is the number
// that must be held: Majority, or any number above half of them. All callers
// must name the same services. Options are those of a mutex without WithRetain
// and WithDeadlockError; lock-delays of the members add up. All members have
// the identity of the first client, unless an option sets another: by it,
// waiters recognize a hold at all services. It does no I/O. The error is
// coordinator.ErrInvalid, also for a client that is given twice, or that shares
// its queues with another library.
func New(
	clients []*coordinator.Client, name string, need int, opts ...recipes.Option,
) (*Quorum, error) {
	m := len(clients)
	need = cmp.Or(need, m/2+1)
	if need <= m/2 || need > m {
		return nil, invalid("quorum %q: need %d of %d services: want a majority, %d to %d, "+
			"since two smaller groups need not share a service", name, need, m, m/2+1, max(m, 1))
	}
	q := &Quorum{name: name, need: need}
	for i, c := range clients {
		if c != nil && (c.Shared() || slices.Contains(clients[:i], c)) {
			return nil, invalid("quorum %q: client %d, %s, is given twice, "+
				"or shares its queues with another library", name, i, c)
		}
		if i == 0 && c != nil {
			opts = append([]recipes.Option{recipes.WithIdentity(c.Identity())}, opts...)
		}
		s, err := service.New(c, name, opts)
		if err != nil {
			return nil, err
		}
		q.services = append(q.services, s)
	}
	return q, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("baton: %w: %w", coordinator.ErrInvalid, fmt.Errorf(format, args...))
}

// Lock waits until the quorum is held. A context that carries its hold
// re-enters. On success the caller must Unlock. On failure nothing is held:
// acquired members, and those whose reply was lost, are released, which may
// take two seconds after the end of ctx, and then continues in the background.
//
// Errors: the cause of ctx, with coordinator.ErrUnavailable if too few services
// answered; and at once ErrClosed, ErrRefused or ErrInvalid, if these errors
// leave fewer than need members. Two clients of one service are ErrInvalid.
func (q *Quorum) Lock(ctx context.Context) (*Lock, error) { return q.acquire(ctx, service.Forever) }

// TryLock is Lock that waits neither for other callers nor longer than a few
// seconds for services. If a member that it needs is held or queued for,
// errors.Is(err, coordinator.ErrTaken) is true. Of several callers that reach
// the same services, the first gets the quorum.
func (q *Quorum) TryLock(ctx context.Context) (*Lock, error) { return q.acquire(ctx, 0) }

// Do locks, calls work, and unlocks, also if work panics. The context of work
// ends when ctx ends or the hold does; work must then return. Do returns the
// error of Lock or of work, joined with the loss or the error of Unlock. Work
// may itself unlock: its context ends, and Do does not unlock again.
func (q *Quorum) Do(ctx context.Context, work func(context.Context, *Lock) error) error {
	if work == nil {
		return invalid("nil work for quorum %q", q.name)
	}
	l, err := q.Lock(ctx)
	if err != nil {
		return err
	}
	return l.holds.Do(ctx, l.Unlock, func(ctx context.Context) error { return work(ctx, l) })
}

// Lock is a handle of a held quorum, safe for concurrent use. Do not copy it.
type Lock struct {
	quorum     *Quorum
	holds      *held.Holds
	sequencers []fence.Sequencer // of the members, written before the grant
	unlocked   atomic.Bool
}

// Context ends when the hold does: when it is unlocked, with
// coordinator.ErrReleased as its cause, or when fewer than need members are
// held. Then the cause names those that were lost. It has the values of Lock's
// ctx, and re-enters the hold. Its Err reads the clock, as [Lock.Err] does.
func (l *Lock) Context() context.Context { return l.holds.Context() }

// Err returns nil while need members are held, by their clocks, and then why
// not. If the machine may have slept it asks the services, up to two seconds.
func (l *Lock) Err() error { return l.holds.Err() }

// Deadline returns the time at which fewer than need members are held if no
// renewal is acknowledged before it: the need-th latest of their deadlines.
func (l *Lock) Deadline() time.Time { return l.holds.Deadline() }

// Held returns how many members are held, by their clocks.
func (l *Lock) Held() int {
	if errors.Is(l.Err(), coordinator.ErrReleased) {
		return 0
	}
	return l.holds.Held()
}

// Sequencers returns those of the members that were held at the grant, each
// with its token and the name of its service, in no order that means anything:
// see [fence.QuorumGate]. They do not change when a member is lost: a stale
// holder must show all that it had.
func (l *Lock) Sequencers() []fence.Sequencer {
	var all []fence.Sequencer
	for i, token := range l.holds.Tokens() {
		if token != 0 {
			all = append(all, l.sequencers[i])
		}
	}
	return all
}

// Unlock releases all members at once, and must be called after a loss, too. It
// waits up to two seconds for the services; then the release continues in the
// background, or the members end with their sessions. The error says why the
// hold was lost before, or that so many members may still be locked that nobody
// else can hold the quorum yet. A second Unlock returns coordinator.ErrNotHeld.
func (l *Lock) Unlock(ctx context.Context) error {
	err := coordinator.ErrNotHeld
	if !l.unlocked.Swap(true) {
		lost := l.holds.Err() // by the clock, until now
		if err = cmp.Or(lost, l.release(ctx)); err == nil {
			return nil
		}
	}
	return &coordinator.Error{Op: "unlock", Name: l.quorum.name, Err: err,
		Maybe: coordinator.MayHaveApplied(err)}
}

// release bounds the release, also of a hold that is not complete.
func (l *Lock) release(ctx context.Context) error {
	bound, cancel := context.WithTimeoutCause(ctx, service.Patience, service.ErrSilent)
	defer cancel()
	had, lost, open := l.holds.Held(), 0, 0
	errs := l.holds.Release(bound)
	for i, err := range errs {
		switch {
		case err == nil:
			continue
		case coordinator.MayHaveApplied(err) || errors.Is(err, coordinator.ErrUnavailable):
			open++
		case l.holds.Holding(i): // and so far nobody had noticed the loss
			lost++
		}
		errs[i] = fmt.Errorf("%s: %w", l.quorum.services[i], err)
	}
	if had-lost < l.quorum.need || open > len(errs)-l.quorum.need {
		return errors.Join(errs...)
	}
	return nil
}
