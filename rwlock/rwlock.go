// Package rwlock is a fair, reentrant read-write lock between processes: many
// readers or one writer.
//
//	l, err := rwlock.New(client, "catalogue")
//	...
//	err = l.RDo(ctx, func(ctx context.Context, r *rwlock.Lock) error { // for reading
//		return serve(ctx)
//	})
//	err = l.Do(ctx, func(ctx context.Context, w *rwlock.Lock) error { // for writing
//		return rebuild(ctx, w.Token())
//	})
//
// # Guaranteed
//
// A reader waits for the writers ahead of it in the queue, a writer for all
// contenders ahead of it, so neither starves the other. A writer's token is
// greater than those of all earlier grants. No two live sessions hold the lock
// at the same time unless both read: the context of a lost lock ends before a
// contender that it excludes can hold the lock.
//
// If a holder's process dies, the next contender gets the lock after the TTL,
// plus up to 0.5 s on etcd or one tick (2 s by default) on ZooKeeper.
// Client.Close frees it at once.
//
// # Not guaranteed
//
// A process that was stopped (SIGSTOP, a suspended machine) can complete a
// write although another process holds the lock by then. Pass [Lock.Token] to
// the resource with each access under the write lock, reads included, and let
// it refuse every token smaller than the greatest it has seen. Do not check the
// tokens of readers, which are not ordered.
//
// If an operator removes the holder's entry or ends its session, another
// contender may hold the lock just before the holder's context ends.
//
// # Reentrancy, downgrade, upgrade
//
// The context of a lock carries the lock. RLock with the context of a read lock
// re-enters it, as does Lock with the context of a write lock, also in other
// goroutines, which then run at the same time. Each handle needs its own
// Unlock. RLock within a write lock is the first step of a downgrade, during
// which no other writer can be admitted:
//
//	w, err := l.Lock(ctx)
//	...                              // write
//	r, err := l.RLock(w.Context())   // no request, the same token
//	err = w.Unlock(ctx)              // admits readers behind, but no writer
//	...                              // read what was written
//	err = r.Unlock(ctx)
//
// An upgrade returns [ErrUpgrade], since two readers that both want to write
// would wait for each other for ever. Unlock the read lock, take the write
// lock, and read again.
//
// A call with another context is queued, also in the same goroutine. In these
// cases the goroutine waits for itself, until that context ends: a writer that
// reads or writes, a reader that writes, and a reader that reads again while a
// writer waits.
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
// Read-write locks within other locks can wait for each other for ever, too:
// see package mutex, which also says what [WithDeadlockError] does.
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

// ErrUpgrade means that Lock was called with the context of a read lock:
// errors.Is(err, coordinator.ErrInvalid) is true. Unlock the read lock first.
var ErrUpgrade = fmt.Errorf("%w: a read lock cannot become a write lock: unlock it first",
	coordinator.ErrInvalid)

// RWLock is a lock that the service stores: RWLocks with the same name, service
// and namespace are the same lock. It is safe for concurrent use.
type RWLock struct {
	queue *recipes.Queue
}

// Option changes a default of an RWLock.
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

// WithoutReentry makes each call wait in the queue, also with the context of a
// lock: see [recipes.WithoutReentry]. Then there is no downgrade, and an
// upgrade waits for itself.
func WithoutReentry() Option { return recipes.WithoutReentry() }

// WithSharedReads makes the readers that use this RWLock share one entry of the
// queue: while one of them holds or waits for the lock, the others need no
// request. It is for names that many goroutines of a process read at the same
// time. The default is an entry for each.
//
// Writers are not starved: once a writer that waits is seen, readers that come
// later queue behind it. A writer of this RWLock is seen at its call, or if the
// entry of the readers is on its way then, when both have joined; others by a
// watch of the queue, which begins with the second reader that shares. So a
// writer in another process is overtaken only by readers that came before the
// watch has shown it: the second one of an entry, and those that come in the
// round trip or two that the watch takes.
//
// Readers that share have the same token, also one that comes after a reader in
// another process has got a greater one. If an operator removes the entry, each
// of them loses the lock. A service that cannot watch a queue (SQL, Redis, the
// layouts of other clients) ignores the option.
func WithSharedReads() Option { return recipes.WithSharedTurns() }

