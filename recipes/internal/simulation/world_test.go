package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// world is everything that one seed makes. It lives in one bubble.
type world struct {
	seed    uint64
	svc     *memory.Service
	began   time.Time
	ttl     time.Duration
	storm   float64       // the share of requests that something happens to
	longest time.Duration // for which a request or a reply is held up
	lasts   time.Duration // until all is mended
	stale   bool          // views may be of the past
	core    bool          // the service has no capabilities
	names   []*name
	slots   []*slot
	book    *book

	mended chan struct{} // closed when nothing goes wrong any more
	ending chan struct{} // closed when everybody is to come to an end
	// How long it may take, in the calm between, that somebody is told of what
	// concerns him.
	prompt time.Duration
	over   context.Context
	stop   context.CancelFunc
	actors sync.WaitGroup

	// mu guards all that follows. It is taken inside the service's steps, so
	// whoever has it calls nothing but context.Context.Done.
	mu       sync.Mutex
	mendedAt time.Duration // zero before
	fair     bool          // requests are spared from now on
	calmFrom time.Duration // zero before: what went wrong has no consequences any more
	draws    map[string]uint64
	labels   map[string]string // who made the contender with this ID
	looks    map[string]look   // of each actor
	queues   map[driver.Queue]*queue
	ended    map[string]time.Duration // sessions
	told     map[int]time.Duration    // when a session of a slot ended last
	drivers  []*memory.Driver
	owner    map[*memory.Driver]*slot
	removing bool                // an operator deletes one entry, and not a session
	seen     map[string]evidence // of each actor
	watchers map[string]*watcher
	closedBy map[*memory.Driver]string // the session that ended when the client was closed
	trace    []traced
	bad      []string
	doing    map[string]string // what each actor is about
	figures
}

// figures are what is told of a run.
type figures struct {
	grants, reentries, losses, condemned int
	// Grants: after a wait, before mending, and of an entry that was gone.
	contended, early, doomed int
	passes                   int // leavings of those who tell that they pass
	// Follows that were told of a pass, that were not, of a place that had
	// left, by one who had.
	handed, unsaid, belated, orphans int
	// Holds that the service's clock has ended, with others in the queue.
	natural int
	faults  map[string]int
	sites   map[memory.Op]map[string]int
	// From mending, or from asking if that was later, to a grant.
	slowest time.Duration
}

// traced is one queue of the trace. It is put into words if somebody wants to
// read it.
type traced struct {
	at     time.Duration
	format string
	args   []any
	text   string
}

// name is one recipe under one name.
type name struct {
	recipe string
	name   string
	queue  driver.Queue
	limit  int // of a semaphore, at first
}

// recipeKinds are what a name can be.
var recipeKinds = []string{"mutex", "rwlock", "semaphore", "election"}

// onCore before a recipe means that the service offers the core of the
// contract and no capabilities.
const onCore = "core-"

// coreKinds are the recipes that are simulated on the core.
var coreKinds = []string{onCore + "mutex", onCore + "rwlock", onCore + "semaphore",
	onCore + "election"}

