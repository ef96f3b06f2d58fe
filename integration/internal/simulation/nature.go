package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// The kinds of faults of a request.
var requestFaults = []string{
	"request lost", "reply lost", "request late", "reply late", "unavailable", "refused",
	"expired with the reply under way", "reset with the reply under way",
}

// fate determines the fate of a request.
func (w *world) fate(m Message) memory.Fate {
	s := w.slotOf(m.Link)
	key := fmt.Sprintf("fate %d %s %s", s.index, m.Op,
		w.who(m.Context, memory.Op(m.Op), m.Session, m.ID))
	if m.Op == string(memory.OpWatch) { // a waiter may watch its own entry at the same moment
		key += w.label(m.ID)
	}
	r := w.draw(key)
	usual := func() time.Duration { return time.Duration(1 + r.Int64N(int64(s.slow))) }
	f := memory.Fate{DelayRequest: usual(), DelayReply: usual()}
	hit := r.Float64()
	pick := r.IntN(1 << 16)
	late := time.Duration(r.Int64N(int64(w.longest - w.longest/10)))
	w.mu.Lock()
	defer w.mu.Unlock()
	if hit >= w.storm || w.fair || len(w.requestFaults) == 0 {
		return f
	}
	kind := w.requestFaults[pick%len(w.requestFaults)]
	if !w.swarm.uses(kind) {
		return f
	}
	switch kind {
	case "request lost":
		f.DropRequest = true
	case "reply lost":
		f.DropReply = true
	case "request late": // it may arrive after its call has returned or sent another
		f.DelayRequest += late
	case "reply late":
		f.DelayReply += late
	case "unavailable":
		f.Err = driver.ErrUnavailable
	case "refused":
		w.wasRefused(s, m)
		f.Err = driver.ErrRefused
	case "expired with the reply under way":
		f.DelayReply += late / 2
		at := f.DelayRequest + 1 + usual()
		if r.IntN(2) == 0 { // otherwise few sessions would end by the clock
			return f
		}
		time.AfterFunc(at, func() {
			if m.Session == "" { // of the session that it opens, or any
				m.Link.Expire()
			} else {
				w.svc.Expire(m.Session)
			}
		})
	case "reset with the reply under way":
		f.DelayReply += late / 10
		time.AfterFunc(f.DelayRequest+1+usual(), m.Link.Reset)
	}
	w.count(kind)
	w.reach(met(m.Op, kind))
	w.log("c%d: %s: %s", s.index, m.Op, kind)
	return f
}

func (w *world) count(kind string) { w.faults[kind]++ }

// slotOf finds the slot of a client, also of a closed one.
func (w *world) slotOf(l Link) *slot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owner[l]
}

// act is a fault of a world, and a function that ends it, if any.
type act struct {
	kind string
	do   func(r *rand.Rand, l Link)
}

// acts are what the network and the operator do.
func (w *world) acts() []act {
	link := func(kind string, f func(Link)) act {
		return act{kind, func(_ *rand.Rand, l Link) { f(l) }}
	}
	all := []act{
		link("cut", w.cut),
		link("cut", w.cut),
		link("requests held", Link.HoldRequests),
		link("replies held", Link.HoldReplies),
		link("reset", Link.Reset),
		link("stranded", func(l Link) {
			w.cut(l)
			time.Sleep(w.some("strand", w.ttl))
			l.Strand()
			w.heal(l)
			time.Sleep(w.some("strand", w.ttl/2))
			l.Deliver()
		}),
		{"cut while holding", func(r *rand.Rand, _ Link) { w.cutHolder(r) }},
		{"cut while holding", func(r *rand.Rand, _ Link) { w.cutHolder(r) }},
		{"cut while holding", func(r *rand.Rand, _ Link) { w.cutHolder(r) }},
		link("healed", w.heal),
		link("fading", func(l Link) { // answers are late, then lost
			l.Delay(0, w.ttl/8+w.some("fade", w.ttl/9))
			time.Sleep(w.some("fade", w.ttl/2))
			w.cut(l)
			time.Sleep(w.ttl + w.some("fade", w.ttl/2))
		}),
		{"slow", func(r *rand.Rand, l Link) {
			l.Delay(time.Duration(r.Int64N(int64(w.ttl/3))),
				time.Duration(r.Int64N(int64(w.ttl/3))))
		}},
		{"service stopped", func(r *rand.Rand, _ Link) {
			lasts := time.Duration(r.Int64N(int64(2 * w.ttl)))
			if r.IntN(3) == 0 && w.swarm.on("long outage") {
				lasts += 4 * w.ttl
			}
			w.outage(lasts)
		}},
		{"session expired", func(r *rand.Rand, _ Link) {
			if all := w.svc.Sessions(); len(all) > 0 && r.IntN(2) == 0 {
				w.svc.Expire(all[r.IntN(len(all))])
			}
		}},
		{"entry deleted", func(r *rand.Rand, _ Link) { w.remove(r) }},
		{"foreign entry", func(r *rand.Rand, _ Link) {
			queue := w.names[r.IntN(len(w.names))].queue
			p := w.svc.AddForeign(queue)
			time.Sleep(time.Duration(r.Int64N(int64(w.ttl))))
			w.svc.Remove(queue, p.Key)
		}},
	}
	for _, f := range w.svc.Faults() {
		all = append(all, act{f.Kind, func(r *rand.Rand, l Link) { f.Do(w, r, l) }})
	}
	return slices.DeleteFunc(all, func(a act) bool { return !w.swarm.has(a.kind) })
}

