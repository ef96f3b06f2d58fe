package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/mutex"
)

func init() { proc.Register("update", updateWorker) }

// pausesTTL is the TTL of all sessions of the pause benchmark.
const pausesTTL = 2 * time.Second

// heldLock is a held lock of any library.
type heldLock struct {
	token int64 // zero if the library has no tokens
	// alive is the check that a careful user makes before a write.
	alive  func() bool
	unlock func()
}

// lockers open a client and return its lock, given a URL or endpoints.
var lockers = map[string]func(where, name string) (func(context.Context) (heldLock, error), error){
	"baton": batonLocker, "etcd": etcdLocker, "go-zookeeper": zkLocker,
}

func batonLocker(url, name string) (func(context.Context) (heldLock, error), error) {
	c, err := coordinator.Open(url, silent)
	if err != nil {
		return nil, err
	}
	m, err := mutex.New(c, name)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (heldLock, error) {
		l, err := m.Lock(ctx)
		if err != nil {
			return heldLock{}, err
		}
		return heldLock{
			token: int64(l.Token()),
			alive: func() bool { return l.Context().Err() == nil },
			unlock: func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_ = l.Unlock(ctx) // continues in the background after a timeout
			},
		}, nil
	}, nil
}

// etcdLocker is etcd's own concurrency.Mutex, with a new session after the end
// of the last.
func etcdLocker(endpoints, name string) (func(context.Context) (heldLock, error), error) {
	c, err := etcdserver.NewClient(strings.Split(endpoints, ",")...)
	if err != nil {
		return nil, err
	}
	var s *concurrency.Session
	return func(ctx context.Context) (heldLock, error) {
		if s == nil || isClosed(s.Done()) {
			if s, err = concurrency.NewSession(c, concurrency.WithTTL(int(pausesTTL/time.Second))); err != nil {
				s = nil
				return heldLock{}, err
			}
		}
		session := s
		ctx, cancel := context.WithCancel(ctx) // a waiter whose lease has ended would wait for ever
		defer cancel()
		go func() {
			select {
			case <-session.Done():
				cancel()
			case <-ctx.Done():
			}
		}()
		m := concurrency.NewMutex(session, "/pauses/"+name)
		if err := m.Lock(ctx); err != nil {
			return heldLock{}, err
		}
		return heldLock{
			alive: func() bool { return !isClosed(session.Done()) },
			unlock: func() {
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				_ = m.Unlock(ctx)
			},
		}, nil
	}, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// zkLocker is go-zookeeper's own Lock. The connection gets a new session by
// itself when the last has ended.
func zkLocker(endpoints, name string) (func(context.Context) (heldLock, error), error) {
	c, _, err := zk.Connect(strings.Split(endpoints, ","), pausesTTL, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	return func(context.Context) (heldLock, error) {
		l := zk.NewLock(c, "/pauses/"+name, zk.WorldACL(zk.PermAll)) // a lock whose Unlock failed cannot be used again
		if err := l.Lock(); err != nil {
			return heldLock{}, err
		}
		return heldLock{
			alive: func() bool { return c.State() == zk.StateHasSession },
			unlock: func() {
				// Unlock does not retry, and the entry would remain as long as
				// the session.
				for range 30 {
					if err := l.Unlock(); err == nil || errors.Is(err, zk.ErrNoNode) {
						return
					}
					await.For(context.Background(), 100*time.Millisecond)
				}
			},
		}, nil
	}, nil
}

// updateWorker repeatedly adds one to the register under a lock: library,
// address of the service, name, register, its number, and whether it checks
// before it writes. It ends with the register.
func updateWorker(ctx context.Context, _ *proc.IO, args []string) error {
	client, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	lock, err := lockers[args[0]](args[1], args[2])
	if err != nil {
		return err
	}
	register, conn, err := dialRegister(args[3], client)
	if err != nil {
		return err
	}
	defer conn.Close()
	for ctx.Err() == nil {
		t, err := lock(ctx)
		if err != nil {
			await.For(ctx, 20*time.Millisecond) // for example, its session was lost
			continue
		}
		err = update(register, t, args[5] == "looks")
		t.unlock()
		switch {
		case errors.Is(err, errRefused):
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the register: %w", err)
		}
	}
	return nil
}

// update reads, thinks, checks the hold if looks is set, prepares the write,
// and writes. In real programs a write is not instantaneous either: a request
// is assembled, a connection is taken from a pool, a page is flushed.
func update(r *registerClient, t heldLock, looks bool) error {
	value, err := r.ask("read", 0, t.token)
	if err != nil {
		return err
	}
	await.For(context.Background(), rand.N(40*time.Millisecond))
	if looks && !t.alive() {
		_, err := r.ask("told", 0, t.token)
		return err
	}
	await.For(context.Background(), rand.N(10*time.Millisecond))
	_, err = r.ask("write", value+1, t.token)
	return err
}