// WithDeadlockError makes Lock and RLock return recipes.ErrDeadlock in a
// deadlock, if they are the youngest: see [recipes.WithDeadlockError].
func WithDeadlockError() Option { return recipes.WithDeadlockError() }

// New returns the read-write lock of a name (see [coordinator.CheckName]). It
// does no I/O. The error is coordinator.ErrInvalid.
func New(c *coordinator.Client, name string, opts ...Option) (*RWLock, error) {
	queue, err := recipes.NewQueue(c, kind, name, opts...)
	if err != nil {
		return nil, err
	}
	if err := recipes.RefuseLockDelay(queue, "read-write lock"); err != nil {
		return nil, err
	}
	if err := recipes.RefuseRetain(queue, "read-write lock"); err != nil {
		return nil, err
	}
	return &RWLock{queue: queue}, nil
}

// Name returns the lock's name.
func (l *RWLock) Name() string { return l.queue.Name() }

// Lock blocks until the caller alone holds the lock, for writing. The caller
// must Unlock it. On failure nothing is held, and the call's entry is removed,
// in the background if necessary. Errors: the cause of ctx, in a
// [recipes.WaitError] if the call was queued, and with
// coordinator.ErrUnavailable if the service did not answer; ErrSessionLost;
// ErrRemoved; ErrRefused; ErrClosed; [ErrUpgrade]; ErrInvalid, if the service
// does not accept the TTL.
func (l *RWLock) Lock(ctx context.Context) (*Lock, error) {
	return l.acquire(ctx, recipes.Request{Op: "lock", Mode: writing, Lesser: reading,
		Waits: recipes.WaitsForAll})
}

// TryLock is like Lock, but does not wait for other contenders. It still waits
// for the service's answer until ctx ends. Unless ctx carries the write lock
// and the call re-enters, it returns a [*recipes.TakenError] if the queue is
// not empty. It names the first in the queue; errors.Is(err,
// coordinator.ErrTaken) is true.
func (l *RWLock) TryLock(ctx context.Context) (*Lock, error) {
	return l.acquire(ctx, recipes.Request{Op: "try-lock", Mode: writing, Lesser: reading, Try: true})
}

// RLock blocks until the caller holds the lock for reading, with other readers:
// until all writers ahead have left. With the context of a write lock it
// returns at once. The rest is as for [RWLock.Lock].
func (l *RWLock) RLock(ctx context.Context) (*Lock, error) {
	return l.acquire(ctx, recipes.Request{Op: "read-lock", Mode: reading, Rule: shared, Shares: true,
		Waits: recipes.WaitsForOthers})
}