// cutHolder cuts off a client with a hold, for more than the TTL.
func (w *world) cutHolder(r *rand.Rand) {
	w.mu.Lock()
	l := w.holder(r)
	w.mu.Unlock()
	if l == nil {
		return
	}
	w.cut(l)
	time.Sleep(w.ttl + w.some("cut while holding", w.ttl))
	w.heal(l)
}

// holder is the link of a client with a hold, or nil. The caller holds w.mu.
func (w *world) holder(r *rand.Rand) Link {
	holding := map[int]bool{}
	for _, l := range w.queues {
		for _, h := range l.holds {
			if h.alive() && h.generation == w.slots[h.slot].started {
				holding[h.slot] = true
			}
		}
	}
	all := slices.Sorted(maps.Keys(holding))
	if len(all) == 0 {
		return nil
	}
	return w.slots[all[r.IntN(len(all))]].link
}

// readTimes is what an actor has read in its current attempt.
type readTimes struct {
	joined  bool
	changed time.Duration // when its last view had changed last; see viewed
	slept   bool          // it has waited for another contender
}

// some is a random time.
func (w *world) some(what string, most time.Duration) time.Duration {
	return time.Duration(1 + w.draw(what).Int64N(int64(most)))
}

// remove deletes an entry as an operator would.
func (w *world) remove(r *rand.Rand) {
	queue := w.names[r.IntN(len(w.names))].queue
	all := w.svc.Snapshot(queue)
	if len(all) == 0 {
		return
	}
	key := all[r.IntN(len(all))].Key
	w.mu.Lock()
	w.removing = true
	w.mu.Unlock()
	w.svc.Remove(queue, key)
	w.mu.Lock()
	w.removing = false
	w.mu.Unlock()
}

// recovery is the time after the faults. When late messages have arrived,
// contenders are served at once, and holders whose session or entry an operator
// removed are notified at once.
func (w *world) recovery() {
	r := w.rng("calm")
	time.Sleep(w.longest + 2*w.ttl)
	w.mu.Lock()
	w.recoveredAt = w.now()
	w.log("recovered")
	w.mu.Unlock()
	until := w.now() + time.Duration(1+r.Int64N(int64(4*w.ttl)))
	var audits sync.WaitGroup
	audits.Go(func() { w.auditor(until) })
	for w.now() < until {
		time.Sleep(time.Duration(1 + r.Int64N(int64(w.ttl))))
		w.remove(r)
	}
	audits.Wait()
}

// nature injects faults, and ends them all after a time.
func (w *world) nature() {
	r := w.rng("nature")
	acts := w.acts()
	every := []time.Duration{w.ttl / 4, w.ttl, 4 * w.ttl}[r.IntN(3)]
	for {
		pause := time.Duration(1 + r.Int64N(int64(every)))
		if w.now()+pause >= w.lasts {
			time.Sleep(w.lasts - w.now() + 1)
			break
		}
		time.Sleep(pause)
		w.mu.Lock()
		l := w.slots[r.IntN(len(w.slots))].link
		if holder := w.holder(r); holder != nil && r.IntN(2) == 0 {
			l = holder // most faults of others show nothing
		}
		a := act{"no fault", func(*rand.Rand, Link) {}}
		if n := r.IntN(1 << 16); len(acts) > 0 && w.swarm.uses(acts[n%len(acts)].kind) {
			a = acts[n%len(acts)]
		}
		w.count(a.kind)
		w.log("c%d: %s", w.owner[l].index, a.kind)
		w.mu.Unlock()
		a.do(w.draw("nature "+a.kind), l)
		if r.IntN(3) == 0 { // a short fault
			time.Sleep(time.Duration(1 + r.Int64N(int64(w.ttl/2))))
			w.heal(l)
			l.Delay(0, 0)
		}
	}
	w.mu.Lock()
	w.fair = true // first: otherwise mended links would break again
	links := slices.Clone(w.links)
	w.mu.Unlock()
	for _, l := range links { // one after the other, for a fixed order of events
		w.mend(l)
		time.Sleep(time.Duration(1 + r.Int64N(int64(time.Millisecond))))
	}
}

// mend ends all faults of a link.
func (w *world) mend(l Link) {
	w.heal(l)
	l.Delay(0, 0)
	// Otherwise notifications would be delayed whenever they come. Requests
	// still arrive late.
	l.Strand()
	l.Deliver()
}
