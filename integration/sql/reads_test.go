package sql_test

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	batonsql "github.com/baton-go/baton/coordinator/sql"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/mutex"
)

// TestForgedNotificationsEndNoHold: each role of a database can notify on each
// channel. The holder's client reads then, and the hold stays.
func TestForgedNotificationsEndNoHold(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	m, proxy := db.metered(t)
	lock, err := mutex.New(db.clientAt(t, proxy.Addr()), "forged")
	ok(t, err)
	l, err := lock.Lock(soon(t))
	ok(t, err)
	// After a while the holder watches its own entry.
	await.Until(t, "it listens, and has received its own notification", func() bool { return m.get()["notify"] > 0 })
	await.Steady(t, "no more statements", func() (n int64) {
		for _, k := range m.get() {
			n += int64(k)
		}
		return n
	})
	m.reset()
	began := time.Now()
	await.Until(t, "more reads than the safety net's", func() bool {
		_, err := db.pool.Exec("SELECT pg_notify(baton_channel(), $1)", fmt.Sprint(l.Token(), " mutex/forged"))
		ok(t, err)
		if err := l.Err(); err != nil {
			t.Fatalf("a notification ended the hold: %v", err)
		}
		return m.get()["read"] > 3+int(time.Since(began)/safety)
	})
	ok(t, l.Err())
	ok(t, l.Unlock(soon(t)))
}

// TestFailoverThatForgetsAReleaseFreesTheName: a replica that was promoted
// without a release has the entry, whose session lives on.
func TestFailoverThatForgetsAReleaseFreesTheName(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		c := db.shortClient(t, db.Addr())
		lock := func(c *coordinator.Client, name string) *mutex.Lock {
			t.Helper()
			m, err := mutex.New(c, name)
			ok(t, err)
			l, err := m.Lock(soon(t))
			ok(t, err)
			return l
		}
		kept, l := lock(c, "kept"), lock(c, "forgotten")
		_, err := db.pool.Exec("CREATE TABLE saved AS SELECT * FROM baton_entries WHERE queue = 'mutex/forgotten'")
		ok(t, err)
		ok(t, l.Unlock(soon(t)))
		ok(t, db.one(soon(t), "INSERT INTO baton_entries SELECT * FROM saved"))
		next := lock(db.client(t), "forgotten")
		ok(t, next.Unlock(soon(t)))
		ok(t, kept.Err())
		ok(t, kept.Unlock(soon(t)))
	})
}

// TestWaitsOfAClientShareOneStatement: it is prepared once, however many names
// the client waits for, and as many as PostgreSQL has parameters are no limit.
func TestWaitsOfAClientShareOneStatement(t *testing.T) {
	t.Parallel()
	const names = 40
	db := postgres(t)
	m, proxy := db.metered(t)
	holder, c := db.client(t), db.clientAt(t, proxy.Addr())
	var wg sync.WaitGroup
	var held []*mutex.Lock
	for i := range names {
		name := fmt.Sprint("many-", i)
		h, err := mutex.New(holder, name)
		ok(t, err)
		w, err := mutex.New(c, name)
		ok(t, err)
		l, err := h.Lock(soon(t))
		ok(t, err)
		held = append(held, l)
		wg.Go(func() {
			if err := w.Do(soon(t), func(context.Context, *mutex.Lock) error { return nil }); err != nil {
				t.Error(err)
			}
		})
		await.Until(t, "it is queued", func() bool { return db.left(t) == 2*(i+1) })
	}
	reads := m.get()["read"]
	await.Until(t, "all are read once more", func() bool { return m.get()["read"] > reads })
	if n := m.texts("read"); n > 6 {
		t.Errorf("%d statements are prepared for reads", n)
	}
	for _, l := range held {
		ok(t, l.Unlock(soon(t)))
	}
	wg.Wait()
}

// TestManyWaitsOfASessionEnd: more than one statement reads.
func TestManyWaitsOfASessionEnd(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		const entries = 450 // MySQL reads 200 at a time, PostgreSQL 1,000
		a, b := db.session(t), db.session(t)
		queue := driver.NewQueue("mutex", "ends")
		var wg sync.WaitGroup
		var places []driver.Place
		for i := range entries {
			j, err := a.Join(soon(t), queue, driver.Contender{ID: fmt.Sprintf("%016x", i+1), Mode: "x"})
			ok(t, err)
			places = append(places, j.Place)
		}
		ctx := soon(t)
		for _, p := range places {
			wg.Go(func() {
				if err := b.Watch(ctx, queue, p); err != nil {
					t.Error(err)
				}
			})
		}
		for _, p := range places[:entries-1] {
			ok(t, a.Leave(soon(t), queue, p))
		}
		ok(t, a.Close(soon(t)))
		wg.Wait()
		ok(t, b.Close(soon(t)))
	})
}