// TryRLock is like RLock, but does not wait for writers: if one holds or waits,
// and the call does not re-enter, it returns the error of [RWLock.TryLock].
func (l *RWLock) TryRLock(ctx context.Context) (*Lock, error) {
	return l.acquire(ctx, recipes.Request{Op: "try-read-lock", Mode: reading, Rule: shared, Shares: true,
		Try: true})
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

// Do locks for writing, calls work, and unlocks, also if work panics. The
// context of work ends when ctx ends or the lock is lost; work must then
// return. Do returns the error of Lock or of work, joined with the loss or the
// error of Unlock. Work may itself unlock, for instance after RLock, which is a
// downgrade: Do does not unlock again, and the context of work ends, unless it
// was a re-entry.
func (l *RWLock) Do(ctx context.Context, work func(context.Context, *Lock) error) error {
	return l.do(ctx, l.Lock, work)
}

// RDo is like Do, but locks for reading.
func (l *RWLock) RDo(ctx context.Context, work func(context.Context, *Lock) error) error {
	return l.do(ctx, l.RLock, work)
}

func (l *RWLock) do(
	ctx context.Context, lock func(context.Context) (*Lock, error),
	work func(context.Context, *Lock) error,
) error {
	if work == nil {
		return fmt.Errorf("baton: %w: nil work for read-write lock %q",
			coordinator.ErrInvalid, l.Name())
	}
	h, err := lock(ctx)
	if err != nil {
		return err
	}
	return h.hold.Do(ctx, "unlock", func(ctx context.Context) error { return work(ctx, h) })
}

// Contender is a reader or writer, holding or waiting.
type Contender struct {
	recipes.Contender
	Writer bool // holds or waits for writing; false after a downgrade
}

// Contenders returns a snapshot of the queue, holders and waiters in order.
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

// Lock is a handle of a held read or write lock. It is safe for concurrent use,
// and must not be copied.
type Lock struct {
	hold   *recipes.Hold
	lock   *RWLock
	writer bool
}

// Unlock releases the lock. If read handles of the lock are left, Unlock of the
// last write handle converts it to a read lock. If the lock was lost before,
// Unlock returns why: coordinator.ErrSessionLost, ErrRemoved or ErrClosed. It
// returns ErrNotHeld if Unlock was called before, or if the entry was deleted
// and the lock had not noticed it. ErrInvalid means that the service cannot
// convert: this handle is released, and other readers wait until the read
// handles are. After any other error it continues in the background. If ctx has
// already ended, Unlock tries for up to two seconds.
func (l *Lock) Unlock(ctx context.Context) error {
	return recipes.Describe(context.Background(), "unlock", l.lock.Name(), l.hold.Release(ctx))
}

// Writer reports whether this handle is a write lock.
func (l *Lock) Writer() bool { return l.writer }

// Token returns the fencing token: see package coordinator/fence. A writer's
// token is greater than those of all grants that ended before, unless the
// service lost its data or a backup was restored. A reader's may be smaller
// than that of a reader that has already left. A re-entry, and a read lock
// within a write lock, have the same token.
func (l *Lock) Token() coordinator.Token { return l.hold.Token() }

// Sequencer returns the token with the name and service of the lock, for
// another process to check: see package coordinator/fence. A downgrade
// invalidates it. The first call of a session asks the service. If the lock is
// over, the error is that of Err. It is ErrInvalid in another layout.
func (l *Lock) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := l.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", l.lock.Name(), err)
}

// Context ends when the lock is over; after re-entries, with the last Unlock of
// its kind, read or write. Unless an operator ended the lock, it ends before a
// contender that it excludes can hold the lock. The cause is
// coordinator.ErrReleased, ErrSessionLost, ErrRemoved or ErrClosed, or
// [recipes.ErrHeldTooLong] (see WithMaxHold); or why the hold was lost whose
// context was the call's ctx. It has the values of the call's ctx, but does not
// end with that ctx; the context that Do gives to work ends with Do's ctx, too.
// Its Err reads the clock, as [Lock.Err] does: right after a pause it may
// report a loss that Done does not show yet.
func (l *Lock) Context() context.Context { return l.hold.Context() }

// Err returns nil while this handle holds the lock, and then why it ended. It
// compares the deadline with the clock, so it reports a loss right after a
// pause. If the machine may have slept it asks the service, for up to two
// seconds; without an answer the lock counts as lost.
func (l *Lock) Err() error { return l.hold.Err() }

// Wanted blocks until another contender, of any client, that this lock keeps
// out is queued behind it, and then returns nil: for work that gives way. Of a
// read lock, that is a writer. The lock stays held. A contender that left
// before it was seen does not count. If the lock ends first, the error is that
// of Err; it is the cause of ctx if that ends first.
//
// Waiting calls share one watch of the queue, which reads it again after each
// change, also when readers come and go. A service that cannot watch a queue
// (SQL, Redis, the layouts of other clients) is read once a second. With
// layout=curator Wanted also returns nil when Curator's Revoker asks for the
// lock.
func (l *Lock) Wanted(ctx context.Context) error {
	return recipes.Describe(ctx, "await a contender", l.lock.Name(), l.hold.Wanted(ctx))
}

// Session returns the ID of the session that holds.
func (l *Lock) Session() string { return l.hold.Session() }

// Deadline returns the time at which the session counts as lost if no renewal
// is acknowledged before it.
func (l *Lock) Deadline() time.Time { return l.hold.Deadline() }
