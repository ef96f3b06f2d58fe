// Package mutex is a fair, reentrant lock between processes.
//
//	m, err := mutex.New(client, "nightly-report")
//	...
//	err = m.Do(ctx, func(ctx context.Context) error {
//		return report(ctx) // ctx ends if the lock is lost
//	})
//
// # Guaranteed
//
// Locks are granted in the order in which the service received the requests. No
// two live sessions hold the lock at the same time: the context of a hold ends
// before the service can grant the lock to another contender. The token rises
// with each grant. If a holder dies, the lock is free after its session's TTL;
// if it closes its client, at once. Goroutines of one process exclude each
// other as processes do.
//
// # Not guaranteed
//
// A process that was stopped (SIGSTOP, a suspended machine) can complete a
// write although another process holds the lock by then. Pass [Lock.Token] to
// the resource, and let it refuse tokens smaller than the greatest it has seen.
// In the process, check [Lock.Err] before each step that matters.
//
// # Reentrancy
//
// The context of a lock, or of the work of Do, carries the hold. Lock with that
// context re-enters without a request. Each Lock needs its own Unlock; the last
// Unlock releases the lock. A call with another context is queued, also in the
// same goroutine.
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

// Mutex is a named lock on a client. It has no state: two Mutexes with the same
// name are the same lock. It is safe for concurrent use.
type Mutex struct {
	queue *recipes.Queue
}

// Option changes a default of a Mutex.
type Option = recipes.Option

// WithIdentity sets the identity in listings. The default is the client's.
func WithIdentity(id string) Option { return recipes.WithIdentity(id) }

// WithPayload adds up to 4096 bytes to the entry in listings.
func WithPayload(b []byte) Option { return recipes.WithPayload(b) }

// WithHoldWarning logs a warning and notifies observers when a lock has been
// held for d. The default is 0: no warning.
func WithHoldWarning(d time.Duration) Option { return recipes.WithHoldWarning(d) }

// WithMaxHold is WithHoldWarning, and also ends the lock's context with the
// cause [recipes.ErrHeldTooLong]. The lock is held until Unlock.
func WithMaxHold(d time.Duration) Option { return recipes.WithMaxHold(d) }

// WithLockDelay keeps the lock free for d, 1 ms to a minute, after a holder is
// lost, so that requests it had already sent arrive before the next grant. All
// users of the name must set it: see [recipes.WithLockDelay].
func WithLockDelay(d time.Duration) Option { return recipes.WithLockDelay(d) }

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

// Lock blocks until the caller holds the mutex. The caller must Unlock it.
//
// On failure nothing is held, and the entry in the queue is removed, in the
// background if necessary. Errors: the cause of ctx, if it ends while the
// caller is queued; coordinator.ErrUnavailable with that cause, if it ends
// while the service does not answer; ErrSessionLost; ErrRemoved; ErrRefused;
// ErrClosed.
func (m *Mutex) Lock(ctx context.Context) (*Lock, error) {
	return m.acquire(ctx, recipes.Request{Op: "lock", Mode: mode})
}

// TryLock is like Lock but does not wait: if the queue is not empty, it returns
// a [*recipes.TakenError], which names the holder and is coordinator.ErrTaken.
// A ZooKeeper server that lags may report a holder that has just released.
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
// error of Lock or of work, joined with the loss of the lock or the error of
// Unlock.
func (m *Mutex) Do(ctx context.Context, work func(context.Context) error) error {
	if work == nil {
		return fmt.Errorf("baton: %w: nil work for mutex %q", coordinator.ErrInvalid, m.Name())
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.hold.Do(ctx, "unlock", work)
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

// Unlock releases the lock. With a ctx that has ended it takes up to 2 s. A
// second call returns coordinator.ErrNotHeld. If the lock was lost before, the
// error is the cause. After any other error the release continues in the
// background.
func (l *Lock) Unlock(ctx context.Context) error {
	return recipes.Describe(context.Background(), "unlock", l.mutex.Name(), l.hold.Release(ctx))
}

// Token returns the fencing token, which is greater than those of all earlier
// grants of the name: see package coordinator/fence. A re-entry has the same.
func (l *Lock) Token() coordinator.Token { return l.hold.Token() }

// Sequencer describes the lock to other processes, which can check it: see
// package coordinator/fence. The first call of a session sends a request. The
// error is that of Err, ErrUnavailable, ErrRefused or the cause of ctx.
func (l *Lock) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := l.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", l.mutex.Name(), err)
}

// Context ends with the lock, before another contender can hold it. Its cause
// is coordinator.ErrReleased, ErrSessionLost, ErrRemoved or ErrClosed. It has
// the values of Lock's ctx, but not its deadline. With re-entries it ends with
// the last Unlock. After a pause of the process its Err reports a loss at once,
// Done when a timer has run.
func (l *Lock) Context() context.Context { return l.hold.Context() }

// Err returns nil while the lock is held, and then why it ended. It reads the
// clock. After the machine may have slept it asks the service, for at most 2 s.
func (l *Lock) Err() error { return l.hold.Err() }

// Revoked blocks until another client asks the holder to release, as Curator's
// Revoker does, and then returns nil. The lock is still held. The error is
// ErrInvalid if the layout is not Curator's, that of Err if the lock ends
// first, or the cause of ctx.
func (l *Lock) Revoked(ctx context.Context) error {
	return recipes.Describe(ctx, "await a revocation", l.mutex.Name(), l.hold.Revoked(ctx))
}

// Session returns the ID of the session that holds.
func (l *Lock) Session() string { return l.hold.Session() }

// Deadline returns when the lock is lost unless the session is renewed.
func (l *Lock) Deadline() time.Time { return l.hold.Deadline() }
