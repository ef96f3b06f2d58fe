// Package rwlock is a fair, reentrant read-write lock between processes: many
// readers or one writer.
//
//	l, err := rwlock.New(client, "catalogue")
//	...
//	err = l.RDo(ctx, func(ctx context.Context) error { // shared
//		return serve(ctx)
//	})
//	err = l.Do(ctx, func(ctx context.Context) error { // alone
//		return rebuild(ctx)
//	})
//
// # Guaranteed
//
// The lock is fair: a reader waits for the writers ahead of it, a writer for
// all contenders ahead of it, so neither side starves the other. At no moment
// do two live sessions hold it unless both read. The context of a hold ends
// before the service can grant to anyone what the hold excludes. When a holder
// dies, its lock is free after its session's TTL; when it closes its client, at
// once. A writer that releases wakes the readers that it admits or the one
// writer behind it; a reader wakes one writer at most. Every grant has a token;
// a writer's is greater than those of all grants before.
//
// # Not guaranteed
//
// A process that was stopped, by SIGSTOP or a suspended machine, may go on with
// a write that it had begun although another process holds the lock by then.
// Send [Lock.Token] to the resource, and have it refuse smaller tokens than the
// greatest that it has seen. Readers share, and may come in any order: have
// only what is done under the write lock checked, its reads included.
//
// # Reentrancy, downgrade, upgrade
//
// The hold is in the context. RLock(lock.Context()) of a read lock re-enters
// it, Lock(lock.Context()) of a write lock likewise; each handle needs its own
// Unlock.
//
//	w, err := l.Lock(ctx)
//	...                              // write
//	r, err := l.RLock(w.Context())   // no request: w's hold covers it, with the same token
//	err = w.Unlock(ctx)              // readers behind are admitted, writers not
//	...                              // read what was written
//	err = r.Unlock(ctx)
//
// That is a downgrade: between the two nobody else can write. An upgrade is
// refused with [ErrUpgrade]: two readers that both want to write would wait for
// each other for ever. Unlock the read lock, take the write lock, and read
// again what was read.
//
// A call with another context is queued, in the same goroutine too, and can be
// a deadlock that only the end of its context resolves: a writer that reads
// without its context, a reader that locks, and a reader that reads once more
// while a writer waits for it.
package rwlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/recipes"
)

// The kind of the queue, and the modes of its contenders.
const (
	kind    = "rwlock"
	reading = "r"
	writing = "w"
)

// shared is the rule for readers.
var shared = recipes.Shared(reading)

// ErrUpgrade says that the context holds the lock for reading, and the call
// asks for writing. It is a coordinator.ErrInvalid. Unlock the read lock first.
var ErrUpgrade = fmt.Errorf("%w: a read lock cannot become a write lock: unlock it first",
	coordinator.ErrInvalid)

// RWLock is a read-write lock's name on a client. It has no state: two of the
// same name are the same lock. It is safe for concurrent use.
type RWLock struct {
	queue *recipes.Queue
}

// Option changes a default of an RWLock.
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

// New returns the read-write lock of a name (see [coordinator.CheckName]). It
// does no I/O.
func New(c *coordinator.Client, name string, opts ...Option) (*RWLock, error) {
	queue, err := recipes.NewQueue(c, kind, name, opts...)
	if err != nil {
		return nil, err
	}
	if err := recipes.RefuseLockDelay(queue, "read-write lock"); err != nil {
		return nil, err
	}
	return &RWLock{queue: queue}, nil
}

// Name is the lock's name.
func (l *RWLock) Name() string { return l.queue.Name() }

// Lock waits until the lock is held for writing, by the caller alone, in the
// order of asking.
//
// On success the caller has to unlock. On failure nothing is held, and the
// entry in the queue is removed, in the background if need be. Errors: the
// cause of ctx, if it ends while others are ahead; coordinator.ErrUnavailable
// with that cause, if it ends while the service does not answer;
// ErrSessionLost, if the session ends; ErrRemoved, if someone deletes the
// entry; ErrRefused; ErrClosed; [ErrUpgrade].
func (l *RWLock) Lock(ctx context.Context) (*Lock, error) {
	return l.acquire(ctx, recipes.Request{Op: "lock", Mode: writing, Lesser: reading})
}

// TryLock is Lock that does not wait: if anybody holds or waits, it returns a
// [*recipes.TakenError], which says who, and is coordinator.ErrTaken.
// It leaves nothing in the queue and wakes nobody.
func (l *RWLock) TryLock(ctx context.Context) (*Lock, error) {
	return l.acquire(ctx, recipes.Request{Op: "try-lock", Mode: writing, Lesser: reading, Try: true})
}

// RLock waits until the lock is held for reading, together with other readers:
// until all writers ahead have left. Given the context of a write lock it
// returns at once, see the package's comment. Everything else is as with
// [RWLock.Lock].
func (l *RWLock) RLock(ctx context.Context) (*Lock, error) {
	return l.acquire(ctx, recipes.Request{Op: "read-lock", Mode: reading, Rule: shared})
}

