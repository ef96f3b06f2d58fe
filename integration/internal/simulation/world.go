package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// world is the world of a seed. It lives in a bubble.
type world struct {
	seed   uint64
	svc    Service
	traits Traits
	began  time.Time
	ttl    time.Duration
	swarm  *swarm
	// The kinds of faults of requests that the seed has.
	requestFaults []string
	storm         float64       // the share of requests with a fault
	longest       time.Duration // the longest delay of a request or reply
	lasts         time.Duration // until the faults end
	core          bool          // the service has no capabilities
	contenders    int           // how many there are
	names         []*name
	slots         []*slot
	book          *book

	mended chan struct{} // closed when the faults have ended
	ending chan struct{} // closed when all actors have to end
	// Between the two: the bound of the time until a client notices an event.
	prompt time.Duration
	over   context.Context
	stop   context.CancelFunc
	actors sync.WaitGroup

	// mu guards the fields below. It is locked inside the service's steps, so
	// its holder calls nothing but context.Context.Done.
	mu          sync.Mutex
	mendedAt    time.Duration // zero before
	fair        bool          // no request has a fault from now on
	recoveredAt time.Duration // when the faults have no more consequences; zero before
	draws       map[string]uint64
	labels      map[string]string    // the actor of the contender with this ID
	reads       map[string]readTimes // of each actor
	queues      map[driver.Queue]*queue
	chosen      map[coordinator.Token]bool // candidates to which a leader transfers past others
	ended       map[string]time.Duration   // sessions
	lostAt      map[int]time.Duration      // when a session of a slot ended last
	links       []Link
	crashed     []Link // of clients that have crashed
	owner       map[Link]*slot
	refuses     bool                // the service refuses requests of all clients,
	refusedAt   time.Duration       // or did so until then
	removing    bool                // an operator deletes one entry, and not a session
	seen        map[string]evidence // of each actor
	watchers    map[string]*watcher
	asked       map[string]time.Duration // when an actor began to acquire last
	away        map[string]time.Duration // since when sessions are suspended
	closedBy    map[Link]string          // the session that ended when the client was closed
	trace       []traced
	bad         []string
	sorts       []string          // of bad: the violations without their values
	doing       map[string]string // what each actor does
	evidenceOfStates
	figures
}

// name is a name of a recipe.
type name struct {
	recipe string
	name   string
	queue  driver.Queue
	limit  int // of a semaphore, at first
}

// recipeKinds are the recipes of a name.
var recipeKinds = []string{"mutex", "rwlock", "semaphore", "election"}

// onCore before a recipe means that the service has only the core of the
// contract, without capabilities.
const onCore = "core-"

// coreKinds are the recipes that are simulated on the core.
var coreKinds = []string{onCore + "mutex", onCore + "rwlock", onCore + "semaphore",
	onCore + "election"}

// newWorld generates a world. It starts nothing but the service.
func newWorld(t testing.TB, kind Kind, set settings) *world {
	recipe, core := strings.CutPrefix(set.recipe, onCore)
	r := rand.New(rand.NewPCG(set.seed, 0x62a70e))
	w := &world{
		seed: set.seed, core: core, began: time.Now(), book: newBook(), mended: make(chan struct{}),
		ending: make(chan struct{}),
		reads:  map[string]readTimes{}, seen: map[string]evidence{}, watchers: map[string]*watcher{},
		away: map[string]time.Duration{}, asked: map[string]time.Duration{},
		closedBy: map[Link]string{},
		draws:    map[string]uint64{}, labels: map[string]string{},
		queues: map[driver.Queue]*queue{}, chosen: map[coordinator.Token]bool{},
		ended: map[string]time.Duration{}, lostAt: map[int]time.Duration{},
		owner: map[Link]*slot{}, doing: map[string]string{},
		figures: newFigures(), evidenceOfStates: newEvidenceOfStates(),
	}
	w.swarm = w.newSwarm(set.without, kind.Without)
	for _, kind := range requestFaults {
		if w.swarm.has(kind) {
			w.requestFaults = append(w.requestFaults, kind)
		}
	}
	w.over, w.stop = context.WithCancel(context.Background())
	w.ttl = max(kind.Shortest, time.Duration(1+r.IntN(8))*time.Second)
	w.longest = w.ttl * 3 / 2
	w.lasts = time.Duration(2+r.Int64N(8)) * w.ttl
	if set.until > 0 {
		w.lasts = min(w.lasts, set.until)
	}
	w.storm = []float64{0, 0.01, 0.05, 0.15}[r.IntN(4)]
	w.startService(t, kind, r)
	for i := range 1 + r.IntN(2) {
		n := &name{recipe: recipe, name: fmt.Sprint("n", i), limit: 1 + r.IntN(4)}
		if n.recipe == "" {
			recipes := kind.Recipes
			if recipes == nil {
				recipes = recipeKinds
			}
			n.recipe = recipes[r.IntN(len(recipes))]
		}
		n.queue, _ = engine.QueueOf(n.recipe, n.name)
		w.names = append(w.names, n)
		w.queues[n.queue] = newQueue(n)
	}
	for i := range 2 + r.IntN(5) {
		slow := time.Duration(1 + r.Int64N(int64(w.ttl/100)))
		w.slots = append(w.slots, newSlot(w, i, slow))
		w.prompt = max(w.prompt, 12*slow*time.Duration(max(1, w.traits.Rounds))+50*time.Millisecond)
	}
	w.prompt += w.traits.Late
	return w
}

