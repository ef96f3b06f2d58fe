package interop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

func init() {
	proc.Register("baton", worker(openBaton))
	proc.Register("concurrency", worker(openConcurrency))
	proc.Register("lock-service", worker(openLockService))
	proc.Register("go-zookeeper", worker(openGoZooKeeper))
}

// goParty starts a party written in Go.
func goParty(t *testing.T, name string, args ...string) party {
	t.Helper()
	return party{proc.Start(t, name, args...), t, name}
}

// contender acquires a name, and returns its number and its release.
type contender func(ctx context.Context) (order int64, release func(context.Context) error, err error)

// opener makes contenders for a process. Other clients' contenders need a
// session each.
type opener func(ctx context.Context, args []string, recipe, path string) (contender, error)

// worker is a process of one client: see party.
func worker(open opener) proc.Worker {
	return func(ctx context.Context, io *proc.IO, args []string) error {
		var release func(context.Context) error
		for {
			var line string
			if err := io.Recv(ctx, &line); err != nil {
				if errors.Is(err, proc.ErrClosed) {
					return nil
				}
				return err
			}
			w := strings.Fields(line)
			var answer string
			var err error
			switch w[0] {
			case "loop":
				answer, err = "done", loop(ctx, io, open, args, w[1:])
			case "take":
				var c contender
				var order int64
				if c, err = open(ctx, args, w[1], w[2]); err == nil {
					order, release, err = c(ctx)
				}
				answer = fmt.Sprintf("got %d", order)
			case "release":
				answer, err = "released", release(ctx)
			default:
				err = fmt.Errorf("unknown command %q", line)
			}
			if err != nil {
				answer = "error " + err.Error()
			}
			if err := io.Send(answer); err != nil {
				return err
			}
		}
	}
}

func loop(ctx context.Context, io *proc.IO, open opener, args, w []string) error {
	contenders, _ := strconv.Atoi(w[2])
	turns, err := strconv.Atoi(w[3])
	if err != nil {
		return err
	}
	all := make([]contender, contenders)
	for i := range all {
		if all[i], err = open(ctx, args, w[0], w[1]); err != nil {
			return err
		}
	}
	var begin string
	if err := errors.Join(io.Send("ready"), io.Recv(ctx, &begin)); err != nil {
		return err
	}
	errs := make(chan error, contenders)
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			for range turns {
				if err := section(ctx, c, w[0], w[4]); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func section(ctx context.Context, c contender, recipe, dir string) error {
	order, release, err := c(ctx)
	if err != nil {
		return err
	}
	who := os.Getenv("BATON_WORKER")
	switch {
	case recipe == "read":
		err = look(dir, who, order)
	case strings.HasPrefix(recipe, "semaphore"):
		err = stay(dir, who, order, recipe)
	default:
		err = count(dir, who, order)
	}
	return errors.Join(err, release(ctx))
}

func counter(dir string) (int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "counter"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(b))
}

// count is a writer's critical section.
func count(dir, who string, order int64) error {
	n, err := counter(dir)
	if err != nil {
		return err
	}
	await.For(context.Background(), time.Millisecond) // time for an illegal second holder to appear
	if err := os.WriteFile(filepath.Join(dir, "counter"), []byte(strconv.Itoa(n+1)), 0o600); err != nil {
		return err
	}
	return write(dir, "w", who, order)
}

// look is a reader's critical section.
func look(dir, who string, order int64) error {
	before, err := counter(dir)
	if err != nil {
		return write(dir, "torn", who, order)
	}
	await.For(context.Background(), time.Millisecond)
	if after, err := counter(dir); err != nil || after != before {
		return write(dir, "torn", who, order)
	}
	return write(dir, "r", who, order)
}

// stay is a permit holder's critical section: if there are too many holders,
// one of them notices.
func stay(dir, who string, order int64, recipe string) error {
	limit, err := strconv.Atoi(strings.TrimPrefix(recipe, "semaphore"))
	if err != nil {
		return err
	}
	own := filepath.Join(dir, fmt.Sprintf("in-%s-%d", who, order))
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		return err
	}
	await.For(context.Background(), 2*time.Millisecond)
	in, err := filepath.Glob(filepath.Join(dir, "in-*"))
	kind := "p"
	if len(in) > limit {
		kind = "torn"
	}
	return errors.Join(err, write(dir, kind, who, order), os.Remove(own))
}

func write(dir, kind, who string, order int64) error {
	f, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s %d\n", kind, who, order)
	return errors.Join(err, f.Close())
}

// batons has Baton's client, one for all contenders of a process.
var batons struct {
	sync.Mutex
	client *coordinator.Client
}

func openBaton(_ context.Context, args []string, recipe, path string) (contender, error) {
	batons.Lock()
	defer batons.Unlock()
	if batons.client == nil {
		c, err := coordinator.Open(args[0])
		if err != nil {
			return nil, err
		}
		batons.client = c
	}
	return batonContender(batons.client, recipe, path)
}

