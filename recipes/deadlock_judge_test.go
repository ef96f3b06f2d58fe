package recipes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/recipes"
)

// This file is the judge of deadlocks in random worlds.

// edges returns for which actors each one waits: those of the entries ahead,
// except that readers do not wait for readers.
func (w *arena) edges() map[string][]string {
	all := map[string][]string{}
	for who, at := range w.waits {
		entries := w.services[at.service].Snapshot(at.queue)
		own := -1
		for i, e := range entries {
			if w.owner(e) == who {
				own = i
			}
		}
		for _, e := range entries[:max(0, own)] {
			if e.Mode != "r" || entries[own].Mode != "r" {
				all[who] = append(all[who], w.owner(e))
			}
		}
	}
	return all
}

// owner is the actor of an entry. Half of the time of a world went into
// decoding the same entries.
func (w *arena) owner(e driver.Entry) string {
	name, known := w.owners[e.ID]
	if !known {
		var said struct{ Identity string }
		_ = json.Unmarshal(e.Value, &said)
		name = said.Identity
		w.owners[e.ID] = name
	}
	return name
}

// reaches returns the actors for which one waits, also through others.
func reaches(edges map[string][]string, from string) map[string]bool {
	found, open := map[string]bool{}, []string{from}
	for ; len(open) > 0; open = open[1:] {
		for _, to := range edges[open[0]] {
			if !found[to] {
				found[to] = true
				open = append(open, to)
			}
		}
	}
	return found
}

// sample looks for deadlocks, and judges those that have lasted too long.
func (w *arena) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	edges := w.edges()
	reach := map[string]map[string]bool{}
	for who := range edges {
		reach[who] = reaches(edges, who)
	}
	in, present, n := map[string]int{}, map[string]bool{}, 0
	for who := range edges {
		if !reach[who][who] || in[who] != 0 {
			continue
		}
		n++
		var members []string
		for other := range edges {
			if reach[who][other] && reach[other][who] {
				in[other], members = n, append(members, other)
			}
		}
		w.judgeDeadlock(members, present)
	}
	for is := range w.cycles {
		if !present[is] {
			delete(w.cycles, is)
		}
	}
	w.samples = append(w.samples, in)
	if most := int(confirmedIn / sampleEvery); len(w.samples) > most {
		w.samples = w.samples[1:]
	}
}

func (w *arena) judgeDeadlock(members []string, present map[string]bool) {
	slices.Sort(members)
	var is string
	for _, m := range members {
		is += fmt.Sprint(m, w.waits[m].since.UnixNano(), " ")
	}
	present[is] = true
	since, known := w.cycles[is]
	if !known {
		w.counts.seen++
		since = time.Now()
		w.cycles[is] = since
		w.trace("deadlock of %v", members)
	}
	if w.broken || w.expires {
		return // a member may not know what it holds, or whom to ask
	}
	if time.Since(since) > time.Hour {
		return // it was judged
	}
	defer func() {
		if w.Failed() {
			w.cycles[is] = time.Now().Add(-2 * time.Hour)
		}
	}()
	// Waiters that have left since do not make it another one.
	closed := time.Time{}
	for _, m := range members {
		if at := w.waits[m].since; at.After(closed) {
			closed = at
		}
	}
	// A member that has no client of one of the services sees less, and the
	// others search after pauses that grow.
	oldest, blind := closed, false
	for _, m := range members {
		if at := w.waits[m].since; at.Before(oldest) {
			oldest = at
		}
		blind = blind || w.waits[m].since.Equal(closed) && !w.seesAll(m, members)
	}
	report, resolve := reportWithin, resolveWithin
	if blind {
		report += closed.Sub(oldest)
		resolve += closed.Sub(oldest) + time.Duration(len(members))*13*time.Second
	}
	said := slices.ContainsFunc(members, func(m string) bool { return w.reported[m].After(closed) })
	switch lasts := time.Since(since); {
	case lasts > report && !said:
		w.Errorf("seed %d: %v wait for each other for %v, and none has reported it:%s", w.seed, members, lasts, w.show())
	case lasts > resolve && w.yields:
		w.Errorf("seed %d: %v wait for each other for %v, and none has given up:%s", w.seed, members, lasts, w.show())
	}
}

// seesAll reports whether an actor has entries at all services at which the
// members of a deadlock wait.
func (w *arena) seesAll(who string, members []string) bool {
	for _, m := range members {
		sees := false
		svc := w.services[w.waits[m].service]
		for _, q := range svc.Queues() {
			sees = sees || slices.ContainsFunc(svc.Snapshot(q), func(e driver.Entry) bool { return w.owner(e) == who })
		}
		if !sees {
			return false
		}
	}
	return true
}

// show prints the queues, and who waits.
func (w *arena) show() (text string) {
	for i, svc := range w.services {
		for _, q := range svc.Queues() {
			text += fmt.Sprintf("\n%d %s:", i, q)
			for _, e := range svc.Snapshot(q) {
				text += fmt.Sprintf(" %s(%s %d)", w.owner(e), e.Mode, e.Token)
			}
		}
	}
	for who, at := range w.waits {
		text += fmt.Sprintf("\n%s waits at %d for %s since %v", who, at.service, at.queue, time.Since(at.since))
	}
	for who, at := range w.reported {
		text += fmt.Sprintf("\n%s has reported %v ago", who, time.Since(at))
	}
	return text
}

// observe judges a report: its parties were in one deadlock a moment ago.
func (w *arena) observe(e event.Event) {
	var found *recipes.DeadlockError
	if e.Kind != event.Deadlocked || !errors.As(e.Err, &found) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.reports++
	w.reported[found.Parties[0].Identity] = time.Now()
	w.trace("%s reports a %v", found.Parties[0].Identity, found)
	for i, p := range found.Parties {
		if next := found.Parties[(i+1)%len(found.Parties)]; next.Holds.Queue != p.Queue {
			w.Errorf("seed %d: %s waits in %s, and the next one holds %s", w.seed, p.Identity, p.Queue, next.Holds.Queue)
		}
	}
	if !slices.ContainsFunc(w.samples, func(in map[string]int) bool {
		first := in[found.Parties[0].Identity]
		return first != 0 && !slices.ContainsFunc(found.Parties, func(p recipes.DeadlockParty) bool {
			return in[p.Identity] != first
		})
	}) {
		w.Errorf("seed %d: reported at %v, and it was none: %v", w.seed, e.Time, found)
	}
}
