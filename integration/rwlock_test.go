package integration_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/rwlock"
)

func newRWLock(t testing.TB, c *coordinator.Client, name string) *rwlock.RWLock {
	t.Helper()
	l, err := rwlock.New(c, name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// locking is a lock call in the background.
type locking struct {
	t    *testing.T
	done chan struct{}
	lock *rwlock.Lock
	err  error
}

func goLock(t *testing.T, lock func(context.Context) (*rwlock.Lock, error)) *locking {
	l := &locking{t: t, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.lock, l.err = lock(context.Background())
	}()
	return l
}

func (l *locking) granted() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *locking) wait() *rwlock.Lock {
	l.t.Helper()
	await.Receive(l.t, "the grant", l.done)
	if l.err != nil {
		l.t.Fatal(l.err)
	}
	return l.lock
}

func (l *locking) unlock() {
	l.t.Helper()
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(l.t))
	defer cancel()
	if err := l.wait().Unlock(ctx); err != nil {
		l.t.Error(err)
	}
}

// queued waits until n contenders are queued.
func queued(t *testing.T, l *rwlock.RWLock, n int) []rwlock.Contender {
	t.Helper()
	var list []rwlock.Contender
	await.Until(t, "contenders in the queue", func() bool {
		var err error
		if list, err = l.Contenders(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		return len(list) == n
	})
	return list
}

func TestReadersShareAndWritersExclude(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		var readers, writers, together atomic.Int64
		var wg sync.WaitGroup
		for i := range 6 {
			l := newRWLock(t, s.client(t, 10*time.Second), name)
			r := rand.New(rand.NewPCG(uint64(i), 1))
			wg.Go(func() {
				for range 40 {
					do, mine := l.RDo, &readers
					if r.IntN(3) == 0 {
						do, mine = l.Do, &writers
					}
					err := do(context.Background(), func(ctx context.Context, _ *rwlock.Lock) error {
						n := mine.Add(1)
						w, rd := writers.Load(), readers.Load()
						if w > 1 || w == 1 && rd > 0 {
							t.Errorf("%d writers and %d readers at once", w, rd)
						}
						if n > 1 {
							together.Add(1)
						}
						await.For(ctx, time.Duration(r.IntN(3))*time.Millisecond)
						mine.Add(-1)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if together.Load() == 0 {
			t.Error("no two readers ever shared it")
		}
		queued(t, newRWLock(t, s.client(t, 10*time.Second), name), 0)
	})
}

func TestUncontendedReadAndWriteLocksAreOneRequestEach(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		c := s.meter(t, 10*time.Second)
		l := newRWLock(t, c.Client, servers.Name(t))
		goLock(t, l.Lock).unlock() // opens the session and makes the parent
		for name, lock := range map[string]func(context.Context) (*rwlock.Lock, error){"write": l.Lock, "read": l.RLock} {
			spend(t, c, name, 2, func() { goLock(t, lock).unlock() })
		}
	})
}

// spend fails unless do needs exactly want requests in one of ten runs. It
// needs more when ZooKeeper has reaped the empty queue, when an etcd member
// lags and a read is repeated by quorum, and when a server stalls so long that
// a hold starts to watch its own entry.
func spend(t *testing.T, c meter, what string, want int, do func()) {
	t.Helper()
	var all []int
	for range 10 {
		before := c.requests()
		do()
		spent := c.requests() - before
		if spent == want {
			return
		}
		all = append(all, spent)
	}
	t.Errorf("%s: %d requests in ten runs, want %d", what, all, want)
}

// Curator needs 251 requests and 125 notifications for the same.
func TestFiveWritersThenTwentyReadersCauseNoHerd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		c, gate := s.meter(t, 30*time.Second), s.client(t, 30*time.Second)
		name := servers.Name(t)
		l, keeper := newRWLock(t, c.Client, name), newRWLock(t, gate, name)
		first := goLock(t, keeper.Lock) // a writer of another client, so that the rest queues up
		first.wait()
		goLockTry(t, l)
		joined := c.requests()
		var all []*locking
		for i := range 25 {
			lock := l.RLock
			if i < 5 {
				lock = l.Lock
			}
			all = append(all, goLock(t, lock))
			queued(t, keeper, i+2) // in this order
		}
		quiesce(t, c)
		drained, events := c.requests(), c.events()
		first.unlock()
		for _, w := range all[:5] {
			w.unlock()
		}
		for _, r := range all[5:] {
			r.wait()
		}
		for _, r := range all[5:] {
			r.unlock()
		}
		whole, drain, woken := c.requests()-joined, c.requests()-drained, c.events()-events
		t.Logf("%d requests in all, %d of them and %d watch events to drain (Curator: 251 and 125)", whole, drain, woken)
		if 2*drain > 251 {
			t.Errorf("%d requests to drain, more than half of Curator's 251", drain)
		}
		// Events of the predecessor's entry, on etcd of its marker in the same
		// message, and of the waiter's own entry after a long wait.
		if woken > 3*25 {
			t.Errorf("%d watch events for 25 grants: a herd", woken)
		}
	})
}

