// Package gooselock is a SessionLocker for goose, so that of several pods one
// migrates, also on databases for which goose has no lock.
//
// The shorter way needs no adapter, and ends a statement that is running:
//
//	err = lock.Do(ctx, func(ctx context.Context, _ *mutex.Lock) error {
//		_, err := provider.Up(ctx) // ctx ends if the lock is lost
//		return err
//	})
//
// Use New where the context of Up cannot be that of the lock:
//
//	provider, err := goose.NewProvider(dialect, db, files, goose.WithSessionLocker(gooselock.New(lock)))
//
// # Guaranteed
//
// One process at a time migrates. When the lock is lost, the connection on
// which goose migrates is closed, or when the statement that it executes has
// ended. So a transaction that is not committed by then is rolled back, and no
// migration begins. Up returns an error of the connection, joined with the
// loss.
//
// # Not guaranteed
//
// A statement that is running, and the commit itself, are not stopped. A
// migration in Go without a transaction uses another connection, and goes on.
package gooselock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// Locker is a lock.SessionLocker. It is safe for concurrent use.
type Locker struct {
	mutex *mutex.Mutex

	mu    sync.Mutex
	holds map[*sql.Conn]hold
}

var _ lock.SessionLocker = (*Locker)(nil)

// hold is what a connection has.
type hold struct {
	lock *mutex.Lock
	stop func() bool   // prevents the end of the connection
	lost chan struct{} // closed when the connection has ended
}

// New returns a locker with the lock m. It does no I/O.
func New(m *mutex.Mutex) *Locker {
	return &Locker{mutex: m, holds: map[*sql.Conn]hold{}}
}

// SessionLock blocks until no other process has the lock. The errors are those
// of mutex.Mutex.Lock: on failure nothing is held.
func (l *Locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	lock, err := l.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	h := hold{lock: lock, lost: make(chan struct{})}
	h.stop = context.AfterFunc(lock.Context(), func() {
		defer close(h.lost)
		disconnect(conn)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[conn] = h
	return nil
}

// SessionUnlock releases the lock. If it was lost before, it returns why.
func (l *Locker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	l.mu.Lock()
	h, ok := l.holds[conn]
	delete(l.holds, conn)
	l.mu.Unlock()
	if !ok {
		return fmt.Errorf("unlock %q: %w", l.mutex.Name(), coordinator.ErrNotHeld)
	}
	if !h.stop() {
		<-h.lost
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // so that the pool does not get it
	}
	return h.lock.Unlock(ctx)
}

// disconnect closes the driver's connection below conn, which database/sql
// permits between two statements: in a transaction, too, which then fails.
// Conn.Close would wait for the end of the transaction. It returns no
// ErrBadConn: database/sql would close conn while goose uses it.
func disconnect(conn *sql.Conn) {
	_ = conn.Raw(func(c any) error { return c.(driver.Conn).Close() })
}
