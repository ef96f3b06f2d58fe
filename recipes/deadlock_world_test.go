package recipes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
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
	yields   bool // all have WithDeadlockError
	broken   bool // some calls lack the context of the holds
	expires  bool // sessions end

	mu       sync.Mutex
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
// is, and with the option it is resolved in time.
func TestDeadlocksInRandomWorlds(t *testing.T) {
	seeds, base := worldNumber("BATON_SEEDS", 40), worldNumber("BATON_SIM_BASE", 1)
	var seen, reports, gave int
	for seed := base; seed < base+seeds && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := &arena{T: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), waits: map[string]waitAt{},
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
			link.Delay(time.Duration(1+w.r.IntN(10))*time.Millisecond, time.Duration(1+w.r.IntN(10))*time.Millisecond)
			c, err := coordinator.New(link, quiet, coordinator.WithObserver(event.DirectFunc(w.observe)))
			check(w, err)
			pair[i], clients = c, append(clients, c)
		}
		for i := range 1 + w.r.IntN(2) {
			a := &actor{w: w, name: fmt.Sprintf("p%d.%d", process, i), clients: pair, names: names,
				r: rand.New(rand.NewPCG(w.seed, uint64(100*process+i)))}
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
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waits, who)
	}
}

// edges returns for which actors each one waits: those of the entries ahead,
// except that readers do not wait for readers.
func (w *arena) edges() map[string][]string {
	all := map[string][]string{}
	for who, at := range w.waits {
		entries := w.services[at.service].Snapshot(at.queue)
		own := -1
		for i, e := range entries {
			if owner(e) == who {
				own = i
			}
		}
		for _, e := range entries[:max(0, own)] {
			if e.Mode != "r" || entries[own].Mode != "r" {
				all[who] = append(all[who], owner(e))
			}
		}
	}
	return all
}

func owner(e driver.Entry) string {
	var said struct{ Identity string }
	_ = json.Unmarshal(e.Value, &said)
	return said.Identity
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
			sees = sees || slices.ContainsFunc(svc.Snapshot(q), func(e driver.Entry) bool { return owner(e) == who })
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
				text += fmt.Sprintf(" %s(%s %d)", owner(e), e.Mode, e.Token)
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
