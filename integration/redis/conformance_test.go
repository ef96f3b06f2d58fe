package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/redis"
	"github.com/baton-go/baton/integration/internal/redisserver"
)

const (
	noPush = "the proxy cannot tell messages from replies; TestReleaseWakesOneWaiter counts them"
	core   = "the driver has the core and the handoff"
)

var lacks = map[coordinatortest.Lever]string{
	coordinatortest.Events:       noPush,
	coordinatortest.Compact:      "Redis keeps no history",
	coordinatortest.Stall:        "a client uses one server, the primary",
	coordinatortest.Converter:    core,
	coordinatortest.Writer:       core,
	coordinatortest.HeadWatcher:  core,
	coordinatortest.QueueWatcher: core,
	coordinatortest.Operator:     core,
	coordinatortest.External:     "the driver has no external sessions",
}

// TestConformance runs the suite. Its cases wait most of the time, so some run
// at a time, on a server each.
func TestConformance(t *testing.T) {
	t.Parallel()
	free := make(chan levers, 8)
	for range cap(free) {
		free <- levers{nodes: []*redisserver.Server{start(t, redisserver.Options{AppendOnly: true})}}
	}
	var mine sync.Map // the servers of cases
	h := levers{}.harness()
	h.Start = func(t *testing.T) coordinatortest.Service {
		l, again := mine.Load(t) // a case that runs again
		if !again {
			t.Parallel()
			l = <-free
			t.Cleanup(func() { free <- l.(levers) })
			mine.Store(t, l)
		}
		return l.(levers).start(t)
	}
	coordinatortest.Run(t, h)
}

// levers does what an operator or a fault does to the service.
type levers struct {
	nodes   []*redisserver.Server
	cluster bool
}

func (l levers) harness() coordinatortest.Harness {
	return coordinatortest.Harness{
		Start: l.start, TTL: 3 * time.Second, Patience: 20 * time.Second, Attempts: 3,
		OddTTL: 3*time.Second + 1, GrantedTTL: 3 * time.Second, Lacks: lacks,
	}
}

func (l levers) start(t *testing.T) coordinatortest.Service {
	return coordinatortest.Service{
		Connect:  func() (coordinatortest.Client, error) { return l.connect(t) },
		Expire:   l.expire,
		Remove:   l.remove,
		Restart:  l.restart,
		Watches:  l.watches,
		Sessions: l.sessions,
	}
}

// connect makes a client behind proxies. The members of a cluster tell it their
// own addresses, which its dialer replaces by those of the proxies.
func (l levers) connect(t *testing.T) (coordinatortest.Client, error) {
	var addrs []string
	for _, n := range l.nodes {
		addrs = append(addrs, n.Addr())
	}
	link := netproxy.NewNetwork(t, addrs)
	if !l.cluster {
		d, err := redis.Open(&url.URL{Scheme: "redis", Host: strings.Join(link.Addrs(), ","), Path: "/conformance"})
		return coordinatortest.Client{Driver: d, Link: link}, err
	}
	c := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: addrs, MaxRetries: -1, ReadTimeout: 2 * time.Second, DialerRetries: 1,
		Dialer: link.DialContext,
	})
	t.Cleanup(func() { _ = c.Close() })
	d, err := redis.FromClient(c, "conformance")
	return coordinatortest.Client{Driver: d, Link: link}, err
}

// home runs f with a client of the server that has a namespace's keys.
func (l levers) home(ctx context.Context, prefix string, f func(*goredis.Client) error) error {
	for _, n := range l.nodes {
		c := n.Client()
		defer c.Close()
		if !l.cluster {
			return f(c)
		}
		slot, err := c.ClusterKeySlot(ctx, prefix).Result()
		if err != nil {
			return err
		}
		if own, err := c.ClusterCountKeysInSlot(ctx, int(slot)).Result(); err != nil || own > 0 {
			return errors.Join(err, f(c))
		}
	}
	return errors.New("no server has the namespace")
}

const prefix = "baton:{/conformance}:"

// expire does what the package comment advises.
func (l levers) expire(ctx context.Context, s driver.Session) error {
	return l.home(ctx, prefix, func(c *goredis.Client) error {
		return c.ZAddXX(ctx, prefix+"sessions", goredis.Z{Score: 0, Member: s.ID()}).Err()
	})
}

// remove deletes an entry as the scripts do.
func (l levers) remove(ctx context.Context, queue driver.Queue, p driver.Place) error {
	return l.home(ctx, prefix, func(c *goredis.Client) error {
		key := prefix + "q:" + string(queue)
		n, err := c.ZRemRangeByScore(ctx, key, p.Key, p.Key).Result()
		if err == nil && n != 1 {
			err = fmt.Errorf("%d entries removed", n)
		}
		if err != nil {
			return err
		}
		watches, err := c.ZRangeArgs(ctx, goredis.ZRangeArgs{Key: prefix + "index", ByLex: true,
			Start: "[" + key + ":" + p.Key + " ", Stop: "(" + key + ":" + p.Key + "!"}).Result()
		for _, w := range watches {
			name, session, _ := strings.Cut(w, " ")
			err = errors.Join(err, c.Publish(ctx, prefix+"sessions:"+session, name+" left").Err(),
				c.ZRem(ctx, prefix+"index", w, session+" "+key+" - "+p.Key).Err())
		}
		return err
	})
}

func (l levers) restart(ctx context.Context) error {
	for _, n := range l.nodes {
		n.Kill()
	}
	for _, n := range l.nodes {
		if err := n.Launch(); err != nil {
			return err
		}
	}
	for _, n := range l.nodes {
		if err := n.AwaitReady(ctx); err != nil {
			return err
		}
	}
	if l.cluster {
		return (&redisserver.Cluster{Masters: l.nodes}).Await(ctx)
	}
	return nil
}

// sessions counts living sessions.
func (l levers) sessions(ctx context.Context) (sum int, err error) {
	err = l.home(ctx, prefix, func(c *goredis.Client) error {
		now, err := c.Time(ctx).Result()
		n, e := c.ZCount(ctx, prefix+"sessions", fmt.Sprint(now.UnixMicro()), "+inf").Result()
		sum = int(n)
		return errors.Join(err, e)
	})
	return sum, err
}

// watches counts the watches in the index.
func (l levers) watches(ctx context.Context) (sum int, err error) {
	err = l.home(ctx, prefix, func(c *goredis.Client) error {
		n, err := c.ZLexCount(ctx, prefix+"index", "["+prefix+"q:", "("+prefix+"q;").Result()
		sum = int(n)
		return err
	})
	return sum, err
}
