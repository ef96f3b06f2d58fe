package migratelock_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/baton-go/baton/contrib/internal/lab"
	"github.com/baton-go/baton/contrib/migratelock"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// minutes is how long each migration takes.
const minutes = 10 * time.Minute

// server is the database that all pods migrate.
type server struct {
	mu      sync.Mutex
	version int
	dirty   bool
	ran     []string
	running int
	atOnce  int
	busy    time.Duration // how long SetVersion takes
}

// process is the driver of one pod. As that of many databases it has a lock
// that excludes nobody outside of the process.
type process struct {
	*server
	locked atomic.Bool
}

func (p *process) Open(string) (database.Driver, error) { return p, nil }
func (p *process) Close() error                         { return nil }

func (p *process) Lock() error {
	if !p.locked.CompareAndSwap(false, true) {
		return database.ErrLocked
	}
	return nil
}

func (p *process) Unlock() error {
	if !p.locked.CompareAndSwap(true, false) {
		return database.ErrNotLocked
	}
	return nil
}

func (p *process) Run(migration io.Reader) error {
	if _, err := io.ReadAll(migration); err != nil {
		return err
	}
	p.mu.Lock()
	p.running++
	p.atOnce = max(p.atOnce, p.running)
	p.ran = append(p.ran, strconv.Itoa(p.version))
	p.mu.Unlock()
	time.Sleep(minutes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	return nil
}

func (p *process) SetVersion(version int, dirty bool) error {
	time.Sleep(p.busy)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version, p.dirty = version, dirty
	return nil
}

func (p *process) Version() (version int, dirty bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, p.dirty, nil
}

func (p *process) Drop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ran = append(p.ran, "dropped")
	return nil
}

// pod is a process with golang-migrate.
type pod struct {
	*migrate.Migrate
	driver *migratelock.Driver
	mutex  *mutex.Mutex
	link   *memory.Driver
}

// play runs a test with two pods and three migrations. These are empty, since
// golang-migrate leaves those that it has read ahead in a pipe after an error.
func play(t *testing.T, wait time.Duration, test func(t *testing.T, db *server, a, b *pod)) {
	t.Helper()
	files := fstest.MapFS{}
	for _, name := range []string{"1_a", "2_b", "3_c"} {
		files[name+".up.sql"] = &fstest.MapFile{}
	}
	synctest.Test(t, func(t *testing.T) {
		svc, db := memory.NewService(), &server{version: database.NilVersion}
		var pods [2]*pod
		for i := range pods {
			p := &pod{}
			var client *coordinator.Client
			client, p.link = lab.Replica(t, svc)
			source, err := iofs.New(files, ".")
			if err != nil {
				t.Fatal(err)
			}
			if p.mutex, err = mutex.New(client, "migrations"); err != nil {
				t.Fatal(err)
			}
			p.driver = migratelock.Wrap(t.Context(), p.mutex, &process{server: db}, wait)
			if p.Migrate, err = migrate.NewWithInstance("iofs", source, "test", p.driver); err != nil {
				t.Fatal(err)
			}
			p.LockTimeout = wait + time.Second
			pods[i] = p
		}
		test(t, db, pods[0], pods[1])
	})
}

func (db *server) check(t *testing.T, version int, ran ...string) {
	t.Helper()
	if !slices.Equal(db.ran, ran) || db.version != version || db.atOnce > 1 {
		t.Errorf("ran %q, up to %d at once, version %d", db.ran, db.atOnce, db.version)
	}
}

// TestOnePodMigrates: two pods start at the same time. Each migration takes
// many TTLs.
func TestOnePodMigrates(t *testing.T) {
	play(t, time.Hour, func(t *testing.T, db *server, a, b *pod) {
		var pods sync.WaitGroup
		var changed atomic.Int32
		for _, p := range []*pod{a, b} {
			pods.Go(func() {
				switch err := p.Up(); {
				case err == nil:
					changed.Add(1)
				case !errors.Is(err, migrate.ErrNoChange):
					t.Error(err)
				}
			})
		}
		pods.Wait()
		if db.check(t, 3, "1", "2", "3"); changed.Load() != 1 {
			t.Errorf("%d pods migrated", changed.Load())
		}
	})
}

