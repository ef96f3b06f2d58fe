package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// Limits of what bench does to a service that others use.
const (
	mostContenders = 10_000
	mostTurns      = 10_000_000
)

// benchmark is what bench was asked for.
type benchmark struct {
	contenders, turns int
	duration          time.Duration
}

func (a *app) bench() *cobra.Command {
	var b benchmark
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how long a lock takes here",
		Long: `Takes and gives back a lock of a name that nobody uses, again and again, and shows how long that takes.

With --contenders above 1, so many take turns at the one name, over one session, and a turn is the time from one
unlock to the next: what a crowd at one name gets. It leaves nothing behind. It is a load on
the service: each turn is two writes that all of its servers put on their disks.`,
		Example: `  baton bench
  baton bench --contenders 16 --duration 10s
  baton bench -n 1000 -o json`,
		Args: cobra.NoArgs,
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := b.check(); err != nil {
			return usage(err)
		}
		return a.runBench(cmd.Context(), b, output.json())
	}
	cmd.Flags().IntVar(&b.contenders, "contenders", 1, "how many want the name at once")
	cmd.Flags().IntVarP(&b.turns, "turns", "n", 0, "end after so many turns; 0: after --duration")
	cmd.Flags().DurationVar(&b.duration, "duration", 5*time.Second, "end after this time")
	return cmd
}

func (b benchmark) check() error {
	switch {
	case b.contenders < 1 || b.contenders > mostContenders:
		return fmt.Errorf("--contenders %d: want 1 to %d", b.contenders, mostContenders)
	case b.turns < 0 || b.turns > mostTurns:
		return fmt.Errorf("--turns %d: want 0 to %d", b.turns, mostTurns)
	case b.duration <= 0:
		return fmt.Errorf("--duration %v: want more than 0", b.duration)
	}
	return nil
}

func (a *app) runBench(ctx context.Context, b benchmark, machine bool) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	defer finish(c)
	opening, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	if _, err := c.Session(opening); err != nil {
		return err
	}
	r, err := b.measure(ctx, c, a.progress(b))
	if err != nil {
		return err
	}
	if machine {
		return json.NewEncoder(a.Out).Encode(r.summary())
	}
	r.print(a.Out)
	return nil
}

// measure runs the contenders, until the turns or the time are used up.
func (b benchmark) measure(ctx context.Context, c *coordinator.Client, show func(done int, since time.Duration)) (*timings, error) {
	m, err := mutex.New(c, "baton-bench-"+rand.Text())
	if err != nil {
		return nil, err
	}
	ended := fmt.Errorf("the time is up")
	bound, stop := context.WithTimeoutCause(ctx, b.duration, ended)
	defer stop()
	var wg sync.WaitGroup
	r := &timings{began: time.Now()}
	var taken atomic.Int64
	failed := make(chan error, b.contenders)
	for range b.contenders {
		wg.Go(func() {
			for bound.Err() == nil && (b.turns == 0 || taken.Add(1) <= int64(b.turns)) {
				if err := r.turn(ctx, bound, m, b.contenders > 1); err != nil {
					failed <- err
					stop()
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); wg.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-tick.C:
		}
		show(r.count(), time.Since(r.began))
	}
	r.took = time.Since(r.began)
	select {
	case err := <-failed:
		return nil, err
	default:
		return r, context.Cause(ctx)
	}
}

// progress shows on a terminal how far it is.
func (a *app) progress(b benchmark) func(done int, since time.Duration) {
	if _, ok := terminal(a.Err); !ok {
		return func(int, time.Duration) {}
	}
	return func(done int, since time.Duration) { drawProgress(a.Err, b, done, since) }
}

func drawProgress(w io.Writer, b benchmark, done int, since time.Duration) {
	const width = 40
	share := float64(since) / float64(b.duration)
	if b.turns > 0 {
		share = max(share, float64(done)/float64(b.turns))
	}
	share = min(share, 1)
	full := int(share * width)
	fmt.Fprintf(w, "\r[%s%s] %3.0f %%  %d turns", strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*share, done)
	if share == 1 {
		fmt.Fprint(w, "\r\033[K")
	}
}

// timings are how long the turns of a benchmark took.
type timings struct {
	began time.Time
	took  time.Duration

	mu    sync.Mutex
	turns []time.Duration
	last  time.Time // when somebody gave back
}

// turn takes the lock and gives it back. Its time is that of both, or, with
// others about, from the end of the turn before to its own. One that is cut
// short because bound has ended does not count.
func (r *timings) turn(ctx, bound context.Context, m *mutex.Mutex, crowd bool) error {
	began := time.Now()
	l, err := m.Lock(bound)
	if err != nil {
		if bound.Err() != nil && ctx.Err() == nil {
			return nil
		}
		return err
	}
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !crowd {
		r.turns = append(r.turns, now.Sub(began))
	} else if !r.last.IsZero() {
		r.turns = append(r.turns, now.Sub(r.last))
	}
	r.last = now
	return nil
}

func (r *timings) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.turns)
}

// summary is what -o json prints. Times are in microseconds.
type summary struct {
	Turns     int     `json:"turns"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"turns_per_second"`
	Min       float64 `json:"min_us"`
	P50       float64 `json:"p50_us"`
	P90       float64 `json:"p90_us"`
	P99       float64 `json:"p99_us"`
	Max       float64 `json:"max_us"`
}

func (r *timings) summary() summary {
	s := summary{Turns: len(r.turns), Seconds: r.took.Seconds()}
	if s.Turns == 0 {
		return s
	}
	slices.Sort(r.turns)
	at := func(share float64) float64 {
		return float64(r.turns[min(int(share*float64(s.Turns)), s.Turns-1)]) / float64(time.Microsecond)
	}
	s.PerSecond = float64(s.Turns) / s.Seconds
	s.Min, s.P50, s.P90, s.P99, s.Max = at(0), at(.5), at(.9), at(.99), at(1)
	return s
}

func (r *timings) print(w io.Writer) {
	s := r.summary()
	if s.Turns == 0 {
		fmt.Fprintf(w, "no turn came to its end within %v: give it a longer --duration\n", r.took.Round(time.Millisecond))
		return
	}
	fmt.Fprintf(w, "%d turns in %.1f s, %.0f a second\n", s.Turns, s.Seconds, s.PerSecond)
	fmt.Fprintf(w, "µs a turn: min %.0f, median %.0f, p90 %.0f, p99 %.0f, max %.0f\n\n", s.Min, s.P50, s.P90, s.P99, s.Max)
	r.histogram(w)
}

// histogram draws how many turns took how long. Each row is for times up to a
// fifth of a decade longer than the one before.
func (r *timings) histogram(w io.Writer) {
	const perDecade, width = 5, 50
	row := func(d time.Duration) int {
		return int(math.Ceil(perDecade * math.Log10(max(float64(d)/float64(time.Microsecond), 1))))
	}
	first, last := row(r.turns[0]), row(r.turns[len(r.turns)-1])
	counts := make([]int, last-first+1)
	for _, d := range r.turns {
		counts[row(d)-first]++
	}
	most := slices.Max(counts)
	for i, n := range counts {
		bar := strings.Repeat("#", (n*width+most-1)/most)
		fmt.Fprintf(w, "%10.0f µs  %-*s %d\n", math.Pow(10, float64(first+i)/perDecade), width, bar, n)
	}
}
