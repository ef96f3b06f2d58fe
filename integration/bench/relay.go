package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// relay is the floor of a handoff: contenders in a predetermined order, so that
// none of them reads the queue. Each waits until its predecessor's key is
// deleted, deletes its own key, creates it again and watches again: two writes,
// one watch and one event per grant.
type relay struct {
	load
	relayKeys
}

// relayKeys are the keys of a relay at a service.
type relayKeys interface {
	// prepare creates the parents of a name's keys.
	prepare(ctx context.Context, name string) error
	// put creates contender i's key of a round.
	put(ctx context.Context, name string, i, round int) error
	remove(ctx context.Context, name string, i, round int) error
	// watch sets a watch on a key and returns when it is set. The returned
	// function waits until the key is deleted.
	watch(ctx context.Context, name string, i, of, round int) (gone func() error, err error)
	// ahead reports whether a key can be watched before it exists, so that the
	// watch can be set a round ahead.
	ahead() bool
	close()
}

func (r relay) process() int { return 0 }

func (r relay) play(ctx context.Context, p *play) (times, error) {
	if err := r.prepare(ctx, p.name); err != nil {
		return times{}, err
	}
	return r.ring(ctx, p)
}

// runner is one contender of a ring.
type runner struct {
	relay
	name string
	i    int
	// made receives one value per key that the predecessor creates: a key that
	// does not exist yet must not be mistaken for a deleted one. A channel
	// costs nothing.
	made, next chan struct{}
	gone       func() error       // waits for the predecessor's key of this round
	later      chan watched       // the watch for the next round, if it can be set ahead
	first      chan<- struct{}    // receives when the runner waits for its first grant
	start      <-chan struct{}    // closed when the ring may start
	grant      func() (last bool) // called when the runner is granted
}

type watched struct {
	gone func() error
	err  error
}

func (r relay) ring(ctx context.Context, p *play) (times, error) {
	course := newCourse(p)
	g, ctx := newGroup(ctx)
	made := make([]chan struct{}, r.contenders)
	for i := range made {
		made[i] = make(chan struct{}, 4)
	}
	first, start := make(chan struct{}, r.contenders), make(chan struct{})
	for i := range r.contenders {
		one := &runner{
			relay: r, name: p.name, i: i, made: made[i], next: made[(i+1)%r.contenders],
			first: first, start: start, grant: course.grant, later: make(chan watched, 1),
		}
		g.run(func() error {
			err := one.run(ctx)
			if errors.Is(err, context.Canceled) && course.over.Load() {
				return nil
			}
			return err
		})
	}
	for range r.contenders {
		select {
		case <-first:
		case <-ctx.Done():
			return times{}, g.wait()
		}
	}
	if err := p.settled(ctx, r.contenders-1); err != nil {
		g.fail(err)
		return times{}, g.wait()
	}
	close(start)
	if err := g.wait(); err != nil {
		return times{}, err
	}
	return course.result(), nil
}

// before returns the predecessor in a round, and the round of its key.
func (r *runner) before(round int) (i, of int) {
	if r.i == 0 {
		return r.contenders - 1, round - 1
	}
	return r.i - 1, round
}

func (r *runner) run(ctx context.Context) error {
	for round := 0; ; round++ {
		if r.ahead() { // for the next round, while this round's key is written
			go func() {
				i, of := r.before(round + 1)
				gone, err := r.watch(ctx, r.name, r.i, i, of)
				r.later <- watched{gone, err}
			}()
		}
		if err := r.put(ctx, r.name, r.i, round); err != nil {
			return err
		}
		r.next <- struct{}{}
		if err := r.await(ctx, round); err != nil {
			return err
		}
		if r.ahead() { // the watch must be set before the ring continues
			w := <-r.later
			if w.err != nil {
				return w.err
			}
			r.gone = w.gone
		}
		last := r.grant()
		if err := r.remove(ctx, r.name, r.i, round); err != nil || last {
			return err
		}
	}
}

// await waits for the grant.
func (r *runner) await(ctx context.Context, round int) error {
	if r.i == 0 && round == 0 { // starts the ring
		r.first <- struct{}{}
		<-r.start
		return ctx.Err()
	}
	if !r.ahead() || round == 0 {
		select {
		case <-r.made:
		case <-ctx.Done():
			return ctx.Err()
		}
		i, of := r.before(round)
		gone, err := r.watch(ctx, r.name, r.i, i, of)
		if err != nil {
			return err
		}
		r.gone = gone
	} else {
		<-r.made
	}
	if round == 0 {
		r.first <- struct{}{}
	}
	return r.gone()
}

type etcdRelayKeys struct{ etcdLinks }

func (b etcdRelayKeys) prepare(context.Context, string) error { return nil }
func (b etcdRelayKeys) ahead() bool                           { return true }

func (b etcdRelayKeys) key(name string, i, round int) string {
	return fmt.Sprintf("/relay/%s/%d/%d", name, i, round)
}

func (b etcdRelayKeys) put(ctx context.Context, name string, i, round int) error {
	l := b.of(i)
	_, err := l.Put(ctx, b.key(name, i, round), "", clientv3.WithLease(l.lease))
	return err
}

func (b etcdRelayKeys) remove(ctx context.Context, name string, i, round int) error {
	_, err := b.of(i).Delete(ctx, b.key(name, i, round))
	return err
}

func (b etcdRelayKeys) watch(ctx context.Context, name string, i, of, round int) (func() error, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	// Watch returns when the server has created the watch.
	events := b.of(i).Watch(ctx, b.key(name, of, round), clientv3.WithFilterPut())
	if err := ctx.Err(); err != nil {
		cancel()
		return nil, err
	}
	return func() error {
		defer cancel()
		for r := range events {
			if err := r.Err(); err != nil {
				return err
			}
			if len(r.Events) > 0 {
				return nil
			}
		}
		return context.Cause(ctx)
	}, nil
}

type zkRelayKeys struct {
	zkLinks
	// removed has the paths whose removal has begun. A lagging server can lack
	// a key because it was deleted, or because it was just created at another
	// server.
	removed *sync.Map
}

func newZKRelayKeys(links zkLinks) zkRelayKeys { return zkRelayKeys{links, &sync.Map{}} }

func (b zkRelayKeys) prepare(_ context.Context, name string) error {
	b.removed.Clear()
	return b.parent("/relay/" + name)
}

func (b zkRelayKeys) ahead() bool { return false }

func (b zkRelayKeys) path(name string, i, round int) string {
	return fmt.Sprintf("/relay/%s/%d-%d", name, i, round)
}

func (b zkRelayKeys) put(_ context.Context, name string, i, round int) error {
	_, err := b.of(i).Create(b.path(name, i, round), nil, zk.FlagEphemeral, open4all)
	return err
}

func (b zkRelayKeys) remove(_ context.Context, name string, i, round int) error {
	path := b.path(name, i, round)
	b.removed.Store(path, true)
	return b.of(i).Delete(path, -1)
}

func (b zkRelayKeys) watch(ctx context.Context, name string, i, of, round int) (func() error, error) {
	path := b.path(name, of, round)
	_, _, events, err := b.of(i).GetW(path)
	for errors.Is(err, zk.ErrNoNode) {
		if _, gone := b.removed.Load(path); gone {
			return func() error { return nil }, nil
		}
		_, err = b.of(i).Sync(path)
		if err == nil {
			_, _, events, err = b.of(i).GetW(path)
		}
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		select {
		case e := <-events:
			return e.Err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}