// TestNoMigrationBeginsAfterALoss: the pod is cut off during the first one. The
// other finds a dirty version, and migrates when that is complete.
func TestNoMigrationBeginsAfterALoss(t *testing.T) {
	play(t, time.Minute, func(t *testing.T, db *server, a, b *pod) {
		first := make(chan error, 1)
		go func() { first <- a.Up() }()
		synctest.Wait()
		a.link.Cut()
		var dirty migrate.ErrDirty
		if err := b.Up(); !errors.As(err, &dirty) {
			t.Errorf("Up beside a migration = %v", err)
		}
		if err := <-first; !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("Up without the lock = %v", err)
		}
		db.check(t, 1, "1")
		if err := b.Up(); err != nil {
			t.Error(err)
		}
		db.check(t, 3, "1", "2", "3")
	})
}

// TestNothingRunsIfTheLossCameBeforeTheVersionWasDirty: the next holder may
// have seen a clean one.
func TestNothingRunsIfTheLossCameBeforeTheVersionWasDirty(t *testing.T) {
	play(t, time.Minute, func(t *testing.T, db *server, a, _ *pod) {
		db.busy = time.Second
		first := make(chan error, 1)
		go func() { first <- a.Up() }()
		synctest.Wait()
		a.link.Expire()
		if err := <-first; !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("Up = %v", err)
		}
		db.check(t, 1)
	})
}

func TestDropAndForceNeedTheLock(t *testing.T) {
	play(t, time.Minute, func(t *testing.T, db *server, a, b *pod) {
		if err := a.driver.Drop(); !errors.Is(err, database.ErrNotLocked) {
			t.Errorf("Drop without Lock = %v", err)
		}
		if err := a.driver.Lock(); err != nil {
			t.Fatal(err)
		}
		a.link.Expire()
		synctest.Wait()
		for what, err := range map[string]error{"Drop": a.driver.Drop(), "SetVersion": a.driver.SetVersion(7, false)} {
			if !errors.Is(err, coordinator.ErrSessionLost) {
				t.Errorf("%s after a loss = %v", what, err)
			}
		}
		db.check(t, database.NilVersion)
		if err := errors.Join(b.Force(2), b.Drop()); err != nil {
			t.Error(err)
		}
		db.check(t, 2, "dropped")
	})
}

// TestWaitEndsBeforeMigrateGivesUp: otherwise the lock that comes later would
// stay.
func TestWaitEndsBeforeMigrateGivesUp(t *testing.T) {
	play(t, 10*time.Second, func(t *testing.T, db *server, a, b *pod) {
		if err := a.driver.Lock(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := b.Up()
		if !errors.Is(err, database.ErrLocked) || time.Since(began) != 10*time.Second || !strings.Contains(err.Error(), "in the queue") {
			t.Errorf("Up beside a lock = %v, after %v", err, time.Since(began))
		}
		synctest.Wait() // the entry is removed
		if queue, err := a.mutex.Contenders(t.Context()); len(queue) != 1 || err != nil {
			t.Errorf("left in the queue: %v, %v", queue, err)
		}
		if err := a.driver.Unlock(); err != nil {
			t.Error(err)
		}
		if err := b.Up(); err != nil {
			t.Error(err)
		}
		db.check(t, 3, "1", "2", "3")
	})
}

func TestCloseEndsAWaitAndReleases(t *testing.T) {
	play(t, time.Hour, func(t *testing.T, _ *server, a, b *pod) {
		if err := a.driver.Lock(); err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 1)
		go func() { waits <- b.driver.Lock() }()
		synctest.Wait()
		if _, err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v", err)
		}
		if _, err := a.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait() // the waiter's entry is removed
		if queue, err := a.mutex.Contenders(t.Context()); len(queue) != 0 || err != nil {
			t.Errorf("left in the queue: %v, %v", queue, err)
		}
	})
}

// TestOpenedDriverHasTheLock, and releases Baton's if that of the database
// fails.
func TestOpenedDriverHasTheLock(t *testing.T) {
	play(t, time.Second, func(t *testing.T, _ *server, a, b *pod) {
		opened, err := a.driver.Open("test://")
		if err != nil {
			t.Fatal(err)
		}
		if err := opened.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := b.driver.Lock(); !errors.Is(err, database.ErrLocked) {
			t.Errorf("Lock = %v", err)
		}
		if err := opened.Unlock(); err != nil {
			t.Error(err)
		}
		if err := b.driver.Driver.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := b.driver.Lock(); !errors.Is(err, database.ErrLocked) {
			t.Errorf("Lock of a locked database = %v", err)
		}
		synctest.Wait()
		if queue, err := a.mutex.Contenders(t.Context()); len(queue) != 0 || err != nil {
			t.Errorf("left in the queue: %v, %v", queue, err)
		}
	})
}
