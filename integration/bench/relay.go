package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// relay is the floor of a handoff: contenders whose order was agreed upon
// beforehand, so that none of them has to read the queue. Each waits until the
// key of its predecessor is gone, deletes its own, makes it anew and watches
// again: two writes, one watch and one event a turn.
type relay struct {
	load
	batons
}

// batons are the keys of a relay.
type batons interface {
	// prepare makes what the keys of a name need.
	prepare(ctx context.Context, name string) error
	// put makes contender i's key of a round.
	put(ctx context.Context, name string, i, round int) error
	remove(ctx context.Context, name string, i, round int) error
	// watch begins to watch a key, and returns when the watch stands. What it
	// returns waits until the key is gone.
	watch(ctx context.Context, name string, i, of, round int) (gone func() error, err error)
	// ahead says that a watch stands also on a key that is not there yet, so
	// that it can be set a round ahead.
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
	// made has one for each key that the one before has made. A key that is not
	// there yet must not be taken for one that is gone; in-process word of it
	// costs nothing.
	made, next chan struct{}
	gone       func() error       // the watch on the one before, for the coming round
	later      chan watched       // that for the round after, where it can be set ahead
	first      chan<- struct{}    // told when it waits for its first turn
	start      <-chan struct{}    // closed when the ring may go round
	turn       func() (last bool) // called when it is its turn
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
			first: first, start: start, turn: course.turn, later: make(chan watched, 1),
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

// before is the contender whose going is waited for in a round, and the round
// of its key.
func (r *runner) before(round int) (i, of int) {
	if r.i == 0 {
		return r.contenders - 1, round - 1
	}
	return r.i - 1, round
}

func (r *runner) run(ctx context.Context) error {
	for round := 0; ; round++ {
		if r.ahead() { // for the round after this one, while the key of this one is written
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
		if r.ahead() { // it has to stand before the ring goes on
			w := <-r.later
			if w.err != nil {
				return w.err
			}
			r.gone = w.gone
		}
		last := r.turn()
		if err := r.remove(ctx, r.name, r.i, round); err != nil || last {
			return err
		}
	}
}

// await waits for the turn.
func (r *runner) await(ctx context.Context, round int) error {
	if r.i == 0 && round == 0 { // the one that begins
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

type etcdBatons struct{ etcdLinks }

func (b etcdBatons) prepare(context.Context, string) error { return nil }
func (b etcdBatons) ahead() bool                           { return true }

func (b etcdBatons) key(name string, i, round int) string {
	return fmt.Sprintf("/relay/%s/%d/%d", name, i, round)
}

func (b etcdBatons) put(ctx context.Context, name string, i, round int) error {
	l := b.of(i)
	_, err := l.Put(ctx, b.key(name, i, round), "", clientv3.WithLease(l.lease))
	return err
}

func (b etcdBatons) remove(ctx context.Context, name string, i, round int) error {
	_, err := b.of(i).Delete(ctx, b.key(name, i, round))
	return err
}

func (b etcdBatons) watch(ctx context.Context, name string, i, of, round int) (func() error, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	// Watch returns when the server has made it.
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

type zkBatons struct {
	zkLinks
	// removed has the paths whose removal has begun. A server that lags can
	// lack a key because it is gone, or because it was made a moment ago at
	// another one.
	removed *sync.Map
}

func newZKBatons(links zkLinks) zkBatons { return zkBatons{links, &sync.Map{}} }

func (b zkBatons) prepare(_ context.Context, name string) error {
	b.removed.Clear()
	return b.parent("/relay/" + name)
}

func (b zkBatons) ahead() bool { return false }

func (b zkBatons) path(name string, i, round int) string {
	return fmt.Sprintf("/relay/%s/%d-%d", name, i, round)
}

func (b zkBatons) put(_ context.Context, name string, i, round int) error {
	_, err := b.of(i).Create(b.path(name, i, round), nil, zk.FlagEphemeral, open4all)
	return err
}

func (b zkBatons) remove(_ context.Context, name string, i, round int) error {
	path := b.path(name, i, round)
	b.removed.Store(path, true)
	return b.of(i).Delete(path, -1)
}

func (b zkBatons) watch(ctx context.Context, name string, i, of, round int) (func() error, error) {
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
