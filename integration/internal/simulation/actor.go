package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// actor is a goroutine of a client that uses one name.
type actor struct {
	w     *world
	slot  *slot
	name  *name
	label string
	r     *rand.Rand
	ctx   context.Context // has the label

	// Of its current round, as evidence: since when, and with which of the
	// slot's clients.
	since      time.Duration
	generation int
	wants      int // permits
}

// warn is the WithHoldWarning of all recipes. Some holds last longer.
const warn = 300 * time.Millisecond

// object creates a recipe's object for a name on a client.
func (s *slot) object(n *name, c *coordinator.Client) any {
	var o any
	var err error
	switch n.recipe {
	case "mutex":
		opts := []mutex.Option{mutex.WithHoldWarning(warn)}
		if d := s.retain(n); d > 0 {
			opts = append(opts, mutex.WithRetain(d))
		}
		if d := s.w.lockDelay(n); d > 0 {
			opts = append(opts, mutex.WithLockDelay(d))
		}
		if d := s.maxHold(n); d > 0 {
			opts = append(opts, mutex.WithMaxHold(d))
		}
		o, err = mutex.New(c, n.name, opts...)
	case "rwlock":
		opts := []rwlock.Option{rwlock.WithHoldWarning(warn)}
		if s.shares(n) {
			opts = append(opts, rwlock.WithSharedReads())
		}
		o, err = rwlock.New(c, n.name, opts...)
	case "semaphore":
		o, err = semaphore.New(c, n.name, semaphore.Stored, semaphore.WithHoldWarning(warn))
	case "election":
		o, err = election.New(c, n.name, election.WithHoldWarning(warn))
	}
	if err != nil {
		panic(err)
	}
	return o
}

// extraActors is the number of additional actors, of one or two clients, at
// some semaphores, so that the shared queue watch pays.
const extraActors = 24

// startActors starts one to three actors per client, an observer per election
// and client, and the extra actors.
func (w *world) startActors() {
	r := w.rng("people")
	for _, s := range w.slots {
		client := w.swarm.uses(fmt.Sprint("c", s.index))
		for i := range 1 + r.IntN(3) {
			n := w.names[r.IntN(len(w.names))]
			if label := fmt.Sprintf("c%d.%d", s.index, i); client && w.swarm.uses(label) {
				w.actor(s, n, label, (*actor).live)
			}
		}
		for _, n := range w.names {
			if n.recipe == "election" && r.IntN(2) == 0 && w.swarm.on("observe") && client {
				w.actor(s, n, fmt.Sprintf("c%d.observer-%s", s.index, n.name), (*actor).observe)
			}
		}
	}
	for _, n := range w.names {
		w.startExtra(n)
	}
}

// startExtra starts the extra actors of a name.
func (w *world) startExtra(n *name) {
	several := func(s *slot, size int, label string) {
		for i := range size {
			w.actor(s, n, fmt.Sprintf("%s%d-%s", label, i, n.name), (*actor).live)
		}
	}
	switch n.recipe {
	case "mutex":
		// Callers that wait for each other at a client, while others queue.
		c := w.rng("line " + n.name)
		if c.IntN(3) == 0 && w.retains(n) && w.swarm.uses("line of callers") {
			s := w.slots[c.IntN(2)]
			several(s, 3+c.IntN(6), "line")
		}
	case "rwlock":
		// Readers that share entries, while others read and write.
		c := w.rng("readers " + n.name)
		if c.IntN(3) == 0 && w.shares(n) && w.swarm.uses("many readers") {
			several(w.slots[c.IntN(2)], readers, "reader")
		}
	case "semaphore":
		w.actor(w.slots[0], n, "governor-"+n.name, (*actor).govern)
		c := w.rng("crowd " + n.name)
		if c.IntN(4) != 0 || !w.swarm.uses("many contenders") {
			return
		}
		for i := range extraActors {
			w.actor(w.slots[c.IntN(2)], n, fmt.Sprintf("crowd%d-%s", i, n.name), (*actor).live)
		}
	}
}

func (w *world) actor(s *slot, n *name, label string, live func(*actor)) {
	w.contenders++
	a := &actor{w: w, slot: s, name: n, label: label, r: w.rng("actor " + label),
		ctx: context.WithValue(w.over, actorKey{}, label)}
	w.actors.Go(func() {
		a.pause(w.ttl) // so that the actors start at different times
		live(a)
	})
}

