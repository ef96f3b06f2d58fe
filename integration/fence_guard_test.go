package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
)

// errGuarded says that the guard refused a write.
var errGuarded = errors.New("the guard refused the write")

// board is data that users keep in the service beside their locks, written with
// the service's own client.
type board interface {
	// write writes a value, guarded by the sequencer unless that is zero.
	write(ctx context.Context, seq fence.Sequencer, key, value string) error
	// read returns a value at least as new as all earlier writes.
	read(ctx context.Context, key string) (string, error)
	// remove deletes a sequencer's entry, as an operator does.
	remove(ctx context.Context, seq fence.Sequencer) error
}

// board returns the board of a site.
func (s site) board(t *testing.T) board {
	t.Helper()
	if s.service == "etcd" {
		return etcdBoard{s.etcdClient(t)}
	}
	return zkBoard{s.zkConn(t, 10*time.Second)}
}

type etcdBoard struct{ c *clientv3.Client }

func (b etcdBoard) write(ctx context.Context, seq fence.Sequencer, key, value string) error {
	var guard []clientv3.Cmp
	if seq != (fence.Sequencer{}) {
		holds, err := etcd.Guard(seq)
		if err != nil {
			return err
		}
		guard = append(guard, holds)
	}
	resp, err := b.c.Txn(ctx).If(guard...).Then(clientv3.OpPut("/board/"+key, value)).Commit()
	if err == nil && !resp.Succeeded {
		return errGuarded
	}
	return err
}

func (b etcdBoard) read(ctx context.Context, key string) (string, error) {
	resp, err := b.c.Get(ctx, "/board/"+key)
	if err != nil || len(resp.Kvs) == 0 {
		return "", err
	}
	return string(resp.Kvs[0].Value), nil
}

func (b etcdBoard) remove(ctx context.Context, seq fence.Sequencer) error {
	key, _, _ := strings.Cut(seq.Key, "@")
	_, err := b.c.Delete(ctx, key)
	return err
}

type zkBoard struct{ c *zk.Conn }

func (b zkBoard) write(_ context.Context, seq fence.Sequencer, key, value string) error {
	put := &zk.SetDataRequest{Path: "/board-" + key, Data: []byte(value), Version: -1}
	if seq == (fence.Sequencer{}) {
		_, err := b.c.Set(put.Path, put.Data, -1)
		if errors.Is(err, zk.ErrNoNode) {
			_, err = b.c.Create(put.Path, put.Data, 0, zk.WorldACL(zk.PermAll))
		}
		return err
	}
	holds, err := zookeeper.Guard("/baton-test", seq)
	if err != nil {
		return err
	}
	results, err := b.c.Multi(holds, put)
	if errors.Is(err, zk.ErrNoNode) && len(results) > 0 && errors.Is(results[0].Error, zk.ErrNoNode) {
		return errGuarded
	}
	return err
}

func (b zkBoard) read(_ context.Context, key string) (string, error) {
	if _, err := b.c.Sync("/board-" + key); err != nil {
		return "", err
	}
	data, _, err := b.c.Get("/board-" + key)
	return string(data), err
}

func (b zkBoard) remove(_ context.Context, seq fence.Sequencer) error {
	holds, err := zookeeper.Guard("/baton-test", seq)
	if err != nil {
		return err
	}
	if err = b.c.Delete(holds.Path, -1); errors.Is(err, zk.ErrNoNode) {
		return nil // released meanwhile
	}
	return err
}

// The check succeeds, then the lock is lost in one of several ways and another
// client acquires it.
func TestLockLostBetweenCheckAndWrite(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		b := s.board(t)
		for way, lose := range map[string]func(ctx context.Context, c *coordinator.Client, l *mutex.Lock, seq fence.Sequencer) error{
			"unlocked": func(ctx context.Context, _ *coordinator.Client, l *mutex.Lock, _ fence.Sequencer) error {
				return l.Unlock(ctx)
			},
			"removed": func(ctx context.Context, _ *coordinator.Client, _ *mutex.Lock, seq fence.Sequencer) error {
				return b.remove(ctx, seq)
			},
			"closed": func(ctx context.Context, c *coordinator.Client, _ *mutex.Lock, _ fence.Sequencer) error {
				return c.Close(ctx)
			},
		} {
			ctx, name := await.Context(t), servers.Name(t)
			first, second := s.client(t, 10*time.Second), s.client(t, 10*time.Second)
			ok := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s, %s: %v", way, what, err)
				}
			}
			l := lock(t, newMutex(t, first, name))
			seq, err := l.Sequencer(ctx)
			ok("sequencer", err)
			ok("create", b.write(ctx, fence.Sequencer{}, name, "nobody"))
			ok("write while it holds", b.write(ctx, seq, name, "first"))
			read, err := fence.Parse(seq.String()) // in another process
			ok("parse", err)
			ok("check while it holds", second.Check(ctx, read))
			ok("lose", lose(ctx, first, l, seq))
			next := lock(t, newMutex(t, second, name))
			own, err := next.Sequencer(ctx)
			ok("sequencer", err)
			ok("write of the next", b.write(ctx, own, name, "second"))
			if err := b.write(ctx, seq, name, "late"); !errors.Is(err, errGuarded) {
				t.Errorf("%s: the late write: %v", way, err)
			}
			if now, err := b.read(ctx, name); now != "second" || err != nil {
				t.Errorf("%s: %q, %v after the late write", way, now, err)
			}
			if err := second.Check(ctx, seq); !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: check of the lost one: %v", way, err)
			}
			ok("check of the next", second.Check(ctx, own))
			ok("without a guard", b.write(ctx, fence.Sequencer{}, name, "late")) // shows that the guard is needed
			if now, err := b.read(ctx, name); now != "late" || err != nil {
				t.Errorf("%s: %q, %v after a late write without a guard", way, now, err)
			}
			unlock(t, next)
		}
	})
}

