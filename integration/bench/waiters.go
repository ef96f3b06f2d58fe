package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// WaitersResult has the costs of many waiters on one session.
type WaitersResult struct {
	Name    string `json:"name"`
	Place   string `json:"place"`
	Subject string `json:"subject"`
	Role    Role   `json:"role"`
	Waiters int    `json:"waiters"`
	// Heap is the live heap per waiter after a collection, Inuse the heap's
	// memory for it; Stack is the goroutines'.
	Heap  float64 `json:"heap_bytes"`
	Inuse float64 `json:"heap_inuse_bytes"`
	Stack float64 `json:"stack_bytes"`
	// Goroutines is the number per waiter, the caller's included.
	Goroutines float64 `json:"goroutines"`
	// Join is the time until all wait, Drain from the first release to the
	// last. For bare watches they are 0, and InOrder is false.
	Join    time.Duration `json:"join_ns,omitempty"`
	Drain   time.Duration `json:"drain_ns,omitempty"`
	InOrder bool          `json:"in_order,omitempty"`
}

func (w WaitersResult) line() string {
	return fmt.Sprintf("%-24s heap %6.0f B (in use %6.0f) stack %6.0f B goroutines %4.2f each; joined in %v, drained in %v, in order: %v", w.Subject,
		w.Heap, w.Inuse, w.Stack, w.Goroutines, w.Join.Round(time.Millisecond), w.Drain.Round(time.Millisecond), w.InOrder)
}

const manyWaiters = 10_000

// memory is the process's memory.
type memory struct{ heap, inuse, stack, goroutines float64 }

func remember() memory {
	runtime.GC()
	runtime.GC() // frees what the first run's finalizers released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{float64(m.HeapAlloc), float64(m.HeapInuse), float64(m.StackInuse), float64(runtime.NumGoroutine())}
}

func (w *WaitersResult) grown(from, to memory) {
	n := float64(w.Waiters)
	w.Heap, w.Inuse, w.Stack = (to.heap-from.heap)/n, (to.inuse-from.inuse)/n, (to.stack-from.stack)/n
	w.Goroutines = (to.goroutines - from.goroutines) / n
}

// waiters measures waiters of Baton's mutex on one session, and then drains
// their queue.
func (f *field) waiters(ctx context.Context, n int) (WaitersResult, error) {
	w := WaitersResult{Name: "waiters/" + f.contest.place, Place: f.contest.place, Subject: "Baton mutex", Role: Baton, Waiters: n}
	opened, err := openBaton(ctx, f.access(), load{contenders: 2}, batonMutex)
	if err != nil {
		return w, err
	}
	defer opened.close()
	clients := opened.(*batonParty).clients
	name := fmt.Sprintf("waiters-%d", n)
	first, err := lockOf(ctx, clients[0], name)
	if err != nil {
		return w, err
	}
	watches, err := f.place.watches(ctx)
	if err != nil {
		return w, err
	}
	from := remember()
	q, began := newWaiters(clients[1], name, n), time.Now()
	q.start(ctx)
	if err := f.settle(ctx, watches+n); err != nil {
		return w, err
	}
	w.Join = time.Since(began)
	w.grown(from, remember())
	began = time.Now()
	if err := first.Unlock(ctx); err != nil {
		return w, err
	}
	if err := q.wait(ctx); err != nil {
		return w, err
	}
	w.Drain, w.InOrder = time.Since(began), q.inOrder()
	return w, nil
}

func lockOf(ctx context.Context, c *coordinator.Client, name string) (*mutex.Lock, error) {
	m, err := mutex.New(c, name)
	if err != nil {
		return nil, err
	}
	return m.Lock(ctx)
}

// waiters has many goroutines that lock once.
type waiters struct {
	client *coordinator.Client
	name   string
	tokens []coordinator.Token // in the order of the grants
	served atomic.Int64
	failed chan error
	all    sync.WaitGroup
}

func newWaiters(c *coordinator.Client, name string, n int) *waiters {
	return &waiters{client: c, name: name, tokens: make([]coordinator.Token, n), failed: make(chan error, 1)}
}

func (q *waiters) start(ctx context.Context) {
	for range q.tokens {
		q.all.Go(func() {
			if err := q.once(ctx); err != nil {
				select {
				case q.failed <- err:
				default:
				}
			}
		})
	}
}

func (q *waiters) once(ctx context.Context) error {
	l, err := lockOf(ctx, q.client, q.name)
	if err != nil {
		return err
	}
	q.tokens[q.served.Add(1)-1] = l.Token()
	return l.Unlock(ctx)
}

func (q *waiters) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { q.all.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("%d of %d granted: %w", q.served.Load(), len(q.tokens), context.Cause(ctx))
	}
	select {
	case err := <-q.failed:
		return err
	default:
		return nil
	}
}

func (q *waiters) inOrder() bool {
	for i := 1; i < len(q.tokens); i++ {
		if q.tokens[i] <= q.tokens[i-1] {
			return false
		}
	}
	return true
}

// bareWatches measures the same number of the bare client's watches, each with
// a waiting goroutine: the client library's share of the waiters' memory.
func (f *field) bareWatches(ctx context.Context, n int) (WaitersResult, error) {
	w := WaitersResult{Name: "waiters/" + f.contest.place, Place: f.contest.place, Subject: "bare watches", Role: Floor, Waiters: n}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	watch, closeAll, err := f.bareWatch(ctx)
	if err != nil {
		cancel()
		return w, err
	}
	defer closeAll()
	defer cancel()
	watches, err := f.place.watches(ctx)
	if err != nil {
		return w, err
	}
	from := remember()
	began := time.Now()
	for i := range n {
		all.Go(func() { watch(fmt.Sprintf("/waiters/%d", i)) })
	}
	if err := f.settle(ctx, watches+n); err != nil {
		return w, err
	}
	w.Join = time.Since(began)
	w.grown(from, remember())
	return w, nil
}

// bareWatch opens one connection. Its watch waits until ctx ends.
func (f *field) bareWatch(ctx context.Context) (watch func(key string), closeAll func(), err error) {
	if f.service() == "etcd" {
		links, err := openEtcdLinks(ctx, f.access(), 1)
		if err != nil {
			return nil, nil, err
		}
		return func(key string) {
			events := links[0].Watch(ctx, key)
			<-events
		}, links.close, nil
	}
	links, err := openZKLinks(ctx, f.access(), 1)
	if err != nil {
		return nil, nil, err
	}
	return func(key string) {
		_, _, events, err := links[0].ExistsW(key)
		if err == nil {
			select {
			case <-events:
			case <-ctx.Done():
			}
		}
	}, links.close, nil
}
