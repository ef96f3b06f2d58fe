package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	batonsql "github.com/baton-go/baton/coordinator/sql"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
)

// TestLockAloneEndsExpiredSessions: a non-blocking call meets the entry of a
// dead holder that nobody waits for.
func TestLockAloneEndsExpiredSessions(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		w := proc.Start(t, "sqlholder", db.ttlURL(db.Addr()), "alone")
		var first report
		w.Recv(&first)
		m, err := mutex.New(db.client(t), "alone")
		ok(t, err)
		_, err = m.TryLock(soon(t))
		is(t, err, coordinator.ErrTaken)
		w.Kill()
		await.Until(t, "the dead holder's session expires", func() bool {
			n, err := db.sessions(t.Context())
			ok(t, err)
			return n == 1
		})
		if n := db.left(t); n != 1 {
			t.Fatalf("%d entries before anyone meets that of the dead holder", n)
		}
		l, err := m.TryLock(soon(t))
		ok(t, err)
		ok(t, l.Unlock(soon(t)))
	})
}

func TestWaitersGoOnWithoutNotifications(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	pool := db.open(t)
	pool.SetMaxOpenConns(2) // too few to listen
	d, err := batonsql.New(pool, batonsql.Postgres, "polling")
	ok(t, err)
	c, err := coordinator.New(d, silent, coordinator.WithTTL(ttl))
	ok(t, err)
	defer c.Close(context.Background())
	m, err := mutex.New(c, "m")
	ok(t, err)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for range 5 {
				if err := m.Do(soon(t), func(context.Context, *mutex.Lock) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var n int
	ok(t, db.pool.QueryRow("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%LISTEN %' AND pid <> pg_backend_pid()").Scan(&n))
	if n != 0 {
		t.Errorf("%d connections listen", n)
	}
}

func TestFirstErrorsSayWhatToDo(t *testing.T) {
	eachServer(t, func(t *testing.T, db *database) {
		drop := "DROP TABLE baton_schema"
		created, err := batonsql.Migrate(soon(t), db.pool, db.dialect) // again
		ok(t, err)
		if created {
			t.Error("the tables were created again")
		}
		_, err = db.pool.Exec("UPDATE baton_schema SET version = 2")
		ok(t, err)
		m, err := mutex.New(db.client(t), "m")
		ok(t, err)
		for _, err := range []error{
			errOf(m.TryLock(soon(t))), errOf(batonsql.Migrate(soon(t), db.pool, db.dialect)),
		} {
			is(t, err, coordinator.ErrRefused)
			contains(t, err, "version 2")
		}
		_, err = db.pool.Exec(drop)
		ok(t, err)
		err = errOf(m.TryLock(soon(t)))
		is(t, err, coordinator.ErrRefused)
		contains(t, err, "baton migrate")
		absent, err := mutex.New(opened(t, strings.Replace(db.URL(db.Addr()), "/"+db.name, "/absent", 1)), "m")
		ok(t, err)
		err = errOf(absent.TryLock(soon(t)))
		is(t, err, coordinator.ErrRefused)
		if strings.Contains(err.Error(), "baton migrate") { // which does not create it
			t.Error(err)
		}
		db.Process().Kill()
		await.Until(t, "the error without a server is ErrUnavailable", func() bool { // children of PostgreSQL may still serve
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return errors.Is(errOf(m.Lock(short)), coordinator.ErrUnavailable)
		})
	})
}

// TestMigrationsRunAtOnce: a new version starts on several machines.
func TestMigrationsRunAtOnce(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			db := k.empty(t, k.shared(t))
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if _, err := batonsql.Migrate(soon(t), db.pool, k.dialect); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			m, err := mutex.New(db.client(t), "m")
			ok(t, err)
			ok(t, m.Do(soon(t), func(context.Context, *mutex.Lock) error { return nil }))
		})
	}
}

// TestOpenWaitsForNoOtherSession: a join of another session holds its lock.
func TestOpenWaitsForNoOtherSession(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		s := db.session(t)
		tx, err := db.pool.BeginTx(t.Context(), nil)
		ok(t, err)
		defer tx.Rollback()
		lock := map[batonsql.Dialect]string{batonsql.Postgres: "FOR SHARE", batonsql.MySQL: "LOCK IN SHARE MODE"}[db.dialect]
		_, err = tx.Exec("SELECT id FROM baton_sessions WHERE id = '" + s.ID() + "' " + lock)
		ok(t, err)
		db.session(t)
	})
}