// live does rounds until the faults end, and then a last one that must succeed.
func (a *actor) live() {
	for ; !a.w.isEnding(); a.pause(a.w.ttl) {
		if a.does("restart", 40) && !a.w.isMended() {
			a.restart()
			continue
		}
		a.round(a.bounds())
	}
	a.last()
}

// last is a round that must succeed: acquire and release.
func (a *actor) last() {
	for a.w.over.Err() == nil {
		a.at("the last round")
		if a.round(a.ctx, func() {}) {
			a.at("")
			return
		}
		a.pause(time.Second)
	}
	a.at("")
}

func (w *world) isMended() bool { return closed(w.mended) }
func (w *world) isEnding() bool { return closed(w.ending) }

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// at records what an actor does, to report actors that are not served.
func (a *actor) at(what string) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.doing[a.label] = what
}

// restart closes or crashes the client, and starts another in its place.
func (a *actor) restart() {
	s, w := a.slot, a.w
	if !s.alone.CompareAndSwap(false, true) {
		return
	}
	defer s.alone.Store(false)
	a.since = w.now()
	w.mu.Lock()
	old, link, generation := s.client, s.link, s.started
	crash := a.does("crash", 2)
	w.reachIf(w.holds(s) && crash, crashedWithHolds)
	w.reachIf(w.holds(s) && !crash, closedWithHolds)
	w.mu.Unlock()
	w.say("%s: restarts (crash: %v)", a.label, crash)
	w.open(s)
	ctx, cancel := a.releaseBounds()
	defer cancel()
	if crash {
		w.note(func() { w.crashed = append(w.crashed, link) })
		link.Cut()
		ctx, cancel = context.WithTimeout(a.ctx, time.Millisecond)
		defer cancel()
	}
	err := a.call(ctx, "close", afterwards(ctx), old.Close)
	w.judgeClosed(link, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count("client closed")
	for _, l := range w.queues {
		for _, h := range l.holds {
			if h.slot == s.index && h.alive() && h.generation == generation {
				w.violation("%s: %d is alive after its client was closed", l.name.queue, h.token)
			}
		}
	}
}

// object returns the object of the slot's current client.
func (a *actor) object() (any, int) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.generation = a.slot.started
	return a.slot.objects[a.name], a.slot.started
}

// round is a round of an actor. It reports whether it held and released.
func (a *actor) round(ctx context.Context, cancel func()) bool {
	defer cancel()
	a.since = a.w.now()
	o, generation := a.object()
	switch o := o.(type) {
	case *mutex.Mutex:
		return a.mutex(ctx, o, generation)
	case *rwlock.RWLock:
		return a.rwlock(ctx, o, generation)
	case *semaphore.Semaphore:
		return a.semaphore(ctx, o, generation)
	case *election.Election:
		return a.election(ctx, o, generation)
	}
	panic("no such recipe")
}

// handleOf has the methods of the handles of all recipes.
type handleOf interface {
	Token() coordinator.Token
	Session() string
	Context() context.Context
	Err() error
}

// held records a grant.
func (a *actor) held(l handleOf, writes bool, permits int, floor coordinator.Token,
	asked time.Duration, generation int) *handle {
	ctx := l.Context()
	also := []context.Context{derived(ctx)}
	if work, ok := l.(inWork); ok {
		also = append(also, work.handleOf.Context())
	}
	return a.w.granted(claim{name: a.name, slot: a.slot.index, generation: generation, who: a.label,
		token: l.Token(), session: l.Session(), also: also,
		ctx: ctx, writes: writes, permits: permits, floor: floor, asked: asked})
}

// derived returns a context such as a caller gives to a request.
func derived(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	_ = cancel // it ends with ctx
	return ctx
}

// inWork is the hold of a Do or a Run: its context is that of the work.
type inWork struct {
	handleOf
	ctx context.Context
}

func (d inWork) Context() context.Context { return d.ctx }

// back releases a handle, and judges the result.
func (a *actor) back(x *handle, what string, release func(context.Context) error) bool {
	ctx, cancel := a.releaseBounds()
	defer cancel()
	a.w.giving(x)
	err := a.call(ctx, what, afterwards(ctx), release, coordinator.ErrNotHeld)
	a.w.gave(a.name, x, err)
	if again := release(ctx); !errors.Is(again, coordinator.ErrNotHeld) {
		a.w.blame("%s: a second %s returned %v", a.label, what, again)
	}
	return err == nil
}
