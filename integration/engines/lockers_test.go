package engines_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/redisserver"
	"github.com/baton-go/baton/integration/internal/sqlserver"
	"github.com/baton-go/baton/mutex"
)

const ttl = 30 * time.Second

// locking acquires a lock, and returns what releases it.
type locking func(ctx context.Context) (release func(context.Context) error, err error)

// pair locks and unlocks once.
func (l locking) pair(ctx context.Context) error {
	release, err := l(ctx)
	if err != nil {
		return err
	}
	return release(ctx)
}

// locker makes clients of a lock, each with connections of its own.
type locker func(ctx context.Context, name string) (l locking, end func() error, err error)

// baton is Baton's mutex on a service.
func baton(url string) locker {
	return func(_ context.Context, name string) (locking, func() error, error) {
		c, err := coordinator.Open(url, silent, coordinator.WithTTL(ttl))
		if err != nil {
			return nil, nil, err
		}
		end := func() error { return c.Close(context.Background()) }
		m, err := mutex.New(c, name)
		return func(ctx context.Context) (func(context.Context) error, error) {
			l, err := m.Lock(ctx)
			if err != nil {
				return nil, err
			}
			return l.Unlock, nil
		}, end, err
	}
}

// onRedis makes a locker of a library on a client of Redis.
func onRedis(s *redisserver.Server, library func(c *goredis.Client, name string) locking) locker {
	return func(_ context.Context, name string) (locking, func() error, error) {
		c := s.Client()
		return library(c, name), c.Close, nil
	}
}

// bare cannot wait.
func bare(c *goredis.Client, name string) locking {
	return func(ctx context.Context) (func(context.Context) error, error) {
		set, err := c.SetNX(ctx, name, "token", ttl).Result()
		if err == nil && !set {
			err = errors.New("taken")
		}
		return func(ctx context.Context) error { return c.Del(ctx, name).Err() }, err
	}
}

// bsm polls every 10 ms, as its documentation shows.
func bsm(c *goredis.Client, name string) locking {
	locker, polls := redislock.New(c), &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}
	return func(ctx context.Context) (func(context.Context) error, error) {
		l, err := locker.Obtain(ctx, name, ttl, polls)
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}
}

// redsync4 polls after its default pauses of 50 to 250 ms.
func redsync4(c *goredis.Client, name string) locking {
	rs := redsync.New(redsyncredis.NewPool(c))
	return func(ctx context.Context) (func(context.Context) error, error) {
		m := rs.NewMutex(name, redsync.WithTries(1_000_000), redsync.WithExpiry(ttl))
		release := func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}
		return release, m.LockContext(ctx)
	}
}

// byConnection is a database's own lock, which is bound to a connection. The
// formats have a place for the name.
func byConnection(s *sqlserver.Server, lock, unlock string) locker {
	return func(ctx context.Context, name string) (locking, func() error, error) {
		db, err := s.Open()
		if err != nil {
			return nil, nil, err
		}
		c, err := db.Conn(ctx)
		if err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
		end := func() error { return errors.Join(c.Close(), db.Close()) }
		run := func(format string) func(context.Context) error {
			query := fmt.Sprintf(format, name)
			return func(ctx context.Context) error {
				var result sql.NullString
				return c.QueryRowContext(ctx, query).Scan(&result)
			}
		}
		acquire, release := run(lock), run(unlock)
		return func(ctx context.Context) (func(context.Context) error, error) {
			return release, acquire(ctx)
		}, end, nil
	}
}
