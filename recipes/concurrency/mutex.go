package concurrency

import (
	"context"
	"errors"
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

// Mutex is a lock between sessions. It is safe for concurrent use, but Unlock
// cannot know which goroutine calls it. So a Mutex serves one Lock at a time:
// the next one waits until Unlock was called, also after the lock was lost.
// Otherwise the Unlock of a goroutine whose key was deleted would release the
// lock of the next. As with a sync.Mutex, a second Unlock releases the lock of
// a goroutine that has called Lock since; give each its own Mutex to exclude
// that.
type Mutex struct {
	s     *Session
	queue *recipes.Queue
	err   error // of NewMutex, which cannot return it

	turn chan struct{} // full from the beginning of a Lock to its Unlock

	mu   sync.Mutex
	hold *recipes.Hold // nil while it is not locked
	used bool          // it was locked before
}

// NewMutex returns the mutex of a prefix. It does no I/O. The first Lock
// returns an error for an invalid prefix.
func NewMutex(s *Session, pfx string) *Mutex {
	m := &Mutex{s: s, turn: make(chan struct{}, 1)}
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
	if err := m.s.enter(ctx, m.turn, r.Try); err != nil {
		return err
	}
	h, err := m.s.acquire(ctx, m.queue, r)
	if err != nil {
		<-m.turn
		return err
	}
	m.mu.Lock()
	m.hold, m.used = h, true
	m.mu.Unlock()
	return nil
}

// enter waits for the caller's turn, by sending to the channel. With try it
// returns coordinator.ErrTaken instead of waiting.
func (s *Session) enter(ctx context.Context, turn chan struct{}, try bool) error {
	if s.ctx.Err() != nil {
		return ErrSessionExpired
	}
	select {
	case turn <- struct{}{}:
		return nil
	default:
	}
	if try {
		return coordinator.ErrTaken
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-s.ctx.Done():
		return ErrSessionExpired
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acquire returns a hold of the session. The errors are bare where those of
// etcd's package are, since programs compare them with ==.
func (s *Session) acquire(
	ctx context.Context, queue *recipes.Queue, r recipes.Request,
) (*recipes.Hold, error) {
	if s.ctx.Err() != nil {
		return nil, ErrSessionExpired
	}
	r.Mode, r.Fresh = "x", true
	h, err := queue.Acquire(ctx, r)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && s.session.Context().Err() != nil:
		return nil, ErrSessionExpired
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
	defer func() { <-m.turn }()
	return gone(h.Release(ctx))
}

// gone returns ErrSessionExpired for the errors of a missing key, as etcd's
// package does: the client may notice the key's deletion before the session's
// end.
func gone(err error) error {
	for _, over := range []error{
		coordinator.ErrSessionLost, coordinator.ErrClosed, coordinator.ErrRemoved, coordinator.ErrNotHeld,
	} {
		if errors.Is(err, over) {
			return ErrSessionExpired
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

// Key returns the key of the lock, "" before the first Lock, and "\x00" after
// Unlock.
func (m *Mutex) Key() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.used {
		return ""
	}
	key, _ := owned(m.hold)
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
