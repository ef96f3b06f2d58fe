package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-go/baton/mutex"
)

// timings are how long the turns of a benchmark took.
type timings struct {
	began time.Time
	took  time.Duration

	mu    sync.Mutex
	turns []time.Duration
	last  time.Time // when somebody gave back
}

// turn takes the lock and gives it back. Its time is that of both, or, with others about, from the end of the turn before to its own. One that
// is cut short because bound has ended does not count.
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

// histogram draws how many turns took how long. Each row is for times up to a fifth of a decade longer than the one before.
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
