package sql_test

import (
	"context"
	"sync"
	"testing"
	"time"

	batonsql "github.com/baton-go/baton/coordinator/sql"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/barrier"
	"github.com/baton-go/baton/recipes/counter"
)

// safety is the time between reads of a client that is notified.
const safety = 2 * time.Second

// roundsSince returns how often something happened that happens at intervals.
func roundsSince(began time.Time, every time.Duration) int { return int(time.Since(began) / every) }

// TestUncontendedLockTakesTwoStatements: nothing else is sent but renewals.
func TestUncontendedLockTakesTwoStatements(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		m, proxy := db.metered(t)
		lock, err := mutex.New(db.clientAt(t, proxy.Addr()), "pair")
		ok(t, err)
		ok(t, lock.Do(soon(t), func(context.Context, *mutex.Lock) error { return nil })) // opens the session
		m.reset()
		const rounds = 50
		for range rounds {
			ok(t, lock.Do(soon(t), func(context.Context, *mutex.Lock) error { return nil }))
		}
		got := m.get()
		t.Log(got)
		if got["join"] != rounds || got["leave"] != rounds {
			t.Errorf("%d joins and %d leaves in %d rounds", got["join"], got["leave"], rounds)
		}
		delete(got, "join")
		delete(got, "leave")
		delete(got, "renew")
		delete(got, "-- ping") // of connections that were idle for a second
		for kind, n := range got {
			// Of new connections, and of a hold so long that it is watched.
			if kind != "transaction_read_only" && kind != "SET " && kind != "read" && kind != "LISTEN" || n > 10 {
				t.Errorf("%d more statements: %q", n, kind)
			}
		}
	})
}

// TestLatestReadsWriteNothing: a read that has to see all finished writes is
// one statement, and makes no row for a name that was never used.
func TestLatestReadsWriteNothing(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		m, proxy := db.metered(t)
		c := db.clientAt(t, proxy.Addr())
		orders, err := counter.New(c, "never-written")
		ok(t, err)
		gate, err := barrier.New(c, "never-set")
		ok(t, err)
		get := func() {
			n, err := orders.Get(soon(t))
			ok(t, err)
			if ok(t, gate.Wait(soon(t))); n != 0 {
				t.Errorf("Get = %d", n)
			}
		}
		get() // opens the session
		m.reset()
		const rounds = 20
		for range rounds {
			get()
		}
		if got := m.get(); got["read"] < 2*rounds || got["set_record"] != 0 {
			t.Errorf("%v in %d rounds", got, rounds)
		}
		var rows int
		ok(t, db.pool.QueryRow("SELECT COUNT(*) FROM baton_queues WHERE name LIKE '%never-%'").Scan(&rows))
		if rows != 0 {
			t.Errorf("%d rows of names that were only read", rows)
		}
	})
}

// TestReleaseWakesOneWaiter: a release is followed by two or three reads,
// however many contenders wait, in clients of their own: of the entry that a
// notification names, and of the queue. With polling there are more; contenders
// far behind read rarely.
func TestReleaseWakesOneWaiter(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		const waiters = 12
		m, proxy := db.metered(t)
		holder, err := mutex.New(db.client(t), "herd")
		ok(t, err)
		l, err := holder.Lock(soon(t))
		ok(t, err)
		var wg sync.WaitGroup
		turn := make(chan struct{})
		for i := range waiters {
			lock, err := mutex.New(db.clientAt(t, proxy.Addr()), "herd")
			ok(t, err)
			wg.Go(func() {
				l, err := lock.Lock(soon(t))
				if err != nil {
					t.Error(err)
					return
				}
				turn <- struct{}{}
				_ = l.Unlock(soon(t))
			})
			await.Until(t, "it is queued", func() bool { return db.left(t) == i+2 })
		}
		before := m.get()["read"]
		await.Until(t, "the waiters to have read", func() bool { return m.get()["read"] >= before+waiters })
		if db.dialect == batonsql.Postgres { // a client polls until its own notification arrives
			await.Until(t, "each to have sent a notification", func() bool { return m.get()["notify"] >= waiters })
			await.Steady(t, "no more reads", func() int64 { return int64(m.get()["read"]) })
		}
		m.reset()
		began := time.Now()
		ok(t, l.Unlock(soon(t)))
		for range waiters {
			<-turn
		}
		wg.Wait()
		got := m.get()
		t.Log(got)
		// The safety net reads, too, every two seconds. A herd reads 72 times.
		most := waiters * (3 + roundsSince(began, safety))
		if db.dialect == batonsql.MySQL {
			most = 3*waiters + 4*roundsSince(began, time.Millisecond) // the next reads often
		}
		if got["read"] > most {
			t.Errorf("%d reads after %d releases; want at most %d", got["read"], waiters, most)
		}
	})
}

// TestWaitersShareOneReader: as many waiters as the client has send no more
// reads than one.
func TestWaitersShareOneReader(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		m, proxy := db.metered(t)
		c := db.clientAt(t, proxy.Addr())
		holder, err := mutex.New(db.client(t), "shared")
		ok(t, err)
		l, err := holder.Lock(soon(t))
		ok(t, err)
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		var wg sync.WaitGroup
		lock, err := mutex.New(c, "shared")
		ok(t, err)
		reads := func(waiters int) {
			for db.left(t) <= waiters {
				if n := db.left(t); n <= waiters {
					wg.Go(func() { _, _ = lock.Lock(ctx) })
					await.Until(t, "it is queued", func() bool { return db.left(t) > n })
				}
			}
			await.For(t.Context(), safety+100*time.Millisecond) // until reads are rare
			m.reset()
			began := time.Now()
			await.For(t.Context(), safety)
			n, most := m.get()["read"], 2*roundsSince(began, 250*time.Millisecond)
			t.Logf("%d reads for %d waiters", n, waiters)
			if n > most {
				t.Errorf("%d reads for %d waiters; want at most %d", n, waiters, most)
			}
		}
		reads(1)
		reads(40)
		cancel()
		wg.Wait()
		ok(t, l.Unlock(soon(t)))
		await.Until(t, "no entry is left", func() bool { return db.left(t) == 0 })
	})
}

// TestWaiterPollsUntilItsOwnNotificationArrives: behind PgBouncer a client may
// receive notifications of others, and none that concerns itself.
func TestWaiterPollsUntilItsOwnNotificationArrives(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	_, err := db.pool.Exec(`CREATE OR REPLACE FUNCTION baton_channel() RETURNS text LANGUAGE sql AS $$
		SELECT CASE WHEN current_query() LIKE '%LISTEN%' THEN 'others' ELSE 'own' END $$`)
	ok(t, err)
	m, proxy := db.metered(t)
	holder, err := mutex.New(db.client(t), "probe")
	ok(t, err)
	lock, err := mutex.New(db.clientAt(t, proxy.Addr()), "probe")
	ok(t, err)
	l, err := holder.Lock(soon(t))
	ok(t, err)
	ctx, cancel := context.WithCancel(soon(t))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _, _ = lock.Lock(ctx) })
	notify := func() { _, err = db.pool.Exec("NOTIFY others, '1 m/another'"); ok(t, err) }
	await.Until(t, "it listens", func() bool { notify(); return m.get()["LISTEN"] > 0 })
	notify()
	m.reset()
	began := time.Now()
	await.Until(t, "more reads than the safety net's", func() bool {
		notify()
		return m.get()["read"] > 8+int(time.Since(began)/safety)
	})
	ok(t, l.Unlock(soon(t)))
}
