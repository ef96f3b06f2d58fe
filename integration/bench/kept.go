package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// KeptResult compares a mutex that keeps its turns (WithRetain) with one that
// does not, on the same servers in the same rounds.
type KeptResult struct {
	Place string `json:"place"`
	Case  string `json:"case"`
	// Without and With have the medians of the rounds.
	Without KeptFigures `json:"without"`
	With    KeptFigures `json:"with"`
	// Times is the median of the rounds' ratios of the grants per second, with
	// the option to without; where one goroutine locks at a time, that of the
	// median locks and unlocks, which a brief load of the machine does not
	// change. Wait is the same of the longest waits.
	Times float64 `json:"times"`
	Wait  float64 `json:"wait"`
	// Least and Most are the grants of the client with the fewest and of that
	// with the most, in all rounds with the option, to the mean of all clients.
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// KeptFigures are those of one subject.
type KeptFigures struct {
	Rate     float64 `json:"per_second"` // grants
	P50      float64 `json:"p50_ns"`     // of a lock and unlock
	Longest  float64 `json:"longest_ns"` // of the waits for a lock
	Requests float64 `json:"requests"`   // per grant; of a round that is not timed
	Allocs   float64 `json:"allocs"`     // per grant
}

func (r KeptResult) line() string {
	return fmt.Sprintf("%s: %s grants/s, without %s: %.2f ×; requests %.3f and %.3f; longest wait %.2f ×; shares %.2f to %.2f",
		r.Case, figure(r.With.Rate), figure(r.Without.Rate), r.Times, r.With.Requests, r.Without.Requests, r.Wait, r.Least, r.Most)
}

// keptLoad is clients that lock one name, each with some goroutines.
type keptLoad struct {
	name                string
	clients, goroutines int
	inTurn              bool // the clients lock one after the other
	lasts               int  // in samples
}

var keptLoads = []keptLoad{
	{name: "lock again", clients: 1, goroutines: 1, lasts: 1},
	{name: "64 goroutines of a client", clients: 1, goroutines: 64, lasts: 1},
	{name: "8 clients, 8 goroutines each", clients: 8, goroutines: 8, lasts: 4},
	{name: "2 clients in turn", clients: 2, goroutines: 1, inTurn: true, lasts: 2},
}

// keptTime is how long a turn is kept: longer than any pause of a load.
const keptTime = 10 * time.Second

// keptSample is one measurement.
type keptSample struct {
	grants  []int // of each client
	elapsed time.Duration
	each    []time.Duration // the times of locks and unlocks
	longest time.Duration
	used    usage
}

func (s keptSample) total() (n int) {
	for _, g := range s.grants {
		n += g
	}
	return n
}

func (s keptSample) rate() float64 { return float64(s.total()) / s.elapsed.Seconds() }

// kept measures all loads.
func (f *field) kept(ctx context.Context) (all []KeptResult, err error) {
	for _, l := range keptLoads {
		r, err := f.keptLoad(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		fmt.Fprintln(f.Progress, "  ", r.line())
		all = append(all, r)
	}
	return all, nil
}

func (f *field) keptLoad(ctx context.Context, l keptLoad) (KeptResult, error) {
	r := KeptResult{Place: f.contest.place, Case: l.name}
	party, err := openBaton(ctx, f.access(), load{clients: l.clients}, batonMutex)
	if err != nil {
		return r, err
	}
	defer party.close()
	clients := party.(*batonParty).clients
	var samples [2][]keptSample // without, with
	for round := range max(1, f.Rounds) {
		for _, i := range order(round, 2) {
			s, err := f.keptSample(ctx, l, clients, i == 1, &recorder{servers: f.place.pids()})
			if err != nil {
				return r, err
			}
			samples[i] = append(samples[i], s)
		}
	}
	r.compare(l, samples[0], samples[1])
	if r.Without.Requests, err = f.keptRequests(ctx, l, false); err == nil {
		r.With.Requests, err = f.keptRequests(ctx, l, true)
	}
	return r, err
}

// keptRequests returns the requests per grant.
func (f *field) keptRequests(ctx context.Context, l keptLoad, keeps bool) (float64, error) {
	m, err := newMeter(f.access())
	if err != nil {
		return 0, err
	}
	defer m.close()
	party, err := openBaton(ctx, m.access, load{clients: l.clients}, batonMutex)
	if err != nil {
		return 0, err
	}
	defer party.close()
	s, err := f.keptSample(ctx, l, party.(*batonParty).clients, keeps, &recorder{meter: m})
	return s.used.counts.Requests / float64(max(1, s.total())), err
}

// keptSample measures one subject once, with a new name. Each client has locked
// the name before the clock starts.
func (f *field) keptSample(
	ctx context.Context, l keptLoad, clients []*coordinator.Client, keeps bool, rec *recorder,
) (keptSample, error) {
	lasts := time.Duration(l.lasts) * f.Sample
	ctx, cancel := context.WithTimeout(ctx, sampleBound+lasts)
	defer cancel()
	if err := f.place.refresh(ctx); err != nil {
		return keptSample{}, err
	}
	var opts []mutex.Option
	if keeps {
		opts = append(opts, mutex.WithRetain(keptTime))
	}
	f.plays++
	var locks []*mutex.Mutex
	for _, c := range clients {
		m, err := mutex.New(c, fmt.Sprintf("kept-%d", f.plays), opts...)
		if err == nil {
			err = lockOnce(ctx, m)
		}
		if err != nil {
			return keptSample{}, err
		}
		locks = append(locks, m)
	}
	s := keptSample{grants: make([]int, len(clients))}
	rec.begin()
	began := time.Now()
	var err error
	if l.inTurn {
		err = s.inTurn(ctx, locks, began.Add(lasts))
	} else {
		err = s.contend(ctx, l, locks, began.Add(lasts))
	}
	s.elapsed = time.Since(began)
	rec.end()
	s.used = rec.total
	slices.Sort(s.each)
	return s, err
}

func lockOnce(ctx context.Context, m *mutex.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}

// inTurn locks with one client after the other.
func (s *keptSample) inTurn(ctx context.Context, locks []*mutex.Mutex, until time.Time) error {
	for i := 0; time.Now().Before(until); i = (i + 1) % len(locks) {
		start := time.Now()
		if err := lockOnce(ctx, locks[i]); err != nil {
			return err
		}
		took := time.Since(start)
		s.grants[i]++
		s.each, s.longest = append(s.each, took), max(s.longest, took)
	}
	return nil
}

// mostEach bounds the times that a goroutine stores of its locks: a random part
// of them.
const mostEach = 4096

// contend lets all goroutines lock at the same time.
func (s *keptSample) contend(ctx context.Context, l keptLoad, locks []*mutex.Mutex, until time.Time) error {
	g, ctx := newGroup(ctx)
	var mu sync.Mutex
	for i := range l.clients * l.goroutines {
		own := i % len(locks)
		g.run(func() error {
			grants, each, longest := 0, make([]time.Duration, 0, mostEach), time.Duration(0)
			for time.Now().Before(until) {
				start := time.Now()
				lock, err := locks[own].Lock(ctx)
				if err != nil {
					return err
				}
				longest = max(longest, time.Since(start))
				if err := lock.Unlock(ctx); err != nil {
					return err
				}
				took := time.Since(start)
				if grants++; len(each) < mostEach {
					each = append(each, took)
				} else if k := rand.IntN(grants); k < mostEach {
					each[k] = took
				}
			}
			mu.Lock()
			defer mu.Unlock()
			s.grants[own] += grants
			s.each, s.longest = append(s.each, each...), max(s.longest, longest)
			return nil
		})
	}
	return g.wait()
}

// compare computes medians and ratios of the rounds.
func (r *KeptResult) compare(l keptLoad, without, with []keptSample) {
	r.Without, r.With = keptFigures(without), keptFigures(with)
	var times, waits []float64
	sum := make([]int, len(with[0].grants))
	total := 0
	for i := range with {
		if l.inTurn || l.clients*l.goroutines == 1 {
			times = append(times, quantile(without[i].each, 0.5)/quantile(with[i].each, 0.5))
		} else {
			times = append(times, with[i].rate()/without[i].rate())
		}
		waits = append(waits, float64(with[i].longest)/float64(without[i].longest))
		for j, n := range with[i].grants {
			sum[j] += n
			total += n
		}
	}
	r.Times, r.Wait = median(times), median(waits)
	mean := float64(total) / float64(len(sum))
	r.Least, r.Most = float64(slices.Min(sum))/mean, float64(slices.Max(sum))/mean
}

func keptFigures(all []keptSample) (k KeptFigures) {
	var rate, p50, longest, allocs []float64
	for _, s := range all {
		rate, p50 = append(rate, s.rate()), append(p50, quantile(s.each, 0.5))
		longest = append(longest, float64(s.longest))
		allocs = append(allocs, s.used.allocs/float64(s.total()))
	}
	return KeptFigures{Rate: median(rate), P50: median(p50), Longest: median(longest), Allocs: median(allocs)}
}

func (r *Result) keptTable() table {
	t := table{{"kept turns", "on", "grants/s without", "with", "×", "µs p50 without", "with", "requests without", "with",
		"allocs without", "with", "longest wait ms without", "with", "×", "shares of the clients"}}
	for _, k := range r.Kept {
		t = append(t, []string{
			k.Case, k.Place, figure(k.Without.Rate), figure(k.With.Rate), figure(k.Times), micros(k.Without.P50), micros(k.With.P50),
			figure(k.Without.Requests), figure(k.With.Requests), figure(k.Without.Allocs), figure(k.With.Allocs), figure(k.Without.Longest / 1e6),
			figure(k.With.Longest / 1e6), figure(k.Wait), figure(k.Least) + " to " + figure(k.Most),
		})
	}
	return t
}
