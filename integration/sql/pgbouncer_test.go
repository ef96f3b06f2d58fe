package sql_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/sqlserver"
	"github.com/baton-go/baton/mutex"
)

// TestPgBouncerInTransactionMode: LISTEN succeeds there, but no notification
// arrives. Clients notice and poll.
func TestPgBouncerInTransactionMode(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	pool, err := sqlserver.NewPgBouncer(soon(t), db.Server)
	ok(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	client := func() *coordinator.Client {
		// Before 1.24 PgBouncer does not keep prepared statements by default.
		c, err := coordinator.Open(db.ttlURL(pool.Addr())+"&default_query_exec_mode=exec", silent)
		ok(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	var wg sync.WaitGroup
	count := 0
	for range 3 {
		m, err := mutex.New(client(), "bouncer")
		ok(t, err)
		for range 2 {
			wg.Go(func() {
				for range 10 {
					if err := m.Do(soon(t), func(context.Context, *mutex.Lock) error { count++; return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if count != 60 {
		t.Errorf("%d of 60 rounds", count)
	}
	// The successor of a contender that holds for longer polls.
	m, err := mutex.New(client(), "bouncer")
	ok(t, err)
	next, err := mutex.New(client(), "bouncer")
	ok(t, err)
	l, err := m.Lock(soon(t))
	ok(t, err)
	wg.Go(func() {
		if err := next.Do(soon(t), func(context.Context, *mutex.Lock) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	await.Until(t, "it is queued", func() bool { return db.left(t) == 2 })
	await.For(l.Context(), 2*time.Second)
	ok(t, l.Unlock(soon(t)))
	wg.Wait()
}
