package sql_test

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	batonsql "github.com/baton-go/baton/coordinator/sql"
	"github.com/baton-go/baton/integration/internal/await"
)

// locked is a queue with the entry of a dead session, whose row a transaction
// has locked, so that nobody can end it.
type locked struct {
	queue driver.Queue
	dead  driver.Place
	tx    *stdsql.Tx
}

func (db *database) locked(t *testing.T) locked {
	t.Helper()
	l := locked{queue: driver.NewQueue("semaphore", "a")}
	s := db.closed(t)
	l.dead = joined(t, s, l.queue, "0123456789abcde0")
	ok(t, db.one(soon(t), "UPDATE baton_sessions SET expires = '2001-01-01' WHERE id = '"+s.ID()+"'"))
	var err error
	l.tx, err = db.pool.BeginTx(t.Context(), nil)
	ok(t, err)
	t.Cleanup(func() { _ = l.tx.Rollback() })
	_, err = l.tx.Exec("SELECT id FROM baton_sessions WHERE id = '" + s.ID() + "' FOR UPDATE")
	ok(t, err)
	return l
}

// closed opens a session that is closed at the end.
func (db *database) closed(t *testing.T) driver.Session {
	t.Helper()
	s := db.session(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func joined(t *testing.T, s driver.Session, queue driver.Queue, id string) driver.Place {
	t.Helper()
	j, err := s.Join(soon(t), queue, driver.Contender{ID: id, Mode: "p1"})
	ok(t, err)
	return j.Place
}

// request returns a context as requests have it.
func request(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// blocked counts the statements in the database that wait for a lock.
func (db *database) blocked(t *testing.T) (n int) {
	t.Helper()
	query := "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	if db.dialect == batonsql.MySQL {
		// Not innodb_trx, which is not read again while it is read often.
		query = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() " +
			"AND info LIKE 'DELETE FROM baton_sessions%'"
	}
	ok(t, db.pool.QueryRowContext(soon(t), query).Scan(&n))
	return n
}

// TestDeadEntryCountsWhileItsSessionIsLocked: reads do not fail, but show it.
// While they wait they take none of the client's connections, which other names
// need.
func TestDeadEntryCountsWhileItsSessionIsLocked(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		l, s := db.locked(t), db.closed(t)
		var wg sync.WaitGroup
		const contenders = 8 // more than connections
		for i := range contenders {
			own := joined(t, s, l.queue, fmt.Sprintf("0123456789abcdf%d", i))
			wg.Go(func() {
				view, err := s.Ahead(request(t), l.queue, own)
				if err != nil || len(view.Ahead) == 0 || view.Ahead[0].ID != l.dead.ID {
					t.Errorf("the read of a contender: %v, %v", view.Ahead, err)
				}
			})
		}
		_, err := s.Join(request(t), driver.NewQueue("semaphore", "b"), driver.Contender{ID: "0123456789abcdea", Mode: "p1"})
		ok(t, err)
		wg.Wait()
		list, err := s.List(request(t), l.queue, 0)
		if err != nil || len(list) != 1+contenders {
			t.Errorf("a list has %d entries, %v", len(list), err)
		}
		_, err = s.Join(request(t), l.queue, driver.Contender{ID: "0123456789abcdeb", Mode: "p1", Alone: true})
		is(t, err, driver.ErrTaken)
		gone := make(chan error, 1)
		go func() { gone <- s.Watch(request(t), l.queue, l.dead) }()
		ok(t, l.tx.Rollback())
		ok(t, <-gone)
		list, err = s.List(soon(t), l.queue, 0)
		ok(t, err)
		if slices.ContainsFunc(list, func(e driver.Entry) bool { return e.ID == l.dead.ID }) {
			t.Error("the wait for the dead entry ended before it left")
		}
	})
}

// TestLockOfADeadSessionEndsNoWait: the client's other waits go on, and end
// when their entries leave.
func TestLockOfADeadSessionEndsNoWait(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		l, s, holder := db.locked(t), db.closed(t), db.closed(t)
		held, wait := joined(t, holder, l.queue, "0123456789abcde1"), make(chan error, 1)
		go func() { wait <- s.Watch(request(t), l.queue, held) }()
		ctx, cancel := context.WithCancel(request(t))
		defer cancel()
		behind := make(chan error, 1)
		go func() { behind <- s.Watch(ctx, l.queue, l.dead) }()
		ended := func() bool { return len(wait)+len(behind) > 0 }
		for range 2 {
			await.Until(t, "a statement waits for the lock", func() bool { return db.blocked(t) > 0 || ended() })
			await.Until(t, "it has given up", func() bool { return db.blocked(t) == 0 || ended() })
		}
		select {
		case err := <-wait:
			t.Fatalf("a wait for a holder ended: %v", err)
		case err := <-behind:
			t.Fatalf("the wait for the dead entry ended: %v", err)
		default:
		}
		ok(t, holder.Leave(soon(t), l.queue, held))
		ok(t, <-wait)
		cancel()
		is(t, <-behind, context.Canceled)
	})
}

