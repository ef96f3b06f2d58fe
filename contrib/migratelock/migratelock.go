// Package migratelock gives any database driver of golang-migrate a lock of
// Baton, so that of several pods one migrates. The locks of ClickHouse,
// Cassandra, Spanner, SQLite, Redshift and other drivers exclude nobody outside
// their process.
//
//	lock, err := mutex.New(client, "migrations")
//	driver, err := clickhouse.WithInstance(db, &clickhouse.Config{})
//	m, err := migrate.NewWithInstance("iofs", files, "clickhouse",
//		migratelock.Wrap(ctx, lock, driver, 10*time.Second))
//	err = m.Up()
//
// # Guaranteed
//
// One process at a time migrates. A migration of any length keeps the lock.
// After a loss no migration begins, and neither Drop nor Force change anything.
// A migration that was running is completed, with its version: until then
// the version is dirty, and others refuse to migrate (migrate.ErrDirty).
// Up returns the loss.
//
// # Not guaranteed
//
// A loss does not stop a statement that the database executes, since
// golang-migrate's drivers take no context. A process that was stopped
// (SIGSTOP) just before it marks the version as dirty can do so when another
// migrates.
package migratelock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/baton-go/baton/mutex"
)

// Driver is a database driver with a lock of Baton.
type Driver struct {
	database.Driver
	ctx    context.Context
	cancel context.CancelFunc
	mutex  *mutex.Mutex
	wait   time.Duration

	mu   sync.Mutex
	lock *mutex.Lock // nil if it is not locked
	// begun is true while the version is dirty by a migration that began with
	// the lock.
	begun bool
}

var _ database.Driver = (*Driver)(nil)

// Wrap returns driver with the lock m. Lock waits for others until wait has
// passed, or ctx has ended; then its error is database.ErrLocked or the cause
// of ctx. Keep wait below the LockTimeout of migrate.Migrate, 15 s by default:
// after that migrate leaves a lock that it gets to nobody, until Close.
// It does no I/O.
func Wrap(ctx context.Context, m *mutex.Mutex, driver database.Driver, wait time.Duration) *Driver {
	ctx, cancel := context.WithCancel(ctx)
	return &Driver{Driver: driver, ctx: ctx, cancel: cancel, mutex: m, wait: wait}
}

// Open opens the driver and wraps it with the same lock.
func (d *Driver) Open(url string) (database.Driver, error) {
	driver, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return Wrap(d.ctx, d.mutex, driver, d.wait), nil
}

// Close releases the lock, ends a Lock that waits, and closes the driver.
func (d *Driver) Close() error {
	d.cancel()
	return errors.Join(d.release(), d.Driver.Close())
}

// Lock takes the lock of Baton, then that of the driver.
func (d *Driver) Lock() error {
	ctx, cancel := context.WithTimeoutCause(d.ctx, d.wait, database.ErrLocked)
	defer cancel()
	lock, err := d.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	if err := d.Driver.Lock(); err != nil {
		return errors.Join(err, lock.Unlock(context.WithoutCancel(d.ctx)))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lock = lock
	return nil
}

// Unlock releases both locks. If Baton's was lost before, it returns why; then
// make a new migrate.Migrate, since migrate takes an error for a lock that is
// still held.
func (d *Driver) Unlock() error {
	return errors.Join(d.Driver.Unlock(), d.release())
}

func (d *Driver) release() error {
	d.mu.Lock()
	lock := d.lock
	d.lock, d.begun = nil, false
	d.mu.Unlock()
	if lock == nil {
		return nil
	}
	return lock.Unlock(context.WithoutCancel(d.ctx))
}

// SetVersion stores the version. It refuses to begin a migration without the
// lock. The end of one that began with it is stored in any case.
func (d *Driver) SetVersion(version int, dirty bool) error {
	d.mu.Lock()
	ends := d.begun && !dirty
	d.begun = false
	d.mu.Unlock()
	if ends {
		return d.Driver.SetVersion(version, dirty)
	}
	if err := d.held(); err != nil {
		return err
	}
	if err := d.Driver.SetVersion(version, dirty); err != nil {
		return err
	}
	// If the lock was lost meanwhile, the next holder may have read the version
	// before it was dirty.
	err := d.held()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = dirty && err == nil
	return err
}

// Drop deletes everything, unless the lock was lost.
func (d *Driver) Drop() error {
	if err := d.held(); err != nil {
		return err
	}
	return d.Driver.Drop()
}

// held returns nil while the lock is held.
func (d *Driver) held() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return fmt.Errorf("%w: %s", database.ErrNotLocked, d.mutex.Name())
	}
	return d.lock.Err()
}