// newWorld draws a world. It starts nothing.
func newWorld(seed uint64, recipe string) *world {
	recipe, core := strings.CutPrefix(recipe, onCore)
	r := rand.New(rand.NewPCG(seed, 0x62a70e))
	w := &world{
		seed: seed, core: core, began: time.Now(), book: newBook(), mended: make(chan struct{}),
		ending: make(chan struct{}),
		looks:  map[string]look{}, seen: map[string]evidence{}, watchers: map[string]*watcher{},
		closedBy: map[*memory.Driver]string{},
		draws:    map[string]uint64{}, labels: map[string]string{},
		queues: map[driver.Queue]*queue{},
		ended:  map[string]time.Duration{}, told: map[int]time.Duration{},
		owner: map[*memory.Driver]*slot{}, doing: map[string]string{},
		figures: figures{faults: map[string]int{}, sites: map[memory.Op]map[string]int{}},
	}
	w.over, w.stop = context.WithCancel(context.Background())
	w.ttl = time.Duration(1+r.IntN(8)) * time.Second
	w.longest = w.ttl * 3 / 2
	w.lasts = time.Duration(2+r.Int64N(8)) * w.ttl
	w.storm = []float64{0, 0.01, 0.05, 0.15}[r.IntN(4)]
	var opts []memory.Option
	if r.IntN(2) == 0 {
		w.stale = true
		opts = append(opts, memory.WithStaleViews(seed))
	}
	if r.IntN(4) == 0 {
		opts = append(opts, memory.WithSlack(w.ttl/4))
	}
	if r.IntN(3) == 0 {
		opts = append(opts, memory.WithFewHints(seed))
	}
	w.svc = memory.NewService(opts...)
	w.svc.OnStep(w.step)
	w.svc.OnRequest(w.fate)
	for i := range 1 + r.IntN(2) {
		n := &name{recipe: recipe, name: fmt.Sprint("n", i), limit: 1 + r.IntN(4)}
		if n.recipe == "" {
			n.recipe = recipeKinds[r.IntN(len(recipeKinds))]
		}
		n.queue, _ = engine.QueueOf(n.recipe, n.name)
		w.names = append(w.names, n)
		w.queues[n.queue] = newQueue(n)
	}
	for i := range 2 + r.IntN(5) {
		slow := time.Duration(1 + r.Int64N(int64(w.ttl/100)))
		w.slots = append(w.slots, newSlot(w, i, slow))
		w.prompt = max(w.prompt, 12*slow+50*time.Millisecond)
	}
	return w
}

// now is the time since the world began.
func (w *world) now() time.Duration { return time.Since(w.began) }

// rng is a generator that nobody else has.
func (w *world) rng(key string) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// draw is the next generator of a sequence.
func (w *world) draw(key string) *rand.Rand {
	w.mu.Lock()
	n := w.draws[key]
	w.draws[key]++
	w.mu.Unlock()
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	return rand.New(rand.NewPCG(w.seed^h.Sum64(), n))
}

// log adds to the trace. The caller holds w.mu.
func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, traced{at: w.now(), format: format, args: args})
}

// say is log for those who do not hold w.mu.
func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log(format, args...)
}

// violation notes what must not be. The caller holds w.mu.
func (w *world) violation(format string, args ...any) {
	w.log("VIOLATION: "+format, args...)
	w.bad = append(w.bad, fmt.Sprintf("at %v: ", w.now())+fmt.Sprintf(format, args...))
}

// blame is violation for those who do not hold w.mu.
func (w *world) blame(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violation(format, args...)
}

// sum is a hash of the trace. Events of one instant have no order.
func (w *world) sum() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.trace {
		w.trace[i].text = fmt.Sprintf(w.trace[i].format, w.trace[i].args...)
	}
	slices.SortStableFunc(w.trace, func(a, b traced) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		switch {
		case a.text < b.text:
			return -1
		case a.text > b.text:
			return 1
		}
		return 0
	})
	h := fnv.New64a()
	for _, e := range w.trace {
		fmt.Fprintf(h, "%d %s\n", e.at, e.text)
	}
	return h.Sum64()
}

// run lets the world happen: everything goes wrong for a while, then it is
// mended.
func (w *world) run(t *testing.T) {
	var nature sync.WaitGroup
	for _, s := range w.slots {
		w.open(s)
	}
	w.people()
	nature.Go(w.nature)
	nature.Go(func() { w.auditor(w.lasts) })
	nature.Wait() // for w.lasts, and until all is mended
	w.mu.Lock()
	w.mendedAt = w.now()
	w.log("mended")
	w.mu.Unlock()
	close(w.mended)
	nature.Go(w.calm)
	nature.Wait()
	close(w.ending)

	w.join("served", w.bound())
	time.Sleep(w.longest) // what was held up has arrived by now
	w.judgeEnd(t)
}

// bound is how long after mending everybody must have been served.
func (w *world) bound() time.Duration { return 3*w.ttl + 2*w.longest + 20*time.Second }

