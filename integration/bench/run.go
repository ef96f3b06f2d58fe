package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Options select what to measure and for how long.
type Options struct {
	// Rounds is how often each subject of a case is measured; cases with finer
	// rounds multiply it.
	Rounds int
	// Sample is the target time of one measurement, without finer rounds; it
	// determines the number of grants.
	Sample time.Duration
	// Cases and Subjects select by name; nil selects all.
	Cases, Subjects *regexp.Regexp
	// Divide divides the numbers of contenders, names and waiters, for a quick
	// run.
	Divide int
	// Progress receives progress messages.
	Progress io.Writer
}

// Sample is one measurement of one subject, with times in nanoseconds. All
// fields but Round and Turns are per grant.
type Sample struct {
	Round      int     `json:"round"` // counts from 0
	Turns      int     `json:"turns"`
	Time       float64 `json:"ns"` // the whole time divided by the grants
	P50        float64 `json:"p50_ns"`
	P99        float64 `json:"p99_ns"`
	ServerTime float64 `json:"server_cpu_ns"`
	ClientTime float64 `json:"client_cpu_ns"`
	Allocs     float64 `json:"allocs"` // of this process, so 0 for Curator
	AllocBytes float64 `json:"alloc_bytes"`
}

// SubjectResult has the figures of one subject of a case.
type SubjectResult struct {
	Name   string   `json:"name"`
	Role   Role     `json:"role"`
	Rounds []Sample `json:"rounds"`
	// Median has the median of each figure over the rounds, but the mean of
	// processor time, and P99 over all grants.
	Median Sample `json:"median"`
	// Counts are per grant, counted in a round that is not timed.
	Counts Counts `json:"counts"`
	// OverFloor is the median of the rounds' ratios of Time (for a single
	// contender: of P50) to the floor's, 0 without a floor.
	OverFloor float64 `json:"over_floor,omitempty"`
	// PeerOver is, for Baton, the median of the rounds' ratios of the best
	// peer's time to Baton's.
	PeerOver float64 `json:"peer_over,omitempty"`
}

// CaseResult is a case with all its subjects.
type CaseResult struct {
	Name        string          `json:"name"`
	Form        string          `json:"form"`
	Place       string          `json:"place"`
	Contenders  int             `json:"contenders"`
	Connections int             `json:"connections"`
	Subjects    []SubjectResult `json:"subjects"`
}

// Run measures all selected cases.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.needCurator() {
		if err := CuratorInstalled(); err != nil {
			return nil, err // now, and not in ten minutes
		}
	}
	began := time.Now()
	result := newResult(o)
	r := &run{Options: o, result: result}
	defer r.close()
	for _, name := range places {
		if err := r.at(ctx, name); err != nil {
			return nil, err
		}
	}
	result.Took = time.Since(began)
	return result, nil
}

func (o Options) needCurator() bool {
	for _, place := range places {
		for _, c := range contests(place) {
			for _, s := range o.cut(c).subjects {
				if strings.HasPrefix(s.name, "Curator") {
					return true
				}
			}
		}
	}
	return false
}

// places lists the places in order.
var places = []string{"etcd", "zookeeper", "etcd-3", "zookeeper-3"}

// run is a run in progress.
type run struct {
	Options
	result   *Result
	place    place // nil until the first case of a place
	curators curators
}

func (r *run) close() {
	r.leave()
	r.curators.close()
}

func (r *run) leave() {
	if r.place != nil {
		r.place.close()
		r.place = nil
	}
}

// at measures the cases of a place with one set of servers.
func (r *run) at(ctx context.Context, name string) error {
	defer r.leave()
	for _, c := range contests(name) {
		if c = r.cut(c); len(c.subjects) == 0 {
			continue
		}
		f, err := r.field(ctx, c)
		if err != nil {
			return err
		}
		result, err := f.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		r.result.Cases = append(r.result.Cases, *result)
	}
	return r.specials(ctx, name)
}

// field opens the place if it is not open.
func (r *run) field(ctx context.Context, c contest) (*field, error) {
	if r.place == nil {
		fmt.Fprintf(r.Progress, "starting %s\n", c.place)
		var err error
		if r.place, err = open(ctx, c.place); err != nil {
			return nil, err
		}
		r.result.Servers[c.place] = r.place.version()
		if err = r.warm(ctx, c); err != nil {
			return nil, err
		}
	}
	return &field{contest: c, place: r.place, curators: &r.curators, Options: r.Options}, nil
}

