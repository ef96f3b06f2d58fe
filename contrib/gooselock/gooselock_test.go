package gooselock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/baton-go/baton/contrib/gooselock"
	"github.com/baton-go/baton/contrib/internal/lab"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// server is a database without locks. It knows two statements: "work", and
// "insert", which adds a version. They take no time: database/sql has a mutex
// meanwhile, and virtual time stands still while a goroutine waits for it.
type server struct {
	mu       sync.Mutex
	versions []int64
	running  map[*connection]bool // those in a transaction that does work
	atOnce   int
	work     int
}

type connection struct {
	*server
	open, inTx bool
	inserted   []int64
}

func (s *server) Connect(context.Context) (driver.Conn, error) {
	return &connection{server: s, open: true}, nil
}

func (s *server) Driver() driver.Driver { return nil }

var errClosed = errors.New("the connection is closed")

func (c *connection) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (c *connection) Begin() (driver.Tx, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		return nil, errClosed
	}
	c.inTx = true
	return c, nil
}

func (c *connection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.open = false
	return nil
}

func (c *connection) Rollback() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	return nil
}

func (c *connection) Commit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		return errClosed
	}
	for _, version := range c.inserted { // goose adds version 0 without the lock
		if version != 0 || !slices.Contains(c.versions, 0) {
			c.versions = append(c.versions, version)
		}
	}
	c.end()
	return nil
}

func (c *connection) end() {
	delete(c.running, c)
	c.inTx, c.inserted = false, nil
}

func (c *connection) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.open:
		return nil, errClosed
	case query == "work":
		c.work++
		c.running[c] = true
		c.atOnce = max(c.atOnce, len(c.running))
	case c.inTx:
		c.inserted = append(c.inserted, args[0].Value.(int64))
	default:
		c.versions = append(c.versions, args[0].Value.(int64))
	}
	return driver.RowsAffected(1), nil
}

// versions are a database.Store.
type versions struct{ *server }

func (versions) Tablename() string                                           { return "versions" }
func (versions) CreateVersionTable(context.Context, database.DBTxConn) error { return nil }
func (versions) Delete(context.Context, database.DBTxConn, int64) error      { return errors.ErrUnsupported }

func (s *server) has(version int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.versions, version)
}

func (v versions) Insert(ctx context.Context, db database.DBTxConn, r database.InsertRequest) error {
	_, err := db.ExecContext(ctx, "insert", r.Version)
	return err
}

func (v versions) GetMigration(_ context.Context, _ database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	if !v.has(version) {
		return nil, database.ErrVersionNotFound
	}
	return &database.GetMigrationResult{IsApplied: true}, nil
}

func (v versions) GetLatestVersion(context.Context, database.DBTxConn) (int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.versions) == 0 {
		return 0, database.ErrVersionNotFound
	}
	return slices.Max(v.versions), nil
}

func (v versions) ListMigrations(context.Context, database.DBTxConn) (list []*database.ListMigrationsResult, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, version := range slices.Backward(v.versions) {
		list = append(list, &database.ListMigrationsResult{Version: version, IsApplied: true})
	}
	return list, nil
}

// pod is a process with goose.
type pod struct {
	*goose.Provider
	db     *sql.DB
	locker *gooselock.Locker
	link   *memory.Driver
}

// statements is how many seconds each of the two migrations takes.
const statements = 600

// play runs a test with two pods and two migrations.
func play(t *testing.T, test func(t *testing.T, db *server, a, b *pod)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc, db := memory.NewService(), &server{running: map[*connection]bool{}}
		migration := goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			for range statements {
				if _, err := tx.ExecContext(ctx, "work"); err != nil {
					return err
				}
				time.Sleep(time.Second)
			}
			return nil
		}}
		var pods [2]*pod
		for i := range pods {
			p := &pod{db: sql.OpenDB(db)}
			t.Cleanup(func() { p.db.Close() })
			var client *coordinator.Client
			client, p.link = lab.Replica(t, svc)
			m, err := mutex.New(client, "migrations")
			if err != nil {
				t.Fatal(err)
			}
			p.locker = gooselock.New(m)
			p.Provider, err = goose.NewProvider("", p.db, nil, goose.WithStore(versions{db}), goose.WithSessionLocker(p.locker),
				goose.WithGoMigrations(goose.NewGoMigration(1, &migration, nil), goose.NewGoMigration(2, &migration, nil)), goose.WithDisableGlobalRegistry(true))
			if err != nil {
				t.Fatal(err)
			}
			pods[i] = p
		}
		test(t, db, pods[0], pods[1])
	})
}

func (s *server) check(t *testing.T, work int, versions ...int64) {
	t.Helper()
	if !slices.Equal(s.versions, versions) || s.work != work || s.atOnce > 1 {
		t.Errorf("versions %v by %d statements, of up to %d pods at once", s.versions, s.work, s.atOnce)
	}
}

func TestOnePodMigrates(t *testing.T) {
	play(t, func(t *testing.T, db *server, a, b *pod) {
		var pods sync.WaitGroup
		for _, p := range []*pod{a, b} {
			pods.Go(func() {
				if _, err := p.Up(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		pods.Wait()
		db.check(t, 2*statements, 0, 1, 2)
	})
}

// TestMigrationEndsBeforeTheNextPodBegins: the first is cut off in the middle
// of a transaction. Nothing of that is committed.
func TestMigrationEndsBeforeTheNextPodBegins(t *testing.T) {
	play(t, func(t *testing.T, db *server, a, b *pod) {
		first := make(chan error, 1)
		go func() {
			_, err := a.Up(t.Context())
			first <- err
		}()
		time.Sleep(10 * time.Second)
		a.link.Cut()
		if _, err := b.Up(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-first; !errors.Is(err, coordinator.ErrSessionLost) || !errors.Is(err, errClosed) {
			t.Errorf("Up without the lock = %v", err)
		}
		db.check(t, db.work, 0, 1, 2)
		if db.work < 2*statements || db.work > 2*statements+40 {
			t.Errorf("%d statements", db.work)
		}

		// No closed connection is left in the pool.
		a.link.Heal()
		if _, err := a.db.ExecContext(t.Context(), "work"); err != nil {
			t.Errorf("after the loss: %v", err)
		}
		if _, err := a.Up(t.Context()); err != nil {
			t.Errorf("Up after the loss = %v", err)
		}
	})
}

func TestUnlockNeedsALock(t *testing.T) {
	play(t, func(t *testing.T, _ *server, a, b *pod) {
		conn, err := a.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := a.locker.SessionLock(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.locker.SessionLock(ctx, conn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("SessionLock beside a lock = %v", err)
		}
		if err := a.locker.SessionUnlock(t.Context(), conn); err != nil {
			t.Error(err)
		}
		for _, l := range []*gooselock.Locker{a.locker, b.locker} {
			if err := l.SessionUnlock(t.Context(), conn); !errors.Is(err, coordinator.ErrNotHeld) {
				t.Errorf("SessionUnlock without a lock = %v", err)
			}
		}
		if _, err := conn.ExecContext(t.Context(), "work"); err != nil {
			t.Errorf("after a release: %v", err)
		}
	})
}