func batonContender(c *coordinator.Client, recipe, path string) (contender, error) {
	switch recipe {
	case "mutex":
		m, err := mutex.New(c, path)
		return func(ctx context.Context) (int64, func(context.Context) error, error) {
			l, err := m.Lock(ctx)
			if err != nil {
				return 0, nil, err
			}
			return int64(l.Token()), l.Unlock, nil
		}, err
	case "election":
		e, err := election.New(c, path)
		return func(ctx context.Context) (int64, func(context.Context) error, error) {
			l, err := e.Campaign(ctx, []byte("baton"))
			if err != nil {
				return 0, nil, err
			}
			return int64(l.Token()), l.Resign, nil
		}, err
	case "downgrade":
		rw, err := rwlock.New(c, path)
		return func(ctx context.Context) (int64, func(context.Context) error, error) {
			w, err := rw.Lock(ctx)
			if err != nil {
				return 0, nil, err
			}
			r, err := rw.RLock(w.Context())
			if err != nil {
				return 0, nil, err
			}
			return int64(r.Token()), r.Unlock, w.Unlock(ctx)
		}, err
	case "read", "write":
		rw, err := rwlock.New(c, path)
		return func(ctx context.Context) (int64, func(context.Context) error, error) {
			take := rw.Lock
			if recipe == "read" {
				take = rw.RLock
			}
			l, err := take(ctx)
			if err != nil {
				return 0, nil, err
			}
			return int64(l.Token()), l.Unlock, nil
		}, err
	}
	if limit, err := strconv.Atoi(strings.TrimPrefix(recipe, "semaphore")); err == nil {
		s, err := semaphore.New(c, path, limit)
		return func(ctx context.Context) (int64, func(context.Context) error, error) {
			p, err := s.Acquire(ctx, 1)
			if err != nil {
				return 0, nil, err
			}
			return int64(p.Token()), p.Release, nil
		}, err
	}
	return nil, fmt.Errorf("baton has no %s here", recipe)
}

// openConcurrency makes a contender of etcd's own package, with a session of
// its own. args: the endpoints, and the TTL in seconds.
func openConcurrency(ctx context.Context, args []string, recipe, path string) (contender, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(args[0], ",")})
	if err != nil {
		return nil, err
	}
	ttl, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(ttl), concurrency.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if recipe == "election" {
		e := concurrency.NewElection(s, path)
		return func(ctx context.Context) (int64, func(context.Context) error, error) {
			err := e.Campaign(ctx, "concurrency")
			return e.Rev(), e.Resign, err
		}, nil
	}
	m := concurrency.NewMutex(s, path)
	return func(ctx context.Context) (int64, func(context.Context) error, error) {
		err := m.Lock(ctx)
		return reflect.ValueOf(m).Elem().FieldByName("myRev").Int(), m.Unlock, err
	}, nil
}

// openLockService makes a contender of the lock and election services of etcd's
// server, which clients in other languages use, such as jetcd. They take a
// lease and return a key.
func openLockService(ctx context.Context, args []string, recipe, path string) (contender, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(args[0], ",")})
	if err != nil {
		return nil, err
	}
	ttl, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return nil, err
	}
	lease, err := c.Grant(ctx, ttl)
	if err != nil {
		return nil, err
	}
	kept, err := c.KeepAlive(ctx, lease.ID)
	if err != nil {
		return nil, err
	}
	go func() {
		for range kept { // until the process ends
		}
	}()
	if recipe == "election" {
		e := v3electionpb.NewElectionClient(c.ActiveConnection())
		return func(ctx context.Context) (int64, func(context.Context) error, error) {
			won, err := e.Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte(path), Lease: int64(lease.ID), Value: []byte("service")})
			return won.GetLeader().GetRev(), func(ctx context.Context) error {
				_, err := e.Resign(ctx, &v3electionpb.ResignRequest{Leader: won.GetLeader()})
				return err
			}, err
		}, nil
	}
	l := v3lockpb.NewLockClient(c.ActiveConnection())
	return func(ctx context.Context) (int64, func(context.Context) error, error) {
		got, err := l.Lock(ctx, &v3lockpb.LockRequest{Name: []byte(path), Lease: int64(lease.ID)})
		if err != nil {
			return 0, nil, err
		}
		kv, err := c.Get(ctx, string(got.Key))
		if err != nil || len(kv.Kvs) == 0 {
			return 0, nil, fmt.Errorf("the key of the lock was deleted: %w", err)
		}
		return kv.Kvs[0].CreateRevision, func(ctx context.Context) error {
			_, err := l.Unlock(ctx, &v3lockpb.UnlockRequest{Key: got.Key})
			return err
		}, nil
	}, nil
}

// openGoZooKeeper makes a contender of the client library's own lock. args: the
// servers, and the session timeout.
func openGoZooKeeper(_ context.Context, args []string, recipe, path string) (contender, error) {
	if recipe != "mutex" {
		return nil, fmt.Errorf("go-zookeeper has no %s", recipe)
	}
	timeout, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, err
	}
	c, _, err := zk.Connect(strings.Split(args[0], ","), timeout, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	l := zk.NewLock(c, path, zk.WorldACL(zk.PermAll))
	return func(context.Context) (int64, func(context.Context) error, error) {
		if err := l.Lock(); err != nil {
			return 0, nil, err
		}
		_, stat, err := c.Exists(reflect.ValueOf(l).Elem().FieldByName("lockPath").String())
		if err != nil {
			return 0, nil, err
		}
		return stat.Czxid, func(context.Context) error { return l.Unlock() }, nil
	}, nil
}