// join waits for all actors.
func (w *world) join(what string, bound time.Duration) {
	done := make(chan struct{})
	go func() { w.actors.Wait(); close(done) }()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-done:
		w.stop()
		return
	case <-timer.C:
	}
	w.mu.Lock()
	for who, what := range w.doing {
		if what != "" {
			w.violation("%s was not served %v after everything was mended: it is at %s", who, bound,
				what)
		}
	}
	w.mu.Unlock()
	w.stop()
	<-done
}

// judgeEnd looks at what is left when everybody has gone: first while the
// sessions are alive, then without them.
func (w *world) judgeEnd(t *testing.T) {
	for deadline := w.now() + w.ttl + time.Second; ; time.Sleep(w.ttl / 7) {
		if stats := w.svc.Stats(); stats.Entries == 0 && stats.Watches == 0 || w.now() > deadline {
			break
		}
	}
	if stats := w.svc.Stats(); stats.Entries > 0 || stats.Watches > 0 {
		w.blame("%d entries in %v and %d watches are left behind", stats.Entries, w.svc.Queues(),
			stats.Watches)
	}
	for _, s := range w.slots {
		err := s.client.Close(t.Context())
		if err != nil {
			w.blame("close of a client in a world that is mended: %v", err)
		}
		w.judgeClosed(s.driver, err)
	}
	// Sessions that nobody knows of: of a crash, of an opening whose reply was
	// lost.
	time.Sleep(w.ttl)
	if stats := w.svc.Stats(); stats.Sessions > 0 {
		w.blame("%d sessions are left behind", stats.Sessions)
	}
	for _, bad := range w.book.audit() {
		w.blame("%s", bad)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.queues {
		if len(l.entries) > 0 {
			w.violation("the judge still sees entries in %s", l.name.queue)
		}
		for _, h := range l.holds {
			if h.alive() {
				w.violation("token %d of %s is alive after everything was closed", h.token,
					l.name.queue)
			}
		}
	}
}

// slot is a place for a client: when one is closed or crashes, another takes
// its place, as a process is started again.
type slot struct {
	w     *world
	index int
	slow  time.Duration // the longest that a message takes when nothing is wrong
	alone atomic.Bool   // no one else replaces the client at the moment

	// Guarded by w.mu.
	client  *coordinator.Client
	driver  *memory.Driver
	started int
	objects map[*name]any
}

func newSlot(w *world, index int, slow time.Duration) *slot {
	return &slot{w: w, index: index, slow: slow}
}

// open starts a client in a slot.
func (w *world) open(s *slot) {
	d := w.svc.Driver()
	c, err := coordinator.New(&jittery{Driver: d, w: w, slot: s},
		coordinator.WithTTL(w.ttl), coordinator.WithIdentity(fmt.Sprint("c", s.index)),
		coordinator.WithLogger(slog.New(slog.DiscardHandler)),
		func(c *engine.Config) { c.Jitter = 0 },
		coordinator.WithObserver(w.book), coordinator.WithObserver(
			event.ObserverFunc(func(e event.Event) { w.observe(s, d, e) })))
	if err != nil {
		panic(err)
	}
	objects := map[*name]any{}
	for _, n := range w.names {
		objects[n] = n.object(c)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.client, s.driver, s.objects = c, d, objects
	s.started++
	w.drivers, w.owner[d] = append(w.drivers, d), s
}

// observe hears what the clients say of themselves.
func (w *world) observe(s *slot, d *memory.Driver, e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Kind {
	case event.SessionOpened:
		w.log("c%d opened session %s", s.index, e.Session)
	case event.SessionEnded:
		w.log("c%d session %s ended", s.index, e.Session)
		w.ended[e.Session], w.told[s.index] = w.now(), w.now()
		if errors.Is(e.Err, coordinator.ErrClosed) {
			w.closedBy[d] = e.Session
		}
	case event.Granted:
		w.queues[e.Queue].won[e.Token] = true
	case event.Lost:
		w.losses++
		w.log("c%d lost token %d of %s", s.index, e.Token, e.Queue)
	}
}
