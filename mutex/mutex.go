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
// Locks are granted in the order of joining the queue. At no moment do two live
// sessions hold the lock, and the context of a hold ends before the service can
// grant the lock to anyone else. When a holder dies, the lock is free after its
// session's TTL; when it closes its client, at once. A release wakes one
// waiter. Tokens rise with every grant. Goroutines of one process exclude each
// other like processes do.
//
// # Not guaranteed
//
// A process that was stopped, by SIGSTOP or a suspended machine, may go on with
// a write that it had begun although another process holds the lock by then.
// Send [Lock.Token] to the resource, and have it refuse smaller tokens than the
// greatest it has seen; in the process, check [Lock.Err] before each step that
// matters.
//
// # Reentrancy
//
// The hold is in the context: m.Lock(lock.Context()) re-enters, without a
// request, and so does m.Lock(ctx) within Do. Each Lock needs its own Unlock;
// the last one releases the lock. A call with another context is queued, in the
// same goroutine too.
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

// Mutex is a lock's name on a client. It has no state: two of the same name are
// the same lock. It is safe for concurrent use.
type Mutex struct {
	queue *recipes.Queue
}

// Option changes a default of a Mutex.
type Option = recipes.Option

// WithIdentity sets who holds or waits in listings: the client's identity by
// default.
func WithIdentity(id string) Option { return recipes.WithIdentity(id) }

// WithPayload adds up to 4096 bytes to what listings show of the holder or
// waiter.
func WithPayload(b []byte) Option { return recipes.WithPayload(b) }

// WithHoldWarning logs a warning and notifies observers when a lock has been
// held for d. Zero is the default: no warning.
func WithHoldWarning(d time.Duration) Option { return recipes.WithHoldWarning(d) }

// WithMaxHold is WithHoldWarning, and also ends the lock's context; the lock is
// still held until Unlock. See [recipes.WithMaxHold].
func WithMaxHold(d time.Duration) Option { return recipes.WithMaxHold(d) }

// WithLockDelay keeps the lock free for d, 1 ms to a minute, after its holder's
// session is lost, so that requests the holder had already sent arrive before
// anyone else acquires it. All users of the name give the option. See
// [recipes.WithLockDelay] for its cost.
func WithLockDelay(d time.Duration) Option { return recipes.WithLockDelay(d) }

// New returns the mutex of a name (see [coordinator.CheckName]). It does no
// I/O.
func New(c *coordinator.Client, name string, opts ...Option) (*Mutex, error) {
	queue, err := recipes.NewQueue(c, kind, name, opts...)
	if err != nil {
		return nil, err
	}
	return &Mutex{queue: queue}, nil
}

// Name is the mutex's name.
func (m *Mutex) Name() string { return m.queue.Name() }

// Lock waits until the mutex is held, in the order of asking.
//
// On success the caller has to unlock. On failure nothing is held, and the
// entry in the queue is removed, in the background if need be. Errors: the
// cause of ctx, if it ends while others are ahead; coordinator.ErrUnavailable
// with that cause, if it ends while the service does not answer;
// ErrSessionLost, if the session ends; ErrRemoved, if someone deletes the
// entry; ErrRefused; ErrClosed.
func (m *Mutex) Lock(ctx context.Context) (*Lock, error) {
	return m.acquire(ctx, recipes.Request{Op: "lock", Mode: mode})
}

// TryLock is Lock that does not wait: if somebody holds or waits, it returns a
// [*recipes.TakenError], which says who, and is coordinator.ErrTaken. It leaves
// nothing in the queue and wakes nobody. On ZooKeeper a follower that lags may
// still show a holder that has just released.
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

// Do locks, runs work, and unlocks, also when work panics. The context of work
// ends when ctx does or when the lock is lost; work must return soon after. Do
// returns the error of Lock, or that of work, with the loss of the lock or a
// failed Unlock joined to it.
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

// Contenders returns the holder and the waiters in order, as the service showed
// them at one moment; it is empty when nobody holds.
func (m *Mutex) Contenders(ctx context.Context) ([]recipes.Contender, error) {
	return m.queue.List(ctx, func(string) recipes.Rule { return recipes.Exclusive })
}

// Lock is a held mutex: a handle that is unlocked once. It is safe for
// concurrent use, and must not be copied.
type Lock struct {
	hold  *recipes.Hold
	mutex *Mutex
}

// Unlock releases the lock, and the next contender is admitted. It works with a
// ctx that has ended.
//
// A second Unlock returns coordinator.ErrNotHeld and changes nothing. When the
// lock was lost before, the error says why. After any other error the release
// goes on in the background.
func (l *Lock) Unlock(ctx context.Context) error {
	return recipes.Describe(context.Background(), "unlock", l.mutex.Name(), l.hold.Release(ctx))
}

// Token is the fencing token of this grant: strictly greater than those of all
// earlier grants of this name. Re-entering gives the same token.
func (l *Lock) Token() coordinator.Token { return l.hold.Token() }

// Sequencer describes this lock so that any process can check it: see package
// coordinator/fence. It costs nothing, but for the first of a session, which
// reads the identity of the service. When the lock is over the error says why,
// as Err does. Other errors: ErrUnavailable, ErrRefused, the cause of ctx.
func (l *Lock) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := l.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", l.mutex.Name(), err)
}

// Context ends when the lock does, with the cause (coordinator.ErrReleased,
// ErrSessionLost, ErrRemoved, ErrClosed), and before anyone else can hold it.
// It has the values of the context given to Lock, but not its deadline. Given
// to Lock of the same mutex, it re-enters. After re-entering, it ends when the
// last handle is unlocked.
func (l *Lock) Context() context.Context { return l.hold.Context() }

// Err returns nil while the lock is held, by the clock, and then why it is not.
// When the machine may have slept it asks the service first, for two seconds at
// most.
func (l *Lock) Err() error { return l.hold.Err() }

// Revoked waits until another client asks the holder to release, as Curator's
// Revoker does on a client with that layout, and then returns nil. The lock is
// still held; the holder decides. The error is ErrInvalid where no client can
// ask, why the lock ended if it does so first, and else the cause of ctx.
func (l *Lock) Revoked(ctx context.Context) error {
	return recipes.Describe(ctx, "await a revocation", l.mutex.Name(), l.hold.Revoked(ctx))
}

// Session is the ID of the session that holds, as Contenders shows it.
func (l *Lock) Session() string { return l.hold.Session() }

// Deadline is when the lock is lost unless the session is renewed before. Every
// renewal moves it on. It has a monotonic clock reading.
func (l *Lock) Deadline() time.Time { return l.hold.Deadline() }