// startService starts the world's service.
func (w *world) startService(t testing.TB, kind Kind, r *rand.Rand) {
	svc, err := kind.New(Conditions{T: t, Seed: w.seed, Rand: r, TTL: w.ttl, World: w})
	if err != nil {
		t.Fatal(err)
	}
	w.svc, w.traits = svc, svc.Traits()
	svc.OnStep(w.step)
	svc.OnMessage(w.fate)
}

// TTL and Reached implement World.
func (w *world) TTL() time.Duration { return w.ttl }

func (w *world) Reached(state string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reach(state)
}

// Queue implements World.
func (w *world) Queue(name string) driver.Queue {
	for _, n := range w.names { // complete before the first request
		if n.name == name {
			return n.queue
		}
	}
	return ""
}

// Label implements World.
func (w *world) Label(id string) string { return w.label(id) }

// Blame implements World.
func (w *world) Blame(format string, args ...any) { w.blame(format, args...) }

// Refuses implements World.
func (w *world) Refuses(does bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses, w.refusedAt = does, w.now()
}

// Mended implements World.
func (w *world) Mended() bool { return w.isMended() }

// reach is Reached for callers that hold w.mu.
func (w *world) reach(state string) { w.states[state]++ }

// reachIf is reach if it is so.
func (w *world) reachIf(so bool, state string) {
	if so {
		w.reach(state)
	}
}

// now returns the time since the world began.
func (w *world) now() time.Duration { return time.Since(w.began) }

// rng returns a separate generator.
func (w *world) rng(key string) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// draw returns the next generator of a sequence.
func (w *world) draw(key string) *rand.Rand {
	w.mu.Lock()
	n := w.draws[key]
	w.draws[key]++
	w.mu.Unlock()
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	return rand.New(rand.NewPCG(w.seed^h.Sum64(), n))
}

// run runs the world: first with faults, then without.
func (w *world) run(t *testing.T) {
	var nature sync.WaitGroup
	for _, s := range w.slots {
		w.open(s)
	}
	w.startActors()
	nature.Go(w.nature)
	nature.Go(func() { w.auditor(w.lasts) })
	nature.Wait() // for w.lasts, until the faults have ended
	w.mu.Lock()
	w.mendedAt = w.now()
	w.log("the faults have ended")
	w.mu.Unlock()
	close(w.mended)
	nature.Go(w.recovery)
	nature.Wait()
	close(w.ending)
	nature.Go(func() { w.auditor(1 << 62) }) // until all actors have ended
	w.join(w.bound())
	nature.Wait()
	time.Sleep(w.longest) // late messages have arrived by now
	w.judgeEnd(t)
	w.svc.Close()
}

// bound is how long after the faults every contender must have been served. In
// a queue one is served after the other, each of them late by Late at most. It
// is no longer than a member is ill, which makes them late. The auditor judges
// each of them.
func (w *world) bound() time.Duration {
	late := min(time.Duration(w.contenders)*w.traits.Late, w.traits.Ill+w.traits.Late)
	for _, n := range w.names {
		late += w.lockDelay(n)
	}
	return 3*w.ttl + 2*w.longest + 20*time.Second + late
}

// join waits for all actors.
func (w *world) join(bound time.Duration) {
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
			w.violation("%s was not served %v after the faults: it is at %s", who, bound,
				what)
		}
	}
	w.mu.Unlock()
	w.stop()
	<-done
}

// judgeEnd judges what is left when all actors have ended: first with live
// sessions, then without.
func (w *world) judgeEnd(t *testing.T) {
	// A service keeps the watches of a machine that is gone until it notices. A
	// client may have crashed after the links were mended.
	for _, l := range w.crashed {
		w.mend(l)
	}
	for deadline := w.now() + w.ttl + time.Second + w.traits.Late; ; time.Sleep(w.ttl / 7) {
		if stats := w.svc.Stats(); stats.Entries == 0 && stats.Watches == 0 || w.now() > deadline {
			break
		}
	}
	if stats := w.svc.Stats(); stats.Entries > 0 || stats.Watches > 0 {
		w.blame("%d entries in %v and %d watches are left", stats.Entries, w.svc.Queues(),
			stats.Watches)
	}
	for _, s := range w.slots {
		err := s.client.Close(t.Context())
		if err != nil {
			w.blame("close of a client after the faults: %v", err)
		}
		w.judgeClosed(s.link, err)
	}
	// Sessions without a client: after a crash, or after an opening whose reply
	// was lost. A member that is ill longer than the world has faults applies
	// what it was sent when it has recovered.
	time.Sleep(w.ttl + w.traits.Late + w.traits.Ill)
	if stats := w.svc.Stats(); stats.Sessions > 0 {
		w.blame("%d sessions are left", stats.Sessions)
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
