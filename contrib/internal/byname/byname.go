// Package byname is for interfaces that release a lock by its name, from any
// goroutine, and have no handle of a hold.
package byname

import (
	"context"
	"fmt"
	"sync"

	"github.com/baton-go/baton/contrib/internal/names"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// Locks are locks of one client. They are safe for concurrent use.
type Locks struct {
	client *coordinator.Client
	prefix string

	mu       sync.Mutex
	sections map[string]*section // by name
}

// section is a critical section of this process: from before Lock to Unlock.
// It outlives the loss of its lock. Otherwise another goroutine could begin a
// section of that name, and the Unlock of the first would release its lock.
type section struct {
	lock *mutex.Lock   // nil while it waits for the lock
	over chan struct{} // closed when the name is free in this process
}

// acquire is Lock or TryLock of a mutex.
type acquire func(*mutex.Mutex, context.Context) (*mutex.Lock, error)

// New returns locks whose names at the service begin with prefix.
func New(client *coordinator.Client, prefix string) *Locks {
	return &Locks{client: client, prefix: prefix, sections: map[string]*section{}}
}

// Lock blocks until no other section, of any process, has the name.
func (l *Locks) Lock(ctx context.Context, name string) error {
	for {
		busy, err := l.enter(ctx, name, (*mutex.Mutex).Lock)
		if busy == nil {
			return err
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TryLock is like Lock, but returns ErrTaken instead of waiting.
func (l *Locks) TryLock(ctx context.Context, name string) error {
	busy, err := l.enter(ctx, name, (*mutex.Mutex).TryLock)
	if busy != nil {
		return coordinator.ErrTaken
	}
	return err
}

// Relock waits for the lock again if the section of name has lost it.
func (l *Locks) Relock(ctx context.Context, name string) error {
	sec, lock := l.section(name)
	if lock == nil {
		return fmt.Errorf("renew lock %q: %w", name, coordinator.ErrNotHeld)
	}
	if lock.Err() == nil {
		return nil
	}
	_ = lock.Unlock(ctx) // which says that it is lost
	return l.take(ctx, name, sec, (*mutex.Mutex).Lock)
}

// Unlock ends the section of name. If its lock was lost, it returns why. The
// error is ErrNotHeld if this process has no such section.
func (l *Locks) Unlock(ctx context.Context, name string) error {
	sec, lock := l.section(name)
	if lock == nil || !l.leave(name, sec) {
		return fmt.Errorf("unlock %q: %w", name, coordinator.ErrNotHeld)
	}
	return lock.Unlock(ctx)
}

// Err returns why this process's section of a name has lost its lock. It is nil
// while it has the lock, and without a section.
func (l *Locks) Err(name string) error {
	if _, lock := l.section(name); lock != nil {
		return lock.Err()
	}
	return nil
}

// section returns this process's section of a name, and the lock that it has or
// had; both may be nil.
func (l *Locks) section(name string) (*section, *mutex.Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sec := l.sections[name]; sec != nil {
		return sec, sec.lock
	}
	return nil, nil
}

// enter begins a section with its lock. If another goroutine has the name, busy
// is closed when it is free.
func (l *Locks) enter(ctx context.Context, name string, how acquire) (busy <-chan struct{}, err error) {
	l.mu.Lock()
	if sec := l.sections[name]; sec != nil {
		l.mu.Unlock()
		return sec.over, nil
	}
	sec := &section{over: make(chan struct{})}
	l.sections[name] = sec
	l.mu.Unlock()
	if err = l.take(ctx, name, sec, how); err != nil {
		l.leave(name, sec)
	}
	return nil, err
}

// take gets the lock of a section. While a section waits for its lock again,
// another goroutine may end it: then the lock is released.
func (l *Locks) take(ctx context.Context, name string, sec *section, how acquire) error {
	m, err := mutex.New(l.client, names.Lock(l.prefix, name), mutex.WithoutReentry())
	if err != nil {
		return err
	}
	lock, err := how(m, ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	current := l.sections[name] == sec
	sec.lock = lock
	l.mu.Unlock()
	if !current {
		_ = lock.Unlock(ctx)
		return fmt.Errorf("renew lock %q: %w", name, coordinator.ErrNotHeld)
	}
	return nil
}

// leave frees the name in this process, unless that was done before.
func (l *Locks) leave(name string, sec *section) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sections[name] != sec {
		return false
	}
	delete(l.sections, name)
	close(sec.over)
	return true
}