// In 1,000 races on each service a lock is lost during a guarded write. The
// next holder reads the value when it begins, and writes its own. After that no
// write of the previous holder may appear, and the outcome that the previous
// holder got must match what the next one read.
func TestGuardStopsWritesOfALostGrant(t *testing.T) {
	t.Parallel()
	const lanes, races = 8, 125
	together(t, func(t *testing.T, s site) {
		b := s.board(t)
		first, second := s.client(t, 30*time.Second), s.client(t, 30*time.Second)
		var landed, stopped atomic.Int64
		var wg sync.WaitGroup
		for lane := range lanes {
			r := &race{t: t, board: b, rng: rand.New(rand.NewPCG(3, uint64(lane))), name: servers.Name(t), first: first, second: second, site: s}
			wg.Go(func() {
				for i := range races {
					late, err := r.run(i)
					if err != nil {
						t.Errorf("race %d of %s: %v", i, r.name, err)
						return
					}
					if late {
						stopped.Add(1)
					} else {
						landed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d races: %d writes were in time, %d were refused", lanes*races, landed.Load(), stopped.Load())
		if landed.Load() < lanes || stopped.Load() < lanes {
			t.Error("no races happened")
		}
	})
}

// longest bounds the random delay of either side of a race.
const longest = 3 * time.Millisecond

// race is a series of races on one lock.
type race struct {
	t             *testing.T
	site          site
	board         board
	rng           *rand.Rand
	name          string
	first, second *coordinator.Client
}

// run runs one race. late reports that the guard refused the write.
func (r *race) run(i int) (late bool, err error) {
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(r.t))
	defer cancel()
	holder, lose, err := r.holder(i)
	if err != nil {
		return false, err
	}
	l, err := holder.Lock(ctx)
	if err != nil {
		return false, err
	}
	seq, err := l.Sequencer(ctx)
	if err == nil {
		err = r.board.write(ctx, fence.Sequencer{}, r.name, "free")
	}
	if err != nil {
		return false, err
	}
	mine, theirs := fmt.Sprint("first ", i), fmt.Sprint("second ", i)
	m, err := mutex.New(r.second, r.name)
	if err != nil {
		return false, err
	}
	before, began := time.Duration(r.rng.Int64N(int64(longest))), time.Duration(r.rng.Int64N(int64(longest)))
	var wg sync.WaitGroup
	var lost, wrote error
	wg.Go(func() {
		await.For(ctx, before)
		lost = lose(ctx, l, seq)
	})
	wg.Go(func() {
		await.For(ctx, began)
		wrote = r.board.write(ctx, seq, r.name, mine)
	})
	next, err := m.Lock(ctx)
	if err != nil {
		return false, err
	}
	found, err := r.board.read(ctx, r.name)
	if err == nil {
		err = r.board.write(ctx, fence.Sequencer{}, r.name, theirs)
	}
	wg.Wait()
	end, err2 := r.board.read(ctx, r.name)
	late = errors.Is(wrote, errGuarded)
	switch err = errors.Join(err, err2, lost, next.Unlock(ctx)); {
	case err != nil || wrote != nil && !late:
		return false, errors.Join(err, wrote)
	case end != theirs:
		return late, fmt.Errorf("a lost grant's write was applied: found %q, in the end %q", found, end)
	case late != (found == "free"):
		return late, fmt.Errorf("the write was refused: %t, and the next holder read %q", late, found)
	}
	return late, nil
}

// holder returns the mutex of the first holder, and a function that takes its
// lock away. Some ways end a session, which is then not shared.
func (r *race) holder(i int) (*mutex.Mutex, func(ctx context.Context, l *mutex.Lock, seq fence.Sequencer) error, error) {
	unlocks := func(ctx context.Context, l *mutex.Lock, _ fence.Sequencer) error { return l.Unlock(ctx) }
	c, lose := r.first, unlocks
	switch i % 5 {
	case 0:
		own, err := coordinator.Open(r.site.url(30*time.Second), silent)
		if err != nil {
			return nil, nil, err
		}
		c, lose = own, func(ctx context.Context, _ *mutex.Lock, _ fence.Sequencer) error { return own.Close(ctx) }
	case 1, 2:
		lose = func(ctx context.Context, _ *mutex.Lock, seq fence.Sequencer) error { return r.board.remove(ctx, seq) }
	}
	m, err := mutex.New(c, r.name)
	return m, lose, err
}
