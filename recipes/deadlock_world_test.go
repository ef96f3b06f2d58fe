package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
)

// The bounds of the judge: the first search is after 10 s, and what it finds is
// confirmed after 0.5 s and given up after 1 s more. Of two calls that begin at
// almost the same time the older one may join later, and then the younger one
// finds the cycle in its second search.
const (
	reportWithin  = 12500 * time.Millisecond
	resolveWithin = 23 * time.Second
	sampleEvery   = 200 * time.Millisecond
	confirmedIn   = 1200 * time.Millisecond // a report is about this time
)

// arena is a world in which actors take names of two services within each
// other, in random order, and a judge that knows what all of them hold and
// wait for. It shares no code with the recipes.
type arena struct {
	*testing.T
	seed     uint64
	r        *rand.Rand
	services [2]*memory.Service
	traced   bool // each step is logged
	began    time.Time
	distinct time.Duration
	yields   bool // all have WithDeadlockError
	broken   bool // some calls lack the context of the holds
	expires  bool // sessions end

	mu       sync.Mutex
	owners   map[string]string    // actors, by the IDs of their entries
	waits    map[string]waitAt    // by actor
	cycles   map[string]time.Time // deadlocks, since when
	samples  []map[string]int     // the latest: which actors are in a deadlock, by its number
	reported map[string]time.Time // by actor
	counts   struct{ seen, reports, gave int }
}

type waitAt struct {
	service int
	queue   driver.Queue
	since   time.Time
}

// TestDeadlocksInRandomWorlds: each deadlock is reported in time, nothing else
// is, and with the option it is resolved in time. More worlds, or one, with its
// steps:
//
//	BATON_SEEDS=10000 go test -v -timeout 1h -run TestDeadlocksInRandomWorlds ./recipes
//	BATON_SEEDS=1 BATON_SIM_BASE=4711 go test -v -run TestDeadlocksInRandomWorlds ./recipes
func TestDeadlocksInRandomWorlds(t *testing.T) {
	seeds, base := worldNumber("BATON_SEEDS", 40), worldNumber("BATON_SIM_BASE", 1)
	progress := newProgress(t, seeds)
	defer progress.stop()
	var seen, reports, gave int
	for seed := base; seed < base+seeds && !t.Failed(); seed++ {
		progress.at(seed)
		synctest.Test(t, func(t *testing.T) {
			w := &arena{T: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), traced: seeds == 1, began: time.Now(),
				owners: map[string]string{}, waits: map[string]waitAt{},
				cycles: map[string]time.Time{}, reported: map[string]time.Time{}}
			w.run()
			seen, reports, gave = seen+w.counts.seen, reports+w.counts.reports, gave+w.counts.gave
		})
	}
	t.Logf("%d worlds, %d deadlocks, %d reports, %d gave up", seeds, seen, reports, gave)
	if n := int(seeds); n >= 40 && (seen < n || reports < n || gave < n/5) {
		t.Error("too little happened")
	}
}

// progress prints every ten seconds of real time how many worlds are over, and
// the seed of the present one: if it hangs, it is known.
type progress struct {
	t     *testing.T
	began time.Time
	all   uint64
	over  atomic.Uint64
	seed  atomic.Uint64
	ends  chan struct{}
	ended sync.WaitGroup
}

func newProgress(t *testing.T, all uint64) *progress {
	p := &progress{t: t, began: time.Now(), all: all, ends: make(chan struct{})}
	p.ended.Go(func() {
		for {
			select {
			case <-time.After(10 * time.Second):
				t.Logf("%d of %d worlds, %.1f in a second; the next is seed %d",
					p.over.Load(), p.all, p.pace(), p.seed.Load())
			case <-p.ends:
				return
			}
		}
	})
	return p
}

func (p *progress) pace() float64 { return float64(p.over.Load()) / time.Since(p.began).Seconds() }

// at begins the world of a seed. It fails the test before go test ends it for
// want of time.
func (p *progress) at(seed uint64) {
	if p.seed.Swap(seed) != 0 {
		p.over.Add(1)
	}
	if end, bound := p.t.Deadline(); bound && time.Until(end) < time.Since(p.began)/20 {
		p.t.Fatalf("%d of %d worlds, %.1f in a second: give more time with -timeout, or go on from BATON_SIM_BASE=%d",
			p.over.Load(), p.all, p.pace(), seed)
	}
}

func (p *progress) stop() {
	close(p.ends)
	p.ended.Wait()
}

func worldNumber(name string, usual uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return usual
}

