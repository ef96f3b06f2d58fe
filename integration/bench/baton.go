package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/zookeeper" // for the scheme zk
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// defaultTTL is the TTL of the sessions here, Baton's and others', unless the
// load sets Baton's.
const defaultTTL = 30 * time.Second

// callBound bounds calls that take milliseconds unless something is broken.
const callBound = 30 * time.Second

// batonParty is one of Baton's recipes, with one client per connection.
type batonParty struct {
	clients []*coordinator.Client
	also    []func() // closes what the clients do not own
	recipe  recipe
	l       load
}

// recipe makes a contender of a name.
type recipe func(c *coordinator.Client, name string, l load) (contender, error)

func openBaton(ctx context.Context, a access, l load, r recipe) (party, error) {
	p := &batonParty{recipe: r, l: l}
	for range l.connections() {
		if err := p.connect(ctx, a); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// connect opens a client by URL, as programs do. If etcd's requests are
// counted, it passes a client with counters.
func (p *batonParty) connect(ctx context.Context, a access) error {
	var c *coordinator.Client
	var err error
	if a.dial != nil {
		c, err = p.overClient(a)
	} else {
		scheme := map[string]string{"etcd": "etcd", "zookeeper": "zk"}[a.service]
		c, err = coordinator.Open(fmt.Sprintf("%s://%s/baton?ttl=%v", scheme, strings.Join(a.addrs, ","), p.l.sessionTTL()))
	}
	if err != nil {
		return err
	}
	p.clients = append(p.clients, c)
	_, err = c.Session(ctx)
	return err
}

func (p *batonParty) overClient(a access) (*coordinator.Client, error) {
	client, err := newEtcdClient(a)
	if err != nil {
		return nil, err
	}
	p.also = append(p.also, func() { _ = client.Close() })
	d, err := etcd.FromClient(client, etcd.Namespace("baton"))
	if err != nil {
		return nil, err
	}
	return coordinator.New(d, coordinator.WithTTL(p.l.sessionTTL()))
}

func newEtcdClient(a access) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: a.addrs, DialTimeout: 5 * time.Second, DialOptions: a.dial, Logger: zap.NewNop(),
	})
}

func (p *batonParty) contender(i int, name string) (contender, error) {
	return p.recipe(p.clients[i%len(p.clients)], name, p.l)
}

func (p *batonParty) close() {
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	defer cancel()
	for _, c := range p.clients {
		_ = c.Close(ctx)
	}
	for _, f := range p.also {
		f()
	}
}

// taker is a contender of any recipe.
type taker struct {
	lock   func(ctx context.Context) (func(context.Context) error, error)
	unlock func(context.Context) error
}

func (t *taker) acquire(ctx context.Context) (err error) {
	t.unlock, err = t.lock(ctx)
	return err
}

func (t *taker) release(ctx context.Context) error {
	if t.unlock == nil {
		return errors.New("bench: released twice")
	}
	unlock := t.unlock
	t.unlock = nil
	return unlock(ctx)
}

func batonMutex(c *coordinator.Client, name string, _ load) (contender, error) {
	m, err := mutex.New(c, name)
	if err != nil {
		return nil, err
	}
	return &taker{lock: func(ctx context.Context) (func(context.Context) error, error) {
		l, err := m.Lock(ctx)
		if err != nil {
			return nil, err
		}
		return l.Unlock, nil
	}}, nil
}

// readWriter is a contender that reads, or writes.
type readWriter struct {
	read, write taker
}

func (r *readWriter) acquire(ctx context.Context) error { return r.read.acquire(ctx) }
func (r *readWriter) release(ctx context.Context) error { return r.read.release(ctx) }

// batonReads makes contenders of read-write locks: those of a client use one
// object, as the goroutines of a program do.
func batonReads(opts ...rwlock.Option) recipe {
	type use struct {
		c    *coordinator.Client
		name string
	}
	var mu sync.Mutex
	locks := map[use]*rwlock.RWLock{}
	return func(c *coordinator.Client, name string, _ load) (contender, error) {
		mu.Lock()
		defer mu.Unlock()
		l := locks[use{c, name}]
		if l == nil {
			var err error
			if l, err = rwlock.New(c, name, opts...); err != nil {
				return nil, err
			}
			locks[use{c, name}] = l
		}
		taking := func(take func(context.Context) (*rwlock.Lock, error)) taker {
			return taker{lock: func(ctx context.Context) (func(context.Context) error, error) {
				held, err := take(ctx)
				if err != nil {
					return nil, err
				}
				return held.Unlock, nil
			}}
		}
		return &readWriter{read: taking(l.RLock), write: taking(l.Lock)}, nil
	}
}

func batonRead(c *coordinator.Client, name string, _ load) (contender, error) {
	rw, err := rwlock.New(c, name)
	if err != nil {
		return nil, err
	}
	return &taker{lock: func(ctx context.Context) (func(context.Context) error, error) {
		l, err := rw.RLock(ctx)
		if err != nil {
			return nil, err
		}
		return l.Unlock, nil
	}}, nil
}

func batonElection(c *coordinator.Client, name string, _ load) (contender, error) {
	e, err := election.New(c, name)
	if err != nil {
		return nil, err
	}
	return &taker{lock: func(ctx context.Context) (func(context.Context) error, error) {
		t, err := e.Campaign(ctx, nil)
		if err != nil {
			return nil, err
		}
		return t.Resign, nil
	}}, nil
}

func batonSemaphore(c *coordinator.Client, name string, l load) (contender, error) {
	s, err := semaphore.New(c, name, max(1, l.permits))
	if err != nil {
		return nil, err
	}
	return &taker{lock: func(ctx context.Context) (func(context.Context) error, error) {
		p, err := s.Acquire(ctx, 1)
		if err != nil {
			return nil, err
		}
		return p.Release, nil
	}}, nil
}
