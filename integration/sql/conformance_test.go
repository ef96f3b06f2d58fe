package sql_test

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/coordinator/driver"
	batonsql "github.com/baton-go/baton/coordinator/sql"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/sqlserver"
)

func TestMain(m *testing.M) { servers.Main(m) }

// database is a database with Baton's tables, and a pool of its own.
type database struct {
	*sqlserver.Server
	name    string
	dialect batonsql.Dialect
	pool    *stdsql.DB
}

// kind is a kind of database.
type kind struct {
	name    string
	shared  func(testing.TB) *sqlserver.Server
	start   func(context.Context) (*sqlserver.Server, error)
	dialect batonsql.Dialect
}

var kinds = []kind{
	{"PostgreSQL", servers.PostgreSQL, sqlserver.PostgreSQL, batonsql.Postgres},
	{"MariaDB", servers.MariaDB, sqlserver.MariaDB, batonsql.MySQL},
}

// each runs a test on each kind, in a database of its own on a shared server.
func each(t *testing.T, test func(t *testing.T, db *database)) {
	eachOn(t, func(t *testing.T, k kind) *sqlserver.Server { return k.shared(t) }, test)
}

// eachServer runs a test on each kind, on a server that the test may break.
func eachServer(t *testing.T, test func(t *testing.T, db *database)) {
	eachOn(t, func(t *testing.T, k kind) *sqlserver.Server { return servers.NewSQL(t, k.start) }, test)
}

func eachOn(t *testing.T, on func(*testing.T, kind) *sqlserver.Server, test func(*testing.T, *database)) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k.migrated(t, on(t, k)))
		})
	}
}

// postgres returns a database on the shared PostgreSQL.
func postgres(t testing.TB) *database { return kinds[0].migrated(t, kinds[0].shared(t)) }

var databases atomic.Int64

// empty makes a database on a server.
func (k kind) empty(t testing.TB, s *sqlserver.Server) *database {
	t.Helper()
	db := &database{Server: s, name: fmt.Sprint("test", databases.Add(1)), dialect: k.dialect}
	admin, err := s.Open()
	ok(t, err)
	defer admin.Close()
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+db.name)
	ok(t, err)
	db.pool = db.open(t)
	return db
}

// migrated makes one with Baton's tables.
func (k kind) migrated(t testing.TB, s *sqlserver.Server) *database {
	t.Helper()
	db := k.empty(t, s)
	created, err := batonsql.Migrate(t.Context(), db.pool, k.dialect)
	ok(t, err)
	if !created {
		t.Fatal("the database had tables")
	}
	return db
}

// URL returns a client's URL, at an address that leads to the server.
func (db *database) URL(addr string) string {
	u, err := url.Parse(db.Server.URL(addr))
	if err != nil {
		panic(err)
	}
	u.Path = "/" + db.name
	return u.String()
}

// open returns a pool of connections to the database.
func (db *database) open(t testing.TB) *stdsql.DB {
	t.Helper()
	driver, dsn := "pgx", db.URL(db.Addr())
	if db.dialect == batonsql.MySQL {
		driver, dsn = "mysql", "root@tcp("+db.Addr()+")/"+db.name+"?timeout=5s"
	}
	pool, err := stdsql.Open(driver, dsn)
	ok(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// TestConformance checks the driver against the clauses of package driver. Its
// cases wait most of the time, so some run at a time, on a server each.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			free := make(chan *database, 3)
			for range cap(free) {
				free <- k.migrated(t, servers.NewSQL(t, k.start))
			}
			var mine sync.Map // the databases of cases
			const absent, none = "the driver has the core only", "the service has no such state"
			coordinatortest.Run(t, coordinatortest.Harness{
				TTL: 4 * time.Second, Patience: 20 * time.Second, Attempts: 3,
				OddTTL: 48 * time.Hour, GrantedTTL: 24 * time.Hour,
				Lacks: map[coordinatortest.Lever]string{
					coordinatortest.Handoff: absent, coordinatortest.Converter: absent, coordinatortest.Writer: absent,
					coordinatortest.HeadWatcher: absent, coordinatortest.QueueWatcher: absent, coordinatortest.Operator: absent,
					coordinatortest.Compact: none, coordinatortest.Stall: none, coordinatortest.Watches: none, coordinatortest.Events: none,
					coordinatortest.External: absent,
				},
				Start: func(t *testing.T) coordinatortest.Service {
					db, again := mine.Load(t) // a case that runs again
					if !again {
						t.Parallel()
						db = <-free
						t.Cleanup(func() { free <- db.(*database) })
						mine.Store(t, db)
					}
					return db.(*database).levers(t)
				},
			})
		})
	}
}

func (db *database) levers(t *testing.T) coordinatortest.Service {
	return coordinatortest.Service{
		Connect: func() (coordinatortest.Client, error) {
			link := netproxy.NewNetwork(t, []string{db.Addr()})
			text := db.URL(link.Addrs()[0])
			if db.dialect == batonsql.Postgres {
				text += "&default_query_exec_mode=exec" // else a request is preceded by another, which Strand would strand instead
			}
			u, err := url.Parse(text)
			if err != nil {
				return coordinatortest.Client{}, err
			}
			d, err := batonsql.Open(u)
			return coordinatortest.Client{Driver: d, Link: link}, err
		},
		Expire: func(ctx context.Context, s driver.Session) error {
			return db.one(ctx, fmt.Sprintf("DELETE FROM baton_sessions WHERE id = '%s'", s.ID()))
		},
		Remove: func(ctx context.Context, queue driver.Queue, p driver.Place) error {
			return db.one(ctx, fmt.Sprintf("DELETE FROM baton_entries WHERE queue = '%s' AND token = %s", queue, p.Key))
		},
		Sessions: db.sessions,
		Restart: func(ctx context.Context) error {
			// A slow start of the server is not to end sessions.
			_, err := db.pool.ExecContext(ctx, "UPDATE baton_sessions SET expires = expires + INTERVAL '60' SECOND")
			if err != nil {
				return err
			}
			if err := db.Restart(ctx); err != nil {
				return err
			}
			return db.use(ctx)
		},
	}
}

// use connects the pool again.
func (db *database) use(ctx context.Context) (err error) {
	for range 20 {
		if err = db.pool.PingContext(ctx); err == nil {
			return nil
		}
	}
	return err
}

// one changes one row, as an operator may.
func (db *database) one(ctx context.Context, statement string) error {
	result, err := db.pool.ExecContext(ctx, statement)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("%q changed %d rows", statement, n)
	}
	return err
}

// sessions counts the sessions that have not expired.
func (db *database) sessions(ctx context.Context) (n int, err error) {
	now := map[batonsql.Dialect]string{batonsql.Postgres: "clock_timestamp()", batonsql.MySQL: "UTC_TIMESTAMP(6)"}
	err = db.pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM baton_sessions WHERE expires > "+now[db.dialect]).Scan(&n)
	return n, err
}
