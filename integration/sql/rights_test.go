package sql_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
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
				err := m.Do(soon(t), func(context.Context) error {
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
	ok(t, m.Do(soon(t), func(context.Context) error { return nil }))
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
	ok(t, m.Do(soon(t), func(context.Context) error { return nil }))
}