// TestOpenWaitsForNoLockOfADeadSession: one that nobody can end now, since a
// transaction has locked its row or its queue, would keep all others from
// opening.
func TestOpenWaitsForNoLockOfADeadSession(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	dead := db.session(t)
	_, err := dead.Join(soon(t), driver.NewQueue("mutex", "a"), driver.Contender{ID: "0123456789abcdef", Mode: "x"})
	ok(t, err)
	ok(t, db.one(soon(t), "UPDATE baton_sessions SET expires = '2001-01-01'"))
	for _, table := range []string{"baton_queues", "baton_sessions"} {
		tx, err := db.pool.BeginTx(t.Context(), nil)
		ok(t, err)
		defer tx.Rollback()
		_, err = tx.Exec("SELECT * FROM " + table + " FOR UPDATE")
		ok(t, err)
		ok(t, db.session(t).Close(soon(t)))
		ok(t, tx.Rollback())
		if n := db.left(t); n != 1 {
			t.Errorf("%d entries after an Open while %s was locked", n, table)
		}
	}
	ok(t, db.session(t).Close(soon(t)))
	if n := db.left(t); n != 0 {
		t.Errorf("%d entries, and the next Open could have ended their session", n)
	}
}

// TestOpenWaitsAMomentForALockOfADeadSession: MySQL has no statement for both
// of its kinds that skips a row that is locked.
func TestOpenWaitsAMomentForALockOfADeadSession(t *testing.T) {
	t.Parallel()
	k := kinds[1]
	server := servers.NewSQL(t, k.start)
	db := k.migrated(t, server)
	// In place of the default, 50 s, after which Open would fail.
	_, err := db.pool.Exec("SET GLOBAL innodb_lock_wait_timeout = 3")
	ok(t, err)
	dead := db.session(t)
	ok(t, db.one(soon(t), "UPDATE baton_sessions SET expires = '2001-01-01'"))
	tx, err := db.pool.BeginTx(t.Context(), nil)
	ok(t, err)
	defer tx.Rollback()
	_, err = tx.Exec("SELECT id FROM baton_sessions WHERE id = ? FOR UPDATE", dead.ID())
	ok(t, err)
	ok(t, db.session(t).Close(soon(t)))
	ok(t, tx.Rollback())
	ok(t, db.session(t).Close(soon(t)))
	var n int
	ok(t, db.pool.QueryRow("SELECT COUNT(*) FROM baton_sessions").Scan(&n))
	if n != 0 {
		t.Errorf("%d sessions, and the next Open could have ended the dead one", n)
	}
	conn, err := db.pool.Conn(soon(t))
	ok(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(soon(t), "SET innodb_lock_wait_timeout = 7")
	ok(t, err)
	_, err = conn.ExecContext(soon(t), "CALL baton_open('0123456789abcdef', 1000000)")
	ok(t, err)
	ok(t, conn.QueryRowContext(soon(t), "SELECT @@innodb_lock_wait_timeout").Scan(&n))
	if n != 7 {
		t.Errorf("Open has set the timeout of a connection to %d s", n)
	}
}

// TestRepeatedTokenIsNotOnesOwn: a replica that was promoted without a join has
// given its token to another contender.
func TestRepeatedTokenIsNotOnesOwn(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		s := db.session(t)
		defer s.Close(context.Background())
		queue := driver.NewQueue("mutex", "a")
		own, err := s.Join(soon(t), queue, driver.Contender{ID: "0123456789abcdef", Mode: "x"})
		ok(t, err)
		ok(t, db.one(soon(t), "UPDATE baton_entries SET contender = '123456789abcdef0'"))
		if view, err := s.Ahead(soon(t), queue, own.Place); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%v, %v; want ErrGone", view, err)
		}
		short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		ok(t, s.Watch(short, queue, own.Place))
	})
}

