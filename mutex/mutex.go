// Package mutex is a fair, reentrant lock between processes.
//
//	m, err := mutex.New(client, "nightly-report")
//	...
//	err = m.Do(ctx, func(ctx context.Context, l *mutex.Lock) error {
//		return report(ctx, l.Token()) // ctx ends if the lock is lost
//	})
//
// # Guaranteed
//
// Locks are granted in the order in which the service received the requests,
// also among goroutines of one process. The token rises with each grant. No two
// live sessions hold the lock at the same time: the context of a lost lock ends
// before another contender can hold the lock. [WithRetain] changes the order
// and the tokens within a process.
//
// If a holder's process dies, the next contender gets the lock after the TTL,
// plus up to 0.5 s on etcd or one tick (2 s by default) on ZooKeeper.
// After Client.Close it gets the lock at once. A lock-delay is added to both.
//
// # Not guaranteed
//
// A process that was stopped (SIGSTOP, a suspended machine) can complete a
// write although another process holds the lock by then. Pass [Lock.Token] to
// the resource, and let it refuse every token smaller than the greatest it has
// seen. In the process, check [Lock.Err] before each step that matters. If an
// operator removes the holder's entry or ends its session, another contender
// may hold the lock just before the holder's context ends.
//
// # Reentrancy
//
// The context of a lock, or of the work of Do, carries the lock. Lock with that
// context re-enters without a request, also in other goroutines, which then run
// at the same time. Each Lock needs its own Unlock; the last one releases. A
// goroutine that holds the lock and calls Lock with another context waits for
// itself, until that context ends. After a TTL a warning in the log says that
// the call waits for a hold of this process. With [WithoutReentry] every Lock
// waits.
//
// # Locks within locks
//
// A lock that is taken with the context of another hold, of any recipe, also
// ends its context when that hold is lost, with the cause of the loss. So work
// with the context of the inner lock does not run on without the outer one. The
// inner lock stays until Unlock, and its Err is nil. The release of the outer
// hold changes nothing.
//
// # Deadlocks
//
// Callers that take locks within locks, in different orders, may wait for each
// other for ever. If each passes the context of its hold, those that wait for
// ten seconds notice it, also over several services: they log a warning with
// the names, identities and tokens of all, and notify observers
// (event.Deadlocked). With [WithDeadlockError] the youngest gives up. See
// docs/concepts.md for what is not noticed.
package mutex

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/recipes"
)

// The kind of a mutex's queue, and the mode of its contenders.
const (
	kind = "mutex"
	mode = "x"
)

// Mutex is a lock that the service stores: Mutexes with the same name, service
// and namespace are the same lock. It is safe for concurrent use.
type Mutex struct {
	queue *recipes.Queue
}

// Option changes a default of a Mutex.
type Option = recipes.Option

// WithIdentity changes the identity in listings: see [recipes.WithIdentity].
func WithIdentity(id string) Option { return recipes.WithIdentity(id) }

// WithPayload adds up to 4096 bytes that Contenders and `baton inspect` show.
func WithPayload(b []byte) Option { return recipes.WithPayload(b) }

// WithHoldWarning warns of long holds: see [recipes.WithHoldWarning].
func WithHoldWarning(d time.Duration) Option { return recipes.WithHoldWarning(d) }

// WithMaxHold warns after d as WithHoldWarning does, and also ends the lock's
// context with the cause [recipes.ErrHeldTooLong]. It does not release the
// lock: until Unlock it is held, and Lock.Err returns nil.
func WithMaxHold(d time.Duration) Option { return recipes.WithMaxHold(d) }

// WithLockDelay delays the next grant by d, 1 ms to a minute, after a holder
// was lost: its session ended, its entry was removed, or its client was closed
// before the release. Requests that the holder had already sent can arrive in
// that time. All users of the name must set it: see [recipes.WithLockDelay].
func WithLockDelay(d time.Duration) Option { return recipes.WithLockDelay(d) }

// WithoutReentry makes each Lock wait in the queue, also with the context of a
// lock: see [recipes.WithoutReentry].
func WithoutReentry() Option { return recipes.WithoutReentry() }

// WithRetain keeps the name for up to d after Unlock, until another client
// queues for it. Meanwhile Lock needs no request, and goroutines that use this
// Mutex lock one after the other without the service. All locks of that time
// have the same token. See [recipes.WithRetain] for the order, the price, and
// what a killed process leaves behind.
func WithRetain(d time.Duration) Option { return recipes.WithRetain(d) }

// WithDeadlockError makes Lock return recipes.ErrDeadlock if it is part of a
// deadlock and the youngest in it: see [recipes.WithDeadlockError].
func WithDeadlockError() Option { return recipes.WithDeadlockError() }

// New returns the mutex of a name (see [coordinator.CheckName]). It does no
// I/O. The error is coordinator.ErrInvalid.
func New(c *coordinator.Client, name string, opts ...Option) (*Mutex, error) {
	queue, err := recipes.NewQueue(c, kind, name, opts...)
	if err != nil {
		return nil, err
	}
	return &Mutex{queue: queue}, nil
}

// Name returns the mutex's name.
func (m *Mutex) Name() string { return m.queue.Name() }

