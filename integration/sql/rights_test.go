package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	batonsql "github.com/baton-go/baton/coordinator/sql"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/semaphore"
)

// as returns a client's URL with another user.
func (db *database) as(t *testing.T, user string) string {
	t.Helper()
	u, err := url.Parse(db.URL(db.Addr()))
	ok(t, err)
	u.User = url.UserPassword(user, "secret")
	return u.String()
}

// TestDocumentedRightsSuffice: those in docs/operations.md.
func TestDocumentedRightsSuffice(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	role := "limited_" + db.name
	for _, q := range []string{
		"CREATE ROLE " + role + " LOGIN",
		"GRANT USAGE ON SCHEMA public TO " + role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON baton_sessions, baton_queues, baton_tokens, baton_entries TO " + role,
		"GRANT SELECT ON baton_schema, baton_live TO " + role,
	} {
		_, err := db.pool.Exec(q)
		ok(t, err)
	}
	var wg sync.WaitGroup
	for range 2 {
		c := opened(t, db.as(t, role))
		m, err := mutex.New(c, "rights")
		ok(t, err)
		s, err := semaphore.New(c, "rights", 1)
		ok(t, err)
		wg.Go(func() {
			for range 3 {
				err := m.Do(soon(t), func(context.Context, *mutex.Lock) error {
					return s.Do(soon(t), 1, func(context.Context, *semaphore.Permit) error { return nil })
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// stranger returns a connection of a role without rights to Baton's tables.
// RESET ROLE makes it the owner's.
func (db *database) stranger(t *testing.T) *sql.Conn {
	t.Helper()
	conn, err := db.pool.Conn(soon(t))
	ok(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	role := "stranger_" + db.name
	for _, q := range []string{"CREATE ROLE " + role, "SET ROLE " + role} {
		_, err := conn.ExecContext(soon(t), q)
		ok(t, err)
	}
	return conn
}

// TestExamineWarnsOfASchemaOpenToAll: as "public" is up to PostgreSQL 14. The
// test shows what a role without any right to Baton's tables can do then.
func TestExamineWarnsOfASchemaOpenToAll(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	warnings := func() (all []driver.Finding) {
		for _, f := range db.client(t).Examine(soon(t)) {
			if f.About == "rights" && strings.Contains(f.Text, "each role may create functions in the schema") {
				all = append(all, f)
			}
		}
		return all
	}
	if all := warnings(); len(all) != 0 {
		t.Errorf("%v", all)
	}
	_, err := db.pool.Exec("GRANT CREATE ON SCHEMA public TO PUBLIC")
	ok(t, err)
	_, err = db.stranger(t).ExecContext(soon(t), `
		CREATE FUNCTION baton_join(p_queue text, p_session text, p_epoch bigint, p_contender text,
			p_mode text, p_value text, p_alone boolean, p_version bigint, OUT outcome text, OUT number bigint)
			LANGUAGE sql AS $$ SELECT 'first', 7 $$`)
	ok(t, err)
	s := db.session(t)
	defer s.Close(context.Background())
	j, err := s.Join(soon(t), driver.NewQueue("mutex", "a"), driver.Contender{ID: "0123456789abcdef", Mode: "x"})
	ok(t, err)
	if j.Token != 7 || db.left(t) != 0 {
		t.Errorf("token %v: the role has no power, and the warning is needless", j.Token)
	}
	if all := warnings(); len(all) != 1 || all[0].Grade != driver.Warning || !strings.Contains(all[0].Text, "public") {
		t.Errorf("%v; want one warning", all)
	}
}

// TestLargeValuesAreCut: who may write to the tables can store any size, and
// others list the queue.
func TestLargeValuesAreCut(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		s := db.session(t)
		defer s.Close(context.Background())
		queue := driver.NewQueue("mutex", "a")
		_, err := s.Join(soon(t), queue, driver.Contender{ID: "0123456789abcdef", Mode: "x"})
		ok(t, err)
		version, err := s.SetRecord(soon(t), queue, []byte("r"), 0)
		ok(t, err)
		large := map[batonsql.Dialect]string{batonsql.Postgres: "CAST(repeat('v', 1000000) AS bytea)", batonsql.MySQL: "REPEAT('v', 1000000)"}[db.dialect]
		ok(t, db.one(soon(t), "UPDATE baton_entries SET value = "+large))
		ok(t, db.one(soon(t), "UPDATE baton_queues SET record = "+large))
		list, err := s.List(soon(t), queue, 0)
		ok(t, err)
		record, err := s.Record(soon(t), queue, version-1)
		ok(t, err)
		const most = 64<<10 + 1
		if len(list) != 1 || len(list[0].Value) != most || len(record.Value) != most {
			t.Errorf("%d entries, the first with %d bytes, and a record of %d; want %d", len(list), len(list[0].Value), len(record.Value), most)
		}
		is(t, s.Watch(soon(t), queue), driver.ErrInvalid) // of no place
	})
}

// TestReadOnlyServerIsNamedInTheError, and the client goes on when it accepts
// writes again.
func TestReadOnlyServerIsNamedInTheError(t *testing.T) {
	t.Parallel()
	k := kinds[1]
	db := k.migrated(t, servers.NewSQL(t, k.start))
	admin, err := db.pool.Conn(soon(t))
	ok(t, err)
	defer admin.Close()
	for _, q := range []string{
		"FLUSH PRIVILEGES", // the server ran without
		"CREATE USER 'writer'@'%' IDENTIFIED BY 'secret'",
		"GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON " + db.name + ".* TO 'writer'@'%'",
	} {
		_, err := admin.ExecContext(soon(t), q)
		ok(t, err)
	}
	m, err := mutex.New(opened(t, db.as(t, "writer"), coordinator.WithTTL(time.Minute)), "m")
	ok(t, err)
	ok(t, m.Do(soon(t), func(context.Context, *mutex.Lock) error { return nil }))
	_, err = admin.ExecContext(soon(t), "SET GLOBAL read_only = 1")
	ok(t, err)
	await.Until(t, "the error names the reason", func() bool {
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.TryLock(short)
		if err == nil {
			t.Fatal("locked on a server that is read-only")
		}
		if !errors.Is(err, coordinator.ErrUnavailable) {
			return false
		}
		contains(t, err, "read-only")
		return true
	})
	_, err = admin.ExecContext(soon(t), "SET GLOBAL read_only = 0")
	ok(t, err)
	ok(t, m.Do(soon(t), func(context.Context, *mutex.Lock) error { return nil }))
}

// TestReadsOfAReplicaAreRefused: a connection stays when its server becomes a
// replica, and proxies send reads there. It lags, and would show a session or
// an entry as gone that it does not have yet.
func TestReadsOfAReplicaAreRefused(t *testing.T) {
	eachServer(t, func(t *testing.T, db *database) {
		begin, end := "SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"
		if db.dialect == batonsql.Postgres {
			begin = "CREATE FUNCTION pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'"
			end = "DROP FUNCTION public.pg_is_in_recovery()"
			_, err := db.pool.Exec("ALTER DATABASE " + db.name + " SET search_path = public, pg_catalog")
			ok(t, err)
		}
		s, queue := db.closed(t), driver.NewQueue("mutex", "a")
		first, own := joined(t, s, queue, "0123456789abcde1"), joined(t, s, queue, "0123456789abcde2")
		wait := make(chan error, 1)
		go func() { wait <- s.Watch(request(t), queue, first) }()
		_, err := db.pool.Exec(begin)
		ok(t, err)
		_, err = s.Ahead(request(t), queue, own)
		is(t, err, driver.ErrUnavailable)
		contains(t, err, "read-only")
		is(t, <-wait, driver.ErrUnavailable)
		_, err = s.Record(request(t), queue, driver.Any)
		is(t, err, driver.ErrUnavailable)
		_, err = db.pool.Exec(end)
		ok(t, err)
		_, err = s.Ahead(soon(t), queue, own)
		ok(t, err)
	})
}
