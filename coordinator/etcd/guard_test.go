package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// file is followers of one session, one behind the other.
type file struct {
	f      *fake
	s      *session
	places []driver.Place
	ends   []chan error         // of each but the first
	giveUp []context.CancelFunc // likewise
}

// follows runs a test with a file in virtual time.
func follows(t *testing.T, n int, test func(t *testing.T, q *file)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		q := &file{f: f, s: open(t, f, c)}
		for i := range n {
			q.places = append(q.places, join(t, q.s, contender()).Place)
			if i == 0 {
				continue
			}
			ctx, cancel := context.WithCancel(t.Context())
			end := make(chan error, 1)
			q.ends, q.giveUp = append(q.ends, end), append(q.giveUp, cancel)
			go func() {
				_, err := q.s.Follow(ctx, line, q.places[i], q.places[i-1], false)
				end <- err
			}()
			synctest.Wait()
		}
		test(t, q)
		for _, cancel := range q.giveUp {
			cancel()
		}
		synctest.Wait()
		q.f.watching(t, 0, "/mutex/")
	})
}

// guards are the watches that are on all entries of the session. The caller holds the mutex.
func (q *file) guards() (all []*watcher) {
	for w := range q.f.watchers {
		if strings.HasSuffix(string(w.op.KeyBytes()), "/"+q.s.ID()+"-") {
			all = append(all, w)
		}
	}
	return all
}

// guarded counts them.
func (q *file) guarded() int {
	q.f.mu.Lock()
	defer q.f.mu.Unlock()
	return len(q.guards())
}

// relieve ends them, compacted or without a word.
func (q *file) relieve(compacted bool) {
	q.f.mu.Lock()
	defer q.f.mu.Unlock()
	for _, w := range q.guards() {
		delete(q.f.watchers, w)
		if compacted {
			w.out <- clientv3.WatchResponse{Header: q.f.header(), Canceled: true, CompactRevision: q.f.rev}
		} else {
			close(w.out)
		}
	}
}

// remove deletes an entry as an operator would. Unheard, its watches do not tell.
func (q *file) remove(i int, unheard bool) {
	q.f.mu.Lock()
	defer q.f.mu.Unlock()
	if events := q.delete(i); !unheard {
		q.f.tell(events, q.f.rev)
	}
}

// removeAtOnce deletes entries in one transaction.
func (q *file) removeAtOnce(numbers ...int) {
	q.f.mu.Lock()
	defer q.f.mu.Unlock()
	q.f.tell(q.delete(numbers...), q.f.rev)
}

func (q *file) delete(numbers ...int) []*clientv3.Event {
	var kvs []*mvccpb.KeyValue
	for _, i := range numbers {
		e, _ := q.s.keys.entry(line, q.places[i])
		kvs = append(kvs, q.f.kvs[e.key])
	}
	q.f.rev++
	return q.f.remove(kvs, q.f.rev)
}

// still fails the test if one of the followers waits no more.
func (q *file) still(t *testing.T, followers ...int) {
	t.Helper()
	synctest.Wait()
	for _, i := range followers {
		select {
		case err := <-q.ends[i-1]:
			t.Errorf("number %d waits no more: %v", i, err)
		default:
		}
	}
}

// gone fails the test unless a follower was told that its entry is gone.
func (q *file) gone(t *testing.T, i int) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-q.ends[i-1]:
		if !errors.Is(err, driver.ErrGone) {
			t.Errorf("number %d: %v", i, err)
		}
	default:
		t.Errorf("number %d was not told", i)
	}
}

func TestOneGuardForAllFollowersOfASession(t *testing.T) {
	follows(t, 6, func(t *testing.T, q *file) {
		if time.Sleep(driver.Settle / 2); q.guarded() != 0 {
			t.Error("a guard for those who have not waited for long")
		}
		requests := q.f.sent(func() { time.Sleep(driver.Settle) })
		if n := q.guarded(); n != 1 || requests != 5 {
			t.Errorf("%d guards, %d requests for 5 followers", n, requests)
		}
		q.remove(5, false) // nobody follows that one
		q.gone(t, 5)
		q.still(t, 1, 2, 3, 4)
		for i := range 4 {
			q.giveUp[i]()
			synctest.Wait()
			if n := q.guarded(); n != min(1, 3-i) {
				t.Errorf("%d guards for %d followers", n, 3-i)
			}
		}
	})
}

// TestGuardLooksWhenItComes: for entries that went before, and for those that went while it was away.
func TestGuardLooksWhenItComes(t *testing.T) {
	follows(t, 3, func(t *testing.T, q *file) {
		q.remove(2, true)
		q.still(t, 1, 2)
		time.Sleep(2 * driver.Settle)
		q.gone(t, 2)
		q.still(t, 1)
	})
	follows(t, 3, func(t *testing.T, q *file) {
		time.Sleep(2 * driver.Settle)
		q.remove(2, true)
		q.still(t, 1, 2)
		q.relieve(true)
		q.gone(t, 2)
		q.still(t, 1)
	})
}

// TestGuardThatFailsIsNoReasonToWaitOn without one.
func TestGuardThatFailsIsNoReasonToWaitOn(t *testing.T) {
	follows(t, 3, func(t *testing.T, q *file) {
		time.Sleep(2 * driver.Settle)
		q.relieve(false)
		for i := range q.ends {
			if err := <-q.ends[i]; !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("number %d: %v", i+1, err)
			}
		}
	})
}
