package concurrency

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	v3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

var (
	// ErrLocked says that somebody else has the mutex, or waits for it.
	ErrLocked = errors.New("mutex: Locked by another session")
	// ErrSessionExpired says that the session has ended, and with it all that
	// it held, or that the key of the lock is gone.
	ErrSessionExpired = errors.New("mutex: session is expired")
	// ErrLockReleased says that the mutex is not locked.
	ErrLockReleased = errors.New("mutex: lock has already been released")
)

// Mutex is a lock between sessions. It is safe for concurrent use.
type Mutex struct {
	s     *Session
	queue *recipes.Queue
	err   error // of NewMutex, which returns none

	mu   sync.Mutex
	hold *recipes.Hold // nil while it is not locked
}

// NewMutex returns the mutex of a prefix. It does no I/O. A prefix that breaks
// a rule shows at the first Lock.
func NewMutex(s *Session, pfx string) *Mutex {
	m := &Mutex{s: s}
	m.queue, m.err = recipes.NewQueue(s.baton, "mutex", pfx)
	return m
}

// Lock waits until the mutex is held, in the order of asking. When ctx ends
// first nothing is held and nothing is left behind.
func (m *Mutex) Lock(ctx context.Context) error { return m.lock(ctx, recipes.Request{Op: "lock"}) }

// TryLock is Lock that returns ErrLocked instead of waiting.
func (m *Mutex) TryLock(ctx context.Context) error {
	err := m.lock(ctx, recipes.Request{Op: "try-lock", Try: true})
	if errors.Is(err, coordinator.ErrTaken) && ctx.Err() == nil {
		return ErrLocked
	}
	return err
}

func (m *Mutex) lock(ctx context.Context, r recipes.Request) error {
	if m.err != nil {
		return m.err
	}
	h, err := m.s.acquire(ctx, m.queue, r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.hold = h
	m.mu.Unlock()
	return nil
}

// acquire returns a hold of the session. Baton's client would go on with
// another session when this one is lost.
func (s *Session) acquire(
	ctx context.Context, queue *recipes.Queue, r recipes.Request,
) (*recipes.Hold, error) {
	if s.ctx.Err() != nil {
		return nil, s.expired()
	}
	r.Mode, r.Fresh = "x", true
	h, err := queue.Acquire(ctx, r)
	switch {
	case err == nil && h.Session() != s.session.ID():
		return nil, errors.Join(s.expired(), h.Release(ctx))
	case err != nil && s.session.Context().Err() != nil && ctx.Err() == nil:
		return nil, s.expired()
	case err != nil:
		return nil, gone(err)
	}
	return h, nil
}

// Unlock gives the mutex back. It works with a ctx that is dead already. When
// it is not locked the error is ErrLockReleased, and when the lock was lost
// with the session, ErrSessionExpired.
func (m *Mutex) Unlock(ctx context.Context) error {
	m.mu.Lock()
	h := m.hold
	m.hold = nil
	m.mu.Unlock()
	if h == nil {
		return ErrLockReleased
	}
	return gone(h.Release(ctx))
}

// gone says of a key that is not there that the session is expired, as etcd's
// package does: that may be heard of before the session's end is, and somebody
// may have deleted the key.
func gone(err error) error {
	for _, over := range []error{
		coordinator.ErrSessionLost, coordinator.ErrClosed, coordinator.ErrRemoved, coordinator.ErrNotHeld,
	} {
		if errors.Is(err, over) {
			return fmt.Errorf("%w: %w", ErrSessionExpired, err)
		}
	}
	return err
}

// IsOwner is a condition for a transaction: it holds as long as the mutex does.
// While the mutex is not locked it never does.
func (m *Mutex) IsOwner() v3.Cmp {
	key, rev := m.owned()
	return v3.Compare(v3.CreateRevision(key), "=", rev)
}

// Key is the key of the lock, "\x00" while the mutex is not locked.
func (m *Mutex) Key() string {
	key, _ := m.owned()
	return key
}

// Header has the revision in which the key was made: the fencing token. It is
// nil while the mutex is not locked.
func (m *Mutex) Header() *pb.ResponseHeader {
	if _, rev := m.owned(); rev > 0 {
		return &pb.ResponseHeader{Revision: rev}
	}
	return nil
}

func (m *Mutex) owned() (key string, rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return owned(m.hold)
}

// owned is the key of a hold and the revision of its making; of none, what is
// never there.
func owned(h *recipes.Hold) (key string, rev int64) {
	if h == nil {
		return "\x00", -1
	}
	key = h.Place().Key // "key@revision"
	return key[:strings.LastIndexByte(key, '@')], int64(h.Token())
}

// locker is a Mutex without contexts and errors.
type locker struct{ *Mutex }

// NewLocker returns a mutex as a sync.Locker. It waits for as long as the
// client lives, and panics when it fails.
func NewLocker(s *Session, pfx string) sync.Locker { return locker{NewMutex(s, pfx)} }

func (l locker) Lock() {
	if err := l.Mutex.Lock(l.s.client.Ctx()); err != nil {
		panic(err)
	}
}

func (l locker) Unlock() {
	if err := l.Mutex.Unlock(l.s.client.Ctx()); err != nil {
		panic(err)
	}
}