// goLockTry opens the client's session with a call that leaves no entry.
func goLockTry(t *testing.T, l *rwlock.RWLock) {
	t.Helper()
	if _, err := l.TryLock(await.Context(t)); !errors.Is(err, coordinator.ErrTaken) {
		t.Fatalf("TryLock behind a writer = %v", err)
	}
}

// The test counts the watch events of readers before and after another writer,
// and of that writer.
func TestWriterWakesExactlyTheReadersItAdmits(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		front, back, next := s.meter(t, 30*time.Second), s.meter(t, 30*time.Second), s.meter(t, 30*time.Second)
		keeper := newRWLock(t, s.client(t, 30*time.Second), name)
		first := goLock(t, keeper.Lock)
		first.wait()
		var readers, later []*locking
		for i := range 6 {
			readers = append(readers, goLock(t, newRWLock(t, front.Client, name).RLock))
			queued(t, keeper, i+2)
		}
		writer := goLock(t, newRWLock(t, next.Client, name).Lock)
		queued(t, keeper, 8)
		for i := range 3 {
			later = append(later, goLock(t, newRWLock(t, back.Client, name).RLock))
			queued(t, keeper, i+9)
		}
		quiesce(t, front, back, next)
		f, b, n := front.events(), back.events(), next.events()
		first.unlock()
		for _, r := range readers {
			r.wait()
		}
		quiesce(t, front, back, next)
		want := 6
		if s.service == "zk" {
			want = 1 // the six readers share a session, which has one watch on the writer
		}
		if f, b, n = front.events()-f, back.events()-b, next.events()-n; f != want || b != 0 || n != 0 {
			t.Errorf("a writer's release caused %d watch events for the 6 readers that it admits, want %d; %d for the next writer, %d for the readers behind it", f, want, n, b)
		}
		b, n = back.events(), next.events()
		for _, r := range readers[:5] {
			r.unlock()
		}
		quiesce(t, front, back, next)
		if b, n = back.events()-b, next.events()-n; b != 0 || n != 0 {
			t.Errorf("readers that leave while another reads woke %d readers and the writer %d times", b, n)
		}
		if writer.granted() {
			t.Error("the writer was admitted beside a reader")
		}
		b, n = back.events(), next.events()
		readers[5].unlock()
		writer.wait()
		quiesce(t, front, back, next)
		most := 1
		if s.service == "zk" {
			most = 2 // after a long wait a contender watches two nodes of its predecessor
		}
		if b, n = back.events()-b, next.events()-n; n < 1 || n > most || b != 0 {
			t.Errorf("the last reader's release woke the writer %d times and readers behind it %d times", n, b)
		}
		writer.unlock()
		for _, r := range later {
			r.unlock()
		}
	})
}

// The downgrade has no gap, and keeps the token.
func TestDowngradeAdmitsReadersAndNoWriter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		ca, cb := s.meter(t, 10*time.Second), s.meter(t, 10*time.Second)
		a, b := newRWLock(t, ca.Client, name), newRWLock(t, cb.Client, name)
		w := goLock(t, a.Lock).wait()
		reader := goLock(t, b.RLock)
		queued(t, b, 2)
		writer := goLock(t, b.Lock)
		queued(t, b, 3)
		r, err := a.RLock(w.Context())
		if err != nil || r.Token() != w.Token() {
			t.Fatalf("read within write: %v, %v", r, err)
		}
		if reader.granted() {
			t.Fatal("a reader beside a writer")
		}
		if err := w.Unlock(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		reader.wait()
		if _, err := a.Lock(r.Context()); !errors.Is(err, rwlock.ErrUpgrade) {
			t.Errorf("upgrade = %v", err)
		}
		list := queued(t, b, 3)
		if list[0].Writer || !list[0].Holding || list[0].Token != w.Token() || !list[1].Holding || list[2].Holding {
			t.Errorf("after the downgrade the queue is %+v", list)
		}
		quiesce(t, ca, cb) // until the hold watches its new entry
		if err := r.Err(); err != nil {
			t.Errorf("the read lock is lost: %v", err)
		}
		reader.unlock()
		s.settle(t, cb.Client)
		if writer.granted() {
			t.Error("a writer beside the downgraded lock")
		}
		if err := r.Unlock(await.Context(t)); err != nil {
			t.Error(err)
		}
		if next := writer.wait(); next.Token() <= w.Token() {
			t.Errorf("token %d after %d", next.Token(), w.Token())
		}
		writer.unlock()
	})
}