// TestDeadSessionEndsOnABusyQueue: a transaction that locks its row waits for
// others that have locked it, for longer than a moment.
func TestDeadSessionEndsOnABusyQueue(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	queue, dead, s := driver.NewQueue("mutex", "a"), db.closed(t), db.closed(t)
	place := joined(t, dead, queue, "0123456789abcde1")
	joined(t, s, queue, "0123456789abcde2")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	held := make(chan struct{}, 2)
	for range cap(held) {
		wg.Go(func() {
			for ctx.Err() == nil {
				tx, err := db.pool.BeginTx(ctx, nil)
				if err != nil {
					return
				}
				if _, err = tx.ExecContext(ctx, "SELECT name FROM baton_queues FOR UPDATE"); err == nil {
					select {
					case held <- struct{}{}:
					default:
					}
					await.For(ctx, 400*time.Millisecond)
				}
				_ = tx.Rollback()
			}
		})
	}
	<-held
	ok(t, db.one(soon(t), "UPDATE baton_sessions SET expires = '2001-01-01' WHERE id = '"+dead.ID()+"'"))
	ok(t, s.Watch(soon(t), queue, place))
}

// TestWaitEndsBesideALockOfADeadSession: one of two places has left, and nobody
// can end the session of the other one now.
func TestWaitEndsBesideALockOfADeadSession(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		queue := driver.NewQueue("semaphore", "a")
		join := func(id string) (driver.Session, driver.Place) {
			s := db.closed(t)
			j, err := s.Join(soon(t), queue, driver.Contender{ID: id, Mode: "p1"})
			ok(t, err)
			return s, j.Place
		}
		left, placeLeft := join("0123456789abcde1")
		dead, placeDead := join("0123456789abcde2")
		waiter, _ := join("0123456789abcde3")
		ok(t, left.Leave(soon(t), queue, placeLeft))
		ok(t, db.one(soon(t), "UPDATE baton_sessions SET expires = '2001-01-01' WHERE id = '"+dead.ID()+"'"))
		tx, err := db.pool.BeginTx(t.Context(), nil)
		ok(t, err)
		defer tx.Rollback()
		_, err = tx.Exec("SELECT id FROM baton_sessions WHERE id = '" + dead.ID() + "' FOR UPDATE")
		ok(t, err)
		ok(t, waiter.Watch(soon(t), queue, placeDead, placeLeft))
	})
}

// TestRenewalThatWaitedTakesNoTimeFromItsSession: it waits for the lock of the
// session's row, and a later one may overtake it. So it counts from the time at
// which it has the lock.
func TestRenewalThatWaitedTakesNoTimeFromItsSession(t *testing.T) {
	t.Parallel()
	k := kinds[1]
	db := k.migrated(t, k.shared(t))
	s := db.closed(t)
	tx, err := db.pool.BeginTx(t.Context(), nil)
	ok(t, err)
	defer tx.Rollback()
	_, err = tx.Exec("SELECT id FROM baton_sessions WHERE id = '" + s.ID() + "' FOR UPDATE")
	ok(t, err)
	renewed := make(chan error, 1)
	go func() { renewed <- s.Renew(soon(t)) }()
	query := "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() " +
		"AND (info LIKE 'UPDATE baton_sessions%' OR info LIKE 'SELECT id INTO v_id FROM baton_sessions%') AND time_ms > 500"
	await.Until(t, "it has waited", func() bool {
		var n int
		ok(t, db.pool.QueryRowContext(soon(t), query).Scan(&n))
		return n > 0 || len(renewed) > 0
	})
	var now string
	ok(t, tx.QueryRow("SELECT CAST(UTC_TIMESTAMP(6) AS CHAR)").Scan(&now))
	ok(t, tx.Rollback())
	ok(t, <-renewed)
	var life time.Duration
	ok(t, db.pool.QueryRow("SELECT TIMESTAMPDIFF(MICROSECOND, ?, expires) FROM baton_sessions", now).Scan(&life))
	if life *= time.Microsecond; life < s.TTL() {
		t.Errorf("the session has %v from the time at which the renewal got the lock; want %v", life, s.TTL())
	}
}

// TestEntryWithoutASessionIsNoContender: foreign keys can be switched off, for
// an import or by a pool's settings. Then an entry stays when its session ends.
func TestEntryWithoutASessionIsNoContender(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		ended, s, queue := db.closed(t), db.closed(t), driver.NewQueue("mutex", "a")
		joined(t, ended, queue, "0123456789abcde1")
		conn, err := db.pool.Conn(soon(t))
		ok(t, err)
		defer conn.Close()
		off := "SET session_replication_role = replica"
		if db.dialect == batonsql.MySQL {
			off = "SET foreign_key_checks = 0"
		}
		for _, q := range []string{off, "DELETE FROM baton_sessions WHERE id = '" + ended.ID() + "'"} {
			_, err = conn.ExecContext(soon(t), q)
			ok(t, err)
		}
		if n := db.left(t); n != 1 {
			t.Fatalf("%d entries without a session", n)
		}
		own, err := s.Join(request(t), queue, driver.Contender{ID: "0123456789abcde2", Mode: "x", Alone: true})
		ok(t, err)
		view, err := s.Ahead(soon(t), queue, own.Place)
		if err != nil || len(view.Ahead) != 0 {
			t.Errorf("ahead of the only contender: %v, %v", view.Ahead, err)
		}
		_, err = s.Join(request(t), queue, driver.Contender{ID: "0123456789abcde3", Mode: "x", Alone: true})
		is(t, err, driver.ErrTaken)
	})
}