// warm lets the JIT compilers of ZooKeeper and Curator compile the code of a
// case.
func (r *run) warm(ctx context.Context, c contest) error {
	if c.service() != "zookeeper" || r.Divide > 1 {
		return nil
	}
	for _, w := range []struct {
		contest
		turns int // of each subject
	}{
		{ownNames("zookeeper", 64), 10_000},
		{handoff(c.place, "zookeeper", 16), 10_000},
		{manyPermits("zookeeper"), 3_000},
	} {
		if err := r.warmUp(ctx, r.only(w.contest), w.turns); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) warmUp(ctx context.Context, w contest, turns int) error {
	f := &field{contest: w, place: r.place, curators: &r.curators, Options: r.Options}
	for _, s := range w.subjects {
		player, err := s.open(ctx, f.access(), w.load)
		if err != nil {
			return err
		}
		_, err = f.sample(ctx, &entrant{player: player}, turns, nil)
		player.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// specials runs the cases that do not compare subjects.
func (r *run) specials(ctx context.Context, place string) error {
	ctx, cancel := context.WithTimeout(ctx, specialBound)
	defer cancel()
	if place != "etcd" && place != "zookeeper" {
		return nil
	}
	if name := "waiters/" + place; r.wants(name) {
		f, err := r.field(ctx, contest{name: name, place: place})
		if err != nil {
			return err
		}
		fmt.Fprintf(r.Progress, "%s\n", name)
		for _, measure := range []func(context.Context, int) (WaitersResult, error){f.waiters, f.bareWatches} {
			w, err := measure(ctx, manyWaiters/max(1, r.Divide))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintln(r.Progress, "  ", w.line())
			r.result.Waiters = append(r.result.Waiters, w)
		}
	}
	if name := "kept/" + place; r.Cases != nil && r.wants(name) { // by request only: ratios to Baton itself
		f, err := r.field(ctx, contest{name: name, place: place})
		if err != nil {
			return err
		}
		fmt.Fprintf(r.Progress, "%s\n", name)
		all, err := f.kept(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.result.Kept = append(r.result.Kept, all...)
	}
	if name := "idle/" + place; r.Cases != nil && r.wants(name) { // by request only: it waits for minutes
		f, err := r.field(ctx, contest{name: name, place: place})
		if err != nil {
			return err
		}
		fmt.Fprintf(r.Progress, "%s\n", name)
		idle, err := f.idle(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintln(r.Progress, "  ", idle.line())
		r.result.Idle = append(r.result.Idle, idle)
	}
	return nil
}

func (o Options) wants(name string) bool { return o.Cases == nil || o.Cases.MatchString(name) }

// cut reduces a case to the requested size and subjects.
func (o Options) cut(c contest) contest {
	if !o.wants(c.name) {
		c.subjects = nil
	}
	c = o.only(c)
	if d := max(1, o.Divide); d > 1 {
		if c.load.contenders > 64 {
			c.load.contenders = max(32, c.load.contenders/d)
		}
		if c.load.form == fleet || c.load.form == fresh {
			c.load.contenders = max(8, c.load.contenders/d)
			c.load.clients = c.load.contenders
		}
		c.load.names = min(c.load.names, max(64, c.load.names/d))
		few := max(5, 2*c.load.permits) // otherwise the last measured grant could precede the first
		c.least, c.most = max(few, c.least/d), max(few, c.most/d)
		c.finer = 0
	}
	return c
}

// only removes the subjects that are not selected.
func (o Options) only(c contest) contest {
	if o.Subjects != nil {
		c.subjects = slices.DeleteFunc(slices.Clone(c.subjects), func(s subject) bool { return !o.Subjects.MatchString(s.name) })
	}
	return c
}

// field is a case in progress.
type field struct {
	contest
	place    place
	curators *curators
	Options
	plays int
}

// entrant is a subject that is ready.
type entrant struct {
	subject
	player
	turns int
	each  []time.Duration // of all rounds
	SubjectResult
}

// sampleBound bounds a measurement, which takes a few seconds unless something
// is broken.
const sampleBound = 3 * time.Minute

// specialBound bounds a case with thousands of waiters on a loaded machine.
const specialBound = 10 * time.Minute

func (f *field) run(ctx context.Context) (*CaseResult, error) {
	began := time.Now()
	fmt.Fprintf(f.Progress, "%s: %d contenders on %d connections\n", f.name, f.load.contenders, f.load.connections())
	var all []*entrant
	defer func() {
		for _, e := range all {
			e.close()
		}
	}()
	for _, s := range f.subjects {
		e := &entrant{subject: s, SubjectResult: SubjectResult{Name: s.name, Role: s.role}}
		if err := f.count(ctx, e); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		var err error
		if e.player, err = s.open(ctx, f.access(), f.load); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, e)
		if err := f.calibrate(ctx, e); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	runtime.GC() // once: later garbage counts for the subject that makes it
	for round := range f.Rounds * f.roundsForOne() {
		for _, i := range order(round, len(all)) {
			e := all[i]
			if !f.takesPart(e.subject, round) {
				continue
			}
			s, err := f.sample(ctx, e, e.turns, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
			s.Round = round
			e.Rounds = append(e.Rounds, s.Sample)
			e.each = append(e.each, s.each...)
		}
	}
	r := &CaseResult{Name: f.name, Form: string(f.load.form), Place: f.contest.place, Contenders: f.load.contenders, Connections: f.load.connections()}
	for _, e := range all {
		r.Subjects = append(r.Subjects, e.SubjectResult)
	}
	r.judge()
	for i, e := range all { // one round has too few slow grants
		slices.Sort(e.each)
		r.Subjects[i].Median.P99 = quantile(e.each, 0.99)
	}
	for _, s := range r.Subjects {
		fmt.Fprintln(f.Progress, "  ", s.line())
	}
	fmt.Fprintf(f.Progress, "   took %v\n", time.Since(began).Round(100*time.Millisecond))
	return r, nil
}

// order returns the order of a round: random, so that no subject always follows
// the same one; every second order is the reverse of the previous one, so that
// of any two each is first equally often; and the same in each run.
func order(round, n int) []int {
	all := rand.New(rand.NewPCG(uint64(round/2), 0)).Perm(n)
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

func (f *field) access() access {
	return access{service: f.service(), addrs: f.place.addrs(), curators: f.curators}
}

// count plays through a proxy that counts.
func (f *field) count(ctx context.Context, e *entrant) error {
	m, err := newMeter(f.access())
	if err != nil {
		return err
	}
	defer m.close()
	player, err := e.open(ctx, m.access, f.load)
	if err != nil {
		return err
	}
	defer player.close()
	e.player = player
	s, err := f.sample(ctx, e, f.countTurns(), m)
	e.Counts = s.counts
	return err
}

// countTurns returns how many grants are counted: enough for rare requests to
// have little weight.
func (f *field) countTurns() int {
	switch f.load.form {
	case names, fleet, fresh:
		return max(f.least, f.load.contenders)
	}
	return max(f.least, min(200, 2*f.load.contenders))
}

// calibrate finds the number of grants for the time of a sample, the second
// time with everything warm.
func (f *field) calibrate(ctx context.Context, e *entrant) error {
	if f.Divide > 1 {
		e.turns = f.least
		return nil
	}
	if f.history > 0 {
		if _, err := f.sample(ctx, e, f.history, nil); err != nil {
			return err
		}
	}
	e.turns = f.least
	for range 2 {
		s, err := f.sample(ctx, e, e.turns, nil)
		if err != nil {
			return err
		}
		e.turns = min(f.most, max(f.least, int(f.part(e.subject)*float64(f.Sample)/s.Time)))
	}
	return nil
}

type counted struct {
	Sample
	each   []time.Duration
	counts Counts
}

// sample measures one subject once.
func (f *field) sample(ctx context.Context, e *entrant, turns int, m *meter) (counted, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleBound)
	defer cancel()
	if err := f.place.refresh(ctx); err != nil {
		return counted{}, err
	}
	rec := &recorder{servers: f.place.pids(), client: e.process(), meter: m}
	var sum times
	for sum.turns < turns {
		before, err := f.standing(ctx)
		if err != nil {
			return counted{}, err
		}
		f.plays++
		name := fmt.Sprintf("%s-%d-%d", f.load.form, f.load.contenders, f.plays)
		if f.load.form == names || f.load.form == fleet { // many names need their creation once
			name = fmt.Sprintf("%s-%d", f.load.form, f.load.contenders)
		}
		t, err := e.play(ctx, &play{
			name: name, warm: f.load.warmTurns(), turns: turns, rec: rec,
			settled: func(ctx context.Context, waiters int) error { return f.settle(ctx, before+waiters) },
		})
		if err != nil {
			return counted{}, err
		}
		sum.turns, sum.elapsed, sum.each = sum.turns+t.turns, sum.elapsed+t.elapsed, append(sum.each, t.each...)
	}
	slices.Sort(sum.each)
	n, used := float64(sum.turns), rec.total
	return counted{
		Sample{
			Turns: sum.turns, Time: float64(sum.elapsed) / n, P50: quantile(sum.each, 0.5), P99: quantile(sum.each, 0.99),
			ServerTime: float64(used.server) / n, ClientTime: float64(used.client) / n, Allocs: used.allocs / n, AllocBytes: used.bytes / n,
		},
		sum.each,
		used.counts.per(n),
	}, nil
}

// standing returns how many watches the servers have before a queue is formed.
func (f *field) standing(ctx context.Context) (int, error) {
	if f.load.form != turns {
		return 0, nil // no case waits for watches
	}
	if err := f.place.rest(ctx); err != nil {
		return 0, err
	}
	return f.place.watches(ctx)
}

// settle waits until the servers have so many watches and their number is
// stable. A waiter without a watch gets a second.
func (f *field) settle(ctx context.Context, watches int) error {
	const pause, still, enough = 15 * time.Millisecond, 3, 70
	last, same := -1, 0
	for {
		n, err := f.place.watches(ctx)
		if err != nil {
			return err
		}
		if n != last {
			last, same = n, 0
		}
		if same++; same >= still && n >= watches || same >= enough {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d watches are set: %w", n, watches, context.Cause(ctx))
		}
	}
}

func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))])
}