// TestOpenSnapshotSlowsNoJoin: a snapshot, as pg_dump has one, keeps all row
// versions of a name that is locked again and again. A pair reads no more
// pages, with those versions, than before.
func TestOpenSnapshotSlowsNoJoin(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	s := db.session(t)
	pages := func() (n int) {
		t.Helper()
		contender := time.Now().UnixNano()
		for i, call := range []string{
			fmt.Sprintf("baton_join('mutex/hot', '%s', 0, '%d', 'x', '', true, 0)", s.ID(), contender),
			fmt.Sprintf("baton_leave('mutex/hot', '%s', 0, '%d', 0)", s.ID(), contender),
		} {
			var text string
			ok(t, db.pool.QueryRow("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM "+call).Scan(&text))
			var plans []struct {
				Plan map[string]any
			}
			ok(t, json.Unmarshal([]byte(text), &plans))
			if i == 1 && db.left(t) != 0 {
				t.Fatal("the entry did not leave")
			}
			n += int(plans[0].Plan["Shared Hit Blocks"].(float64) + plans[0].Plan["Shared Read Blocks"].(float64))
		}
		return n
	}
	pages()
	pages() // with plans
	before := pages()
	snapshot, err := db.pool.BeginTx(t.Context(), &stdsql.TxOptions{Isolation: stdsql.LevelRepeatableRead, ReadOnly: true})
	ok(t, err)
	defer snapshot.Rollback()
	_, err = snapshot.Exec("SELECT count(*) FROM baton_queues")
	ok(t, err)
	_, err = db.pool.Exec(fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..3000 LOOP
		PERFORM baton_join('mutex/hot', '%[1]s', 0, 'c' || i, 'x', '', true, 0);
		COMMIT;
		PERFORM baton_leave('mutex/hot', '%[1]s', 0, 'c' || i, 0);
		COMMIT;
	END LOOP; END $$`, s.ID()))
	ok(t, err)
	after := pages()
	t.Logf("a pair reads %d pages, and %d after 3,000 pairs beside an open snapshot", before, after)
	if after > 2*before+20 {
		t.Errorf("a pair reads %d pages, and %d after 3,000 pairs beside an open snapshot", before, after)
	}
	if n := db.left(t); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// TestListeningConnectionsDoNotReturnToAPool: pgxpool would keep them, with all
// notifications that arrive.
func TestListeningConnectionsDoNotReturnToAPool(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	cfg, err := pgxpool.ParseConfig(db.URL(db.Addr()))
	ok(t, err)
	cfg.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(soon(t), cfg)
	ok(t, err)
	defer pool.Close()
	over := stdlib.OpenDBFromPool(pool)
	defer over.Close()
	c := db.on(t, over)
	m, err := mutex.New(c, "pooled")
	ok(t, err)
	l, err := m.Lock(soon(t))
	ok(t, err)
	await.Until(t, "it listens", func() bool { return db.listeners(t) > 0 })
	ok(t, l.Unlock(soon(t)))
	ok(t, c.Close(soon(t)))
	var all []*pgxpool.Conn
	for range cfg.MaxConns {
		conn, err := pool.Acquire(soon(t))
		ok(t, err)
		all = append(all, conn)
	}
	for _, conn := range all {
		var n int
		ok(t, conn.QueryRow(soon(t), "SELECT count(*) FROM pg_listening_channels()").Scan(&n))
		if n != 0 {
			t.Error("a connection that listens has returned to the pool")
		}
		conn.Release()
	}
}

// on makes a client with a short TTL on a pool.
func (db *database) on(t *testing.T, pool *stdsql.DB) *coordinator.Client {
	t.Helper()
	d, err := batonsql.New(pool, db.dialect, "")
	ok(t, err)
	c, err := coordinator.New(d, silent, coordinator.WithTTL(ttl))
	ok(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// listeners counts the connections whose last statement was to listen.
func (db *database) listeners(t *testing.T) (n int) {
	t.Helper()
	ok(t, db.pool.QueryRow("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() "+
		"AND query LIKE '%LISTEN %' AND pid <> pg_backend_pid()").Scan(&n))
	return n
}

// TestClientsOnASmallPoolKeepTheirSessions: each would like a connection for
// notifications, and there are as many as clients.
func TestClientsOnASmallPoolKeepTheirSessions(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	small := db.open(t)
	small.SetMaxOpenConns(3)
	cfg, err := pgxpool.ParseConfig(db.URL(db.Addr()))
	ok(t, err)
	cfg.MaxConns = 3
	pool, err := pgxpool.NewWithConfig(soon(t), cfg)
	ok(t, err)
	defer pool.Close()
	over := stdlib.OpenDBFromPool(pool)
	defer over.Close()
	for name, shared := range map[string]*stdsql.DB{"sql": small, "pgxpool": over} {
		t.Run(name, func(t *testing.T) {
			var held []*mutex.Lock
			for i := range 3 {
				m, err := mutex.New(db.on(t, shared), fmt.Sprint(name, i))
				ok(t, err)
				l, err := m.Lock(soon(t)) // after a while it watches its entry
				ok(t, err)
				held = append(held, l)
			}
			began := time.Now()
			for _, l := range held {
				await.Until(t, "it has been renewed for three TTLs", func() bool {
					ok(t, l.Err())
					return l.Deadline().After(began.Add(3 * ttl))
				})
				ok(t, l.Unlock(soon(t)))
			}
		})
	}
}

// TestFullQueueOfNotificationsLocksNoName: PostgreSQL has one queue of
// notifications for all databases, and one session of any role that listens and
// does not receive can fill it. Then a commit with a notification fails. No
// entry could leave any more, and no dead session could be ended.
func TestFullQueueOfNotificationsLocksNoName(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	for _, q := range []string{ // to fill the queue takes 8 GB
		"ALTER FUNCTION pg_catalog.pg_notification_queue_usage() RENAME TO pg_notification_queue_usage_0",
		"ALTER FUNCTION pg_catalog.pg_notify(text, text) RENAME TO pg_notify_0",
		"CREATE FUNCTION pg_catalog.pg_notification_queue_usage() RETURNS float8 LANGUAGE sql AS 'SELECT 1.0::float8'",
		"CREATE FUNCTION pg_catalog.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS " +
			"$$ BEGIN RAISE program_limit_exceeded USING MESSAGE = 'too many notifications in the NOTIFY queue'; END $$",
	} {
		_, err := db.pool.ExecContext(soon(t), q)
		ok(t, err)
	}
	queue := driver.NewQueue("mutex", "full")
	a, b, c := db.session(t), db.session(t), db.session(t)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	var all []driver.Joined
	for i, s := range []driver.Session{a, b, c} {
		j, err := s.Join(soon(t), queue, driver.Contender{ID: fmt.Sprintf("%016x", i+1), Mode: "x"})
		ok(t, err)
		all = append(all, j)
	}
	ok(t, a.Leave(soon(t), queue, all[0].Place))
	ok(t, c.Watch(soon(t), queue, all[0].Place))
	ok(t, b.Close(soon(t)))
	ok(t, c.Watch(soon(t), queue, all[1].Place))
	_, err := c.SetRecord(soon(t), queue, []byte("limit"), 0)
	ok(t, err)
}

// TestOtherRolesLearnNoNames: a role without rights to Baton's tables does not
// know the channel of notifications, and gets nothing from the functions.
func TestOtherRolesLearnNoNames(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	conn := db.stranger(t)
	for _, q := range []string{
		"SELECT baton_channel()", "SELECT baton_low('mutex/a')", "SELECT * FROM baton_schema", "SELECT * FROM baton_queues",
		"SELECT * FROM baton_join('mutex/a', 's', 0, 'c', 'x', '', true, 0)",
	} {
		if _, err := conn.ExecContext(soon(t), q); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", q, err)
		}
	}
	var name string
	ok(t, db.pool.QueryRow("SELECT baton_channel()").Scan(&name))
	var oid int
	ok(t, db.pool.QueryRow("SELECT CAST('baton_entries'::regclass AS oid)").Scan(&oid))
	if len(name) < 30 || strings.Contains(name, fmt.Sprint(oid)) {
		t.Errorf("the channel %s can be guessed", name)
	}
	// A caller's search_path with other tables of these names changes nothing.
	for _, q := range []string{"RESET ROLE", "CREATE SCHEMA other", "CREATE TABLE other.baton_queues (name text, version bigint, record bytea)",
		"SET search_path = other, public",
		"SELECT * FROM baton_leave('mutex/a', 's', 1, 'c', 0)"} {
		_, err := conn.ExecContext(soon(t), q)
		ok(t, err)
	}
	var n int
	ok(t, conn.QueryRowContext(soon(t), "SELECT count(*) FROM other.baton_queues").Scan(&n))
	if n != 0 {
		t.Error("a function has used the tables of a caller's schema")
	}
}