// TryRLock is RLock that does not wait: if a writer holds or waits it returns a
// [*recipes.TakenError], which says who is first in the queue, and is
// coordinator.ErrTaken. It reads the queue before it joins it, so that a call
// which fails has left nothing and woken nobody, unless a writer joined
// between.
func (l *RWLock) TryRLock(ctx context.Context) (*Lock, error) {
	return l.acquire(ctx, recipes.Request{Op: "try-read-lock", Mode: reading, Rule: shared, Try: true})
}

func (l *RWLock) acquire(ctx context.Context, r recipes.Request) (*Lock, error) {
	h, err := l.queue.Acquire(ctx, r)
	if errors.Is(err, recipes.ErrOtherMode) && ctx.Err() == nil {
		err = &coordinator.Error{Op: r.Op, Name: l.Name(), Err: ErrUpgrade}
	}
	if err != nil {
		return nil, err
	}
	return &Lock{hold: h, lock: l, writer: r.Mode == writing}, nil
}

// Do locks for writing, runs work, and unlocks, also when work panics. The
// context of work ends when ctx does or when the lock is lost; work must return
// soon after. Do returns the error of Lock, or that of work, with the loss of
// the lock or a failed Unlock joined to it.
func (l *RWLock) Do(ctx context.Context, work func(context.Context) error) error {
	return l.do(ctx, l.Lock, work)
}

// RDo is Do for reading.
func (l *RWLock) RDo(ctx context.Context, work func(context.Context) error) error {
	return l.do(ctx, l.RLock, work)
}

func (l *RWLock) do(
	ctx context.Context, lock func(context.Context) (*Lock, error),
	work func(context.Context) error,
) error {
	if work == nil {
		return fmt.Errorf("baton: %w: nil work for read-write lock %q",
			coordinator.ErrInvalid, l.Name())
	}
	h, err := lock(ctx)
	if err != nil {
		return err
	}
	return h.hold.Do(ctx, "unlock", work)
}

// Contender is a reader or writer, holding or waiting.
type Contender struct {
	recipes.Contender
	// Writer: it asks for, or has, the lock for writing. After a downgrade it
	// is a reader.
	Writer bool
}

// Contenders returns all readers and writers in order, holding or waiting, as
// the service showed them at one moment.
func (l *RWLock) Contenders(ctx context.Context) ([]Contender, error) {
	list, err := l.queue.List(ctx, func(mode string) recipes.Rule {
		if mode == reading {
			return shared
		}
		return recipes.Exclusive
	})
	if err != nil {
		return nil, err
	}
	all := make([]Contender, len(list))
	for i, c := range list {
		all[i] = Contender{Contender: c, Writer: c.Mode != reading}
	}
	return all, nil
}

// Lock is a held read or write lock: a handle that is unlocked once. It is safe
// for concurrent use, and must not be copied.
type Lock struct {
	hold   *recipes.Hold
	lock   *RWLock
	writer bool
}

// Unlock releases the lock, and the next contenders are admitted. It works with
// a ctx that has ended. When it is the last write handle of a hold that has
// read handles too, the hold goes on for reading.
//
// A second Unlock returns coordinator.ErrNotHeld and changes nothing. When the
// lock was lost before, the error says why. After any other error the release
// goes on in the background.
func (l *Lock) Unlock(ctx context.Context) error {
	return recipes.Describe(context.Background(), "unlock", l.lock.Name(), l.hold.Release(ctx))
}

// Writer reports whether this handle is a write lock.
func (l *Lock) Writer() bool { return l.writer }

// Token is the fencing token of this grant. A writer's is strictly greater than
// those of all grants of this name that had ended before it began. Readers have
// theirs in the order of asking, which need not be that of their grants: one
// may be smaller than that of a reader who came and left meanwhile. Re-entering
// gives the same token, and so does reading within a write lock.
func (l *Lock) Token() coordinator.Token { return l.hold.Token() }

// Sequencer describes this lock so that any process can check it: see package
// coordinator/fence. A downgrade ends it; after that, ask again. It costs
// nothing, but for the first of a session, which reads the identity of the
// service. When the lock is over the error says why, as Err does.
func (l *Lock) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := l.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", l.lock.Name(), err)
}

// Context ends when the lock does, with the cause (coordinator.ErrReleased,
// ErrSessionLost, ErrRemoved, ErrClosed), and before anyone that it excludes
// can hold it. It has the values of the context given to the call that made the
// lock, but not its deadline. Given to a call on the same lock, it re-enters.
// After re-entering, it ends when the last handle of the same kind, read or
// write, is unlocked.
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
	return recipes.Describe(ctx, "await a revocation", l.lock.Name(), l.hold.Revoked(ctx))
}

// Session is the ID of the session that holds, as Contenders shows it.
func (l *Lock) Session() string { return l.hold.Session() }

// Deadline is when the lock is lost unless the session is renewed before. Every
// renewal moves it on. It has a monotonic clock reading.
func (l *Lock) Deadline() time.Time { return l.hold.Deadline() }