func (w *arena) run() {
	w.services = [2]*memory.Service{memory.NewService(), memory.NewService()}
	kind := w.r.IntN(8)
	w.yields, w.broken, w.expires = kind%2 == 0, kind == 5 || kind == 6, kind == 7 || kind == 4
	ctx, cancel := context.WithTimeout(w.Context(), 3*time.Minute)
	defer cancel()
	var actors sync.WaitGroup
	var clients []*coordinator.Client
	names := 2 + w.r.IntN(3)
	for process := range 2 + w.r.IntN(3) {
		var pair [2]*coordinator.Client
		for i, svc := range w.services {
			link := svc.Driver()
			link.Delay(w.delay(), w.delay())
			c, err := coordinator.New(link, quiet, coordinator.WithObserver(event.DirectFunc(w.observe)))
			check(w, err)
			endWithTest(w.T, link, c)
			pair[i], clients = c, append(clients, c)
		}
		for i := range 1 + w.r.IntN(2) {
			a := &actor{w: w, name: fmt.Sprintf("p%d.%d", process, i), clients: pair, names: names,
				r: rand.New(rand.NewPCG(w.seed, uint64(100*process+i)))}
			time.Sleep(100*time.Millisecond + w.delay()) // the process has its sessions
			actors.Go(func() { a.live(ctx) })
		}
	}
	judged := make(chan struct{})
	go func() {
		defer close(judged)
		for ctx.Err() == nil {
			w.sample()
			if w.expires && w.r.IntN(100) == 0 {
				svc := w.services[w.r.IntN(2)]
				if all := svc.Sessions(); len(all) > 0 {
					svc.Expire(all[w.r.IntN(len(all))])
				}
			}
			time.Sleep(sampleEvery)
		}
	}()
	actors.Wait()
	<-judged
	for _, c := range clients {
		check(w, c.Close(context.Background()))
	}
}

// delay is up to ten milliseconds. No two are equal, and no two actors begin at
// the same instant: what happens at one instant is in the order that the
// scheduler has, in each run of a seed another one.
func (w *arena) delay() time.Duration {
	w.distinct++
	return time.Duration(1+w.r.IntN(10))*time.Millisecond + 997*w.distinct
}

// actor takes one to three names within each other, again and again.
type actor struct {
	w       *arena
	name    string
	r       *rand.Rand
	clients [2]*coordinator.Client
	names   int
}

func (a *actor) live(ctx context.Context) {
	for ctx.Err() == nil {
		a.round(ctx)
		a.pause(ctx, 4*time.Second)
	}
}

func (a *actor) pause(ctx context.Context, most time.Duration) {
	select {
	case <-time.After(time.Duration(a.r.Int64N(int64(most)))):
	case <-ctx.Done():
	}
}

func (a *actor) round(ctx context.Context) {
	var held []func(context.Context) error
	under := ctx
	wanted := a.r.Perm(2 * a.names)[:1+a.r.IntN(3)]
	for _, which := range wanted {
		bound, cancel := ctx, context.CancelFunc(func() {})
		if a.r.IntN(4) == 0 {
			bound, cancel = context.WithTimeout(ctx, time.Duration(1+a.r.IntN(60))*time.Second)
		}
		values := under
		if a.w.broken && a.r.IntN(4) == 0 {
			values = ctx
		}
		h, release, err := a.take(merged{bound, values}, which)
		cancel()
		if err != nil {
			break
		}
		held, under = append(held, release), h
		a.pause(ctx, 3*time.Second)
	}
	for _, release := range slices.Backward(held) {
		_ = release(context.Background())
	}
}

// take takes a name, the mutex or the read-write lock of one of the services.
func (a *actor) take(ctx context.Context, which int) (context.Context, func(context.Context) error, error) {
	service, name := which%2, fmt.Sprint("n", which/2)
	opts := []recipes.Option{recipes.WithIdentity(a.name)}
	if a.w.yields {
		opts = append(opts, recipes.WithDeadlockError())
	}
	if which/2%2 == 0 {
		m, err := mutex.New(a.clients[service], name, opts...)
		check(a.w, err)
		defer a.w.waitsIn(a.name, service, driver.NewQueue("mutex", name))()
		l, err := m.Lock(ctx)
		if err != nil {
			return nil, nil, a.failed(ctx, err)
		}
		return l.Context(), l.Unlock, nil
	}
	m, err := rwlock.New(a.clients[service], name, opts...)
	check(a.w, err)
	defer a.w.waitsIn(a.name, service, driver.NewQueue("rwlock", name))()
	lock := m.Lock
	if a.r.IntN(2) == 0 {
		lock = m.RLock
	}
	l, err := lock(ctx)
	if err != nil {
		return nil, nil, a.failed(ctx, err)
	}
	return l.Context(), l.Unlock, nil
}

// failed judges the error of a call.
func (a *actor) failed(ctx context.Context, err error) error {
	w := a.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, recipes.ErrDeadlock) {
		w.counts.gave++
		w.trace("%s gives up", a.name)
		if !w.yields || ctx.Err() != nil {
			w.Errorf("seed %d: %s gave up: %v", w.seed, a.name, err)
		}
	}
	return err
}

// waitsIn notes that an actor waits, until the function that it returns is
// called.
func (w *arena) waitsIn(who string, service int, queue driver.Queue) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits[who] = waitAt{service, queue, time.Now()}
	w.trace("%s waits at %d for %s", who, service, queue)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waits, who)
		w.trace("%s waits no more", who)
	}
}

// trace logs a step of the only world.
func (w *arena) trace(format string, args ...any) {
	if w.traced {
		w.Logf("%v "+format, append([]any{time.Since(w.began)}, args...)...)
	}
}