// session opens a session of a driver of its own.
func (db *database) session(t *testing.T) driver.Session {
	t.Helper()
	u, err := url.Parse(db.URL(db.Addr()))
	ok(t, err)
	d, err := batonsql.Open(u)
	ok(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	s, err := d.Open(soon(t), time.Minute)
	ok(t, err)
	return s
}

// joining is a transaction in which a session joins, before its commit.
func (db *database) joining(t *testing.T, s driver.Session) *stdsql.Tx {
	t.Helper()
	tx, err := db.pool.BeginTx(t.Context(), nil)
	ok(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.Exec("SELECT baton_join('m/a', $1, 0, 'c', 'x', '', false, 0)", s.ID())
	ok(t, err)
	return tx
}

// TestRenewalPassesAJoin: a client whose joins overlap all the time keeps its
// session.
func TestRenewalPassesAJoin(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	s := db.session(t)
	db.joining(t, s)
	ok(t, s.Renew(soon(t)))
}

// TestForgetWaitsForTheFirstJoinOfAName: the join that creates the name's row
// has not committed when its contender is forgotten.
func TestForgetWaitsForTheFirstJoinOfAName(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	s := db.session(t)
	tx := db.joining(t, s)
	forgotten := make(chan error, 1)
	go func() {
		_, err := db.pool.ExecContext(soon(t), "SELECT baton_leave('m/a', $1, 1, 'c', 0)", s.ID())
		forgotten <- err
	}()
	await.Until(t, "it waits, or has not", func() bool {
		var n int
		ok(t, db.pool.QueryRow("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n))
		return n > 0 || len(forgotten) > 0
	})
	ok(t, tx.Commit())
	ok(t, <-forgotten)
	if n := db.left(t); n != 0 {
		t.Errorf("%d entries of a forgotten contender", n)
	}
}

// TestJoinThatMeetsADeadlockIsRepeated: an operator locks what a join needs, in
// another order.
func TestJoinThatMeetsADeadlockIsRepeated(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		prepare := "SET deadlock_timeout = '1min'" // the join's is shorter
		if db.dialect == batonsql.MySQL {
			prepare = "CREATE TABLE t SELECT 1 AS n"
		}
		m, err := mutex.New(db.client(t), "deadlock")
		ok(t, err)
		join := func(ctx context.Context) error {
			return m.Do(ctx, func(context.Context, *mutex.Lock) error { return nil })
		}
		ok(t, join(soon(t))) // opens the session
		operator, err := db.pool.Conn(soon(t))
		ok(t, err)
		defer operator.Close()
		locks := []string{"SELECT id FROM baton_sessions FOR UPDATE", "SELECT name FROM baton_queues FOR UPDATE"}
		for _, q := range []string{prepare, "BEGIN", locks[0]} {
			_, err := operator.ExecContext(soon(t), q)
			ok(t, err)
		}
		if db.dialect == batonsql.MySQL { // which ends the transaction that has changed less
			_, err := operator.ExecContext(soon(t), "INSERT INTO t VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)")
			ok(t, err)
		}
		done := make(chan error, 1)
		go func() { done <- join(soon(t)) }()
		await.Until(t, "the join has the queue, and waits for the session", func() bool {
			var name string
			err := db.pool.QueryRowContext(t.Context(), locks[1]+" SKIP LOCKED").Scan(&name)
			return errors.Is(err, stdsql.ErrNoRows)
		})
		for _, q := range []string{locks[1], "ROLLBACK"} {
			_, err = operator.ExecContext(soon(t), q)
			ok(t, err) // so the join did not commit
		}
		ok(t, <-done)
	})
}

// TestPageOfASessionsEntriesIsNotSorted: the client of many holds reads its
// entries in pages, once per TTL.
func TestPageOfASessionsEntriesIsNotSorted(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	tx, err := db.pool.BeginTx(soon(t), nil)
	ok(t, err)
	defer tx.Rollback()
	_, err = tx.Exec("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
	ok(t, err)
	rows, err := tx.Query("EXPLAIN SELECT queue, token, contender FROM baton_entries WHERE session = 's' " +
		"AND (queue, token) > ('mutex/a', 7) ORDER BY queue, token LIMIT 1000") // as review reads
	ok(t, err)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var line string
		ok(t, rows.Scan(&line))
		plan = append(plan, line)
	}
	ok(t, rows.Err())
	text := strings.Join(plan, "\n")
	if strings.Contains(text, "Sort") || !strings.Contains(text, "Index Cond: ((session = 's'::text) AND (ROW(queue, token) >") {
		t.Errorf("a page is not one range of an index:\n%s", text)
	}
}

// TestSessionWithManyEntriesEndsInSteps: requests are bounded, and one that is
// cut short has done nothing. If one of them had to remove all entries of a
// dead session, it might never end, and no other session open.
func TestSessionWithManyEntriesEndsInSteps(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	const entries, step = 1200, 500
	filled := func() driver.Session {
		t.Helper()
		s := db.session(t)
		_, err := db.pool.Exec(fmt.Sprintf("SELECT baton_join('mutex/many-' || i %% 700, '%s', 0, 'c' || i, 'x', '', false, 0) "+
			"FROM generate_series(1, %d) AS i", s.ID(), entries))
		ok(t, err)
		return s
	}
	end := func(s driver.Session) (outcome string) {
		t.Helper()
		ok(t, db.pool.QueryRow("SELECT outcome FROM baton_end($1, true)", s.ID()).Scan(&outcome))
		return outcome
	}
	s := filled()
	if outcome, n := end(s), db.left(t); outcome != "ok" || n != entries {
		t.Fatalf("%s, and %d entries of a session that lives", outcome, n)
	}
	ok(t, db.one(soon(t), "UPDATE baton_sessions SET expires = clock_timestamp()"))
	if outcome, n := end(s), db.left(t); outcome != "more" || n != entries-step {
		t.Errorf("%s, and %d entries", outcome, n)
	}
	is(t, s.Renew(soon(t)), driver.ErrSessionLost)
	other := db.session(t)
	var name string
	ok(t, db.pool.QueryRow("SELECT substr(queue, 7) FROM baton_entries LIMIT 1").Scan(&name))
	list, err := other.List(soon(t), driver.NewQueue("mutex", name), 0) // meets the rest
	ok(t, err)
	if n := db.left(t); n != 0 || len(list) != 0 {
		t.Errorf("%d entries, %v in the queue", n, list)
	}
	ok(t, filled().Close(soon(t)))
	if n := db.left(t); n != 0 {
		t.Errorf("%d entries after Close", n)
	}
}

// TestAnswersThatNoRoutineGivesAreErrors: a proxy may answer a call by itself,
// without a row, and the routines may be another program's. No renewal, join or
// release counts then.
func TestAnswersThatNoRoutineGivesAreErrors(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		s, queue := db.closed(t), driver.NewQueue("mutex", "a")
		own := joined(t, s, queue, "0123456789abcde1")
		for routine, call := range map[string]func() error{
			"renew": func() error { return s.Renew(soon(t)) },
			"leave": func() error { return s.Leave(soon(t), queue, own) },
			"join": func() error {
				return errOf(s.Join(soon(t), queue, driver.Contender{ID: "0123456789abcde2", Mode: "x"}))
			},
			"set_record": func() error { return errOf(s.SetRecord(soon(t), queue, []byte("v"), 0)) },
			"end":        func() error { return db.session(t).Close(soon(t)) },
		} {
			ok(t, db.answer(t, routine))
			is(t, call(), driver.ErrUnavailable)
		}
	})
}