// Lock blocks until the caller holds the mutex. The caller must Unlock it. On
// failure nothing is held, and the call's entry is removed, in the background
// if necessary. Errors: the cause of ctx, in a [recipes.WaitError] if the call
// was queued, and with coordinator.ErrUnavailable if the service did not
// answer; ErrSessionLost; ErrRemoved; ErrRefused;
// ErrClosed; ErrInvalid, if the service does not accept the TTL.
func (m *Mutex) Lock(ctx context.Context) (*Lock, error) {
	return m.acquire(ctx, recipes.Request{Op: "lock", Mode: mode, Waits: recipes.WaitsForAll})
}

// TryLock is like Lock, but does not wait for other contenders. It still waits
// for the service's answer until ctx ends. Unless ctx carries the lock and the
// call re-enters, it returns a [*recipes.TakenError] if the queue is not empty,
// or during a lock-delay. It names the holder, or says how long the lock-delay
// lasts; errors.Is(err, coordinator.ErrTaken) is true. On ZooKeeper it may fail
// just after a release, if the server is behind the others.
func (m *Mutex) TryLock(ctx context.Context) (*Lock, error) {
	return m.acquire(ctx, recipes.Request{Op: "try-lock", Mode: mode, Try: true})
}

func (m *Mutex) acquire(ctx context.Context, r recipes.Request) (*Lock, error) {
	h, err := m.queue.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return &Lock{hold: h, mutex: m}, nil
}

// Do locks, calls work, and unlocks, also if work panics. The context of work
// ends when ctx ends or the lock is lost; work must then return. Do returns the
// error of Lock or of work, joined with the loss or the error of Unlock. Work
// may itself unlock: Do does not unlock again, and the context of work ends,
// unless it was a re-entry.
func (m *Mutex) Do(ctx context.Context, work func(context.Context, *Lock) error) error {
	if work == nil {
		return fmt.Errorf("baton: %w: nil work for mutex %q", coordinator.ErrInvalid, m.Name())
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.hold.Do(ctx, "unlock", func(ctx context.Context) error { return work(ctx, l) })
}

// Contenders returns a snapshot of the queue: the holder, then the waiters.
func (m *Mutex) Contenders(ctx context.Context) ([]recipes.Contender, error) {
	return m.queue.List(ctx, func(string) recipes.Rule { return recipes.Exclusive })
}

// Lock is a handle of a held mutex. It is safe for concurrent use, and must not
// be copied.
type Lock struct {
	hold  *recipes.Hold
	mutex *Mutex
}

// Unlock releases the lock. If the lock was lost before, Unlock returns why:
// coordinator.ErrSessionLost, ErrRemoved or ErrClosed. It returns ErrNotHeld if
// Unlock was called before, or if the entry was deleted and the lock had not
// noticed it. After any other error it continues in the background. If ctx has
// already ended, Unlock tries for up to two seconds.
func (l *Lock) Unlock(ctx context.Context) error {
	return recipes.Describe(context.Background(), "unlock", l.mutex.Name(), l.hold.Release(ctx))
}

// Token returns the fencing token: see package coordinator/fence. It is greater
// than those of all earlier grants of the name, unless the service lost its
// data or a backup was restored. A re-entry has the same token, and so have the
// locks of a turn that was kept: see [WithRetain].
func (l *Lock) Token() coordinator.Token { return l.hold.Token() }

// Sequencer returns the token with the name and service of the lock, for
// another process to check: see package coordinator/fence. The first call of a
// session asks the service. If the lock is over, the error is that of Err. The
// error is ErrInvalid in another layout, whose clients' entries prove nothing
// to [coordinator.Client.Check]; the token is valid.
func (l *Lock) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := l.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", l.mutex.Name(), err)
}

// Context ends when the lock is over; after re-entries, with the last Unlock.
// Unless an operator ended the lock, it ends before another contender can hold
// it. The cause is coordinator.ErrReleased, ErrSessionLost, ErrRemoved or
// ErrClosed, or [recipes.ErrHeldTooLong] (see WithMaxHold); or why the hold was
// lost whose context was Lock's ctx. It has the values of Lock's ctx, but does
// not end with that ctx; the context that Do gives to work ends with Do's ctx,
// too. Its Err reads the clock, as [Lock.Err] does: right after a pause it may
// report a loss that Done does not show yet.
func (l *Lock) Context() context.Context { return l.hold.Context() }

// Err returns nil while this handle holds the lock, and then why it ended. It
// compares the deadline with the clock, so it reports a loss right after a
// pause. If the machine may have slept it asks the service, for up to two
// seconds; without an answer the lock counts as lost.
func (l *Lock) Err() error { return l.hold.Err() }

// Wanted blocks until another contender, of any client, is queued behind the
// lock, and then returns nil: for work that gives way. The lock stays held. A
// contender that left before it was seen does not count. If the lock ends
// first, the error is that of Err; it is the cause of ctx if that ends first.
//
// Waiting calls share one watch of the queue, which the service sends; a
// service that cannot watch a queue (SQL, Redis, the layouts of other clients)
// is read once a second. With layout=curator Wanted also returns nil when
// Curator's Revoker asks for the lock.
func (l *Lock) Wanted(ctx context.Context) error {
	return recipes.Describe(ctx, "await a contender", l.mutex.Name(), l.hold.Wanted(ctx))
}

// Session returns the ID of the session that holds.
func (l *Lock) Session() string { return l.hold.Session() }

// Deadline returns the time at which the session counts as lost if no renewal
// is acknowledged before it.
func (l *Lock) Deadline() time.Time { return l.hold.Deadline() }
