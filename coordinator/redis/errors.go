package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/hint"
)

// hints explain replies to an operator.
var hints = []string{
	"NOAUTH", "give a user and password in the URL",
	"WRONGPASS", "check user and password in the URL",
	"NOPERM", "the user's ACL lacks a right that the comment of package redis lists",
	"DENIED", "Redis is in protected mode: set a password, or bind it to an address",
	"OOM", "Redis has reached maxmemory: raise it, or delete data",
	"MISCONF", "Redis cannot write its snapshot and refuses writes: check its disk",
	"WRONGTYPE", "another program uses a key that begins with the namespace",
	"READONLY", "this server is a replica: a failover is under way, or the URL names a replica",
	"LOADING", "Redis is loading its data after a start",
	"CLUSTERDOWN", "the cluster lacks a master for this slot",
	"MOVED", "the server is part of a cluster: add cluster=true to the URL",
	"command arguments must be strings", "another program wrote to the queue, sorted set q:…, or to the index of the namespace",
	"BUSY", "a script of another client blocks Redis",
}

// wrap makes an error of the contract. The end of ctx explains any error but a
// reply of Redis.
func wrap(ctx context.Context, err error) error {
	var reply goredis.Error
	answered := errors.As(err, &reply)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, goredis.ErrClosed):
		return driver.Wrap(driver.ErrClosed, err)
	case !answered && ctx.Err() != nil:
		return context.Cause(ctx)
	case answered && refused.MatchString(reply.Error()) && !passes.MatchString(reply.Error()):
		return driver.Wrap(driver.ErrRefused, hint.On(err, hints...))
	}
	return driver.Wrap(driver.ErrUnavailable, hint.On(err, hints...))
}

// A retry alone does not help after a reply that is refused. Redis checks
// permissions and memory before a script writes, so nothing was applied. Others
// pass, as broken connections do: READONLY, LOADING, CLUSTERDOWN, TRYAGAIN, …
// Redis 6 returns an error in a script as "ERR Error running script …: -OOM …".
var (
	refused = regexp.MustCompile(
		"^(NOAUTH|WRONGPASS|NOPERM|DENIED|OOM|MISCONF|WRONGTYPE|NOPROTO|ERR) ")
	passes = regexp.MustCompile("max number of clients|-READONLY|-NOREPLICAS")
)

func invalid(format string, args ...any) error {
	return driver.Wrap(driver.ErrInvalid, fmt.Errorf("redis: "+format, args...))
}

// statuses are the replies of scripts that are errors of the contract.
var statuses = map[string]error{
	"lost":  driver.Wrap(driver.ErrSessionLost, errors.New("redis: the session has ended")),
	"gone":  driver.Wrap(driver.ErrGone, errors.New("redis: no such entry")),
	"taken": driver.ErrTaken,
	"stale": driver.ErrStale,
	"late": driver.Wrap(driver.ErrUnavailable,
		errors.New("redis: the request was overtaken by a clean-up of its session")),
}
