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
	// ErrLocked means that another contender holds the mutex or waits for it.
	ErrLocked = errors.New("mutex: Locked by another session")
	// ErrSessionExpired means that the session, with all its holds, has ended,
	// or that the key of the lock was deleted.
	ErrSessionExpired = errors.New("mutex: session is expired")
	// ErrLockReleased means that the mutex is not locked.
	ErrLockReleased = errors.New("mutex: lock has already been released")
)

// Mutex is a lock between sessions. It is safe for concurrent use.
type Mutex struct {
	s     *Session
	queue *recipes.Queue
	err   error // of NewMutex, which cannot return it

	mu   sync.Mutex
	hold *recipes.Hold // nil while it is not locked
}

// NewMutex returns the mutex of a prefix. It does no I/O. The first Lock
// returns an error for an invalid prefix.
func NewMutex(s *Session, pfx string) *Mutex {
	m := &Mutex{s: s}
	m.queue, m.err = recipes.NewQueue(s.baton, "mutex", pfx)
	return m
}

// Lock blocks until the caller holds the mutex. If ctx ends first, nothing is
// held or left behind.
func (m *Mutex) Lock(ctx context.Context) error { return m.lock(ctx, recipes.Request{Op: "lock"}) }

// TryLock is like Lock, but returns ErrLocked instead of waiting.
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

// acquire returns a hold of the session. Baton's client would open another
// session if this one was lost, so acquire compares the hold's session.
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

// Unlock releases the mutex. It works with a ctx that has ended. The error is
// ErrLockReleased if the mutex is not locked, and ErrSessionExpired if the lock
// was lost.
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

// gone wraps the errors of a missing key in ErrSessionExpired, as etcd's
// package does: the client may notice the key's deletion before the session's
// end.
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

// IsOwner returns a condition for a transaction. It is true while the mutex is
// held, and always false if it is not locked.
func (m *Mutex) IsOwner() v3.Cmp {
	key, rev := m.owned()
	return v3.Compare(v3.CreateRevision(key), "=", rev)
}

// Key returns the key of the lock, "\x00" if the mutex is not locked.
func (m *Mutex) Key() string {
	key, _ := m.owned()
	return key
}

// Header has the create revision of the key: the fencing token. It is nil if
// the mutex is not locked.
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

// owned returns the key of a hold and its create revision. Without a hold it
// returns a key and a revision that never exist.
func owned(h *recipes.Hold) (key string, rev int64) {
	if h == nil {
		return "\x00", -1
	}
	key = h.Place().Key // "key@revision"
	return key[:strings.LastIndexByte(key, '@')], int64(h.Token())
}

// locker is a Mutex without contexts and errors.
type locker struct{ *Mutex }

// NewLocker returns a mutex as a sync.Locker, with the client's context. It
// panics on errors.
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