// answer replaces a routine by one that does nothing: it returns another
// outcome on PostgreSQL, and no row on MySQL.
func (db *database) answer(t *testing.T, routine string) (err error) {
	t.Helper()
	replace := []string{"DROP PROCEDURE baton_" + routine, "CREATE PROCEDURE baton_" + routine + "(%s) BEGIN END"}
	arguments := "SELECT COALESCE(GROUP_CONCAT(CONCAT(parameter_name, ' ', dtd_identifier) ORDER BY ordinal_position), '') " +
		"FROM information_schema.parameters WHERE specific_schema = DATABASE() AND specific_name = 'baton_" + routine + "'"
	if db.dialect == batonsql.Postgres {
		replace = []string{"CREATE OR REPLACE FUNCTION baton_" + routine + "(%s) LANGUAGE sql AS $$ SELECT 'yes', CAST(0 AS bigint) $$"}
		arguments = "SELECT pg_get_function_arguments(oid) FROM pg_proc WHERE proname = 'baton_" + routine + "'"
	}
	var list string
	if err = db.pool.QueryRow(arguments).Scan(&list); err != nil {
		return err
	}
	for _, q := range replace {
		if strings.Contains(q, "%s") {
			q = fmt.Sprintf(q, list)
		}
		if _, err = db.pool.Exec(q); err != nil {
			return err
		}
	}
	return nil
}
