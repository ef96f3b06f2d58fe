package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/mutex"
)

func (a *app) bench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the latency of a lock",
		Long: `Acquires and releases a lock with a new name repeatedly, and prints how long a
cycle takes; with several contenders, the time from one release to the next. It loads the
service: each cycle is two replicated writes. It leaves nothing behind.`,
		Example: `  baton bench --contenders 16 --duration 10s`,
		Args:    arguments(0, 0),
	}
	contenders := cmd.Flags().Int("contenders", 1, "number of goroutines that acquire the lock, over one session")
	duration := cmd.Flags().Duration("duration", 5*time.Second, "how long to measure")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		const mostContenders = 10_000
		switch {
		case *contenders < 1 || *contenders > mostContenders:
			return usage(fmt.Errorf("--contenders %d: want 1 to %d", *contenders, mostContenders))
		case *duration <= 0:
			return usage(fmt.Errorf("--duration %v: want more than 0", *duration))
		}
		return a.measure(cmd.Context(), *contenders, *duration)
	}
	return cmd
}

// measure opens a session, runs the contenders until the time is up, and prints
// the result.
func (a *app) measure(ctx context.Context, contenders int, duration time.Duration) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	defer finish(c)
	opening, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	if _, err := c.Session(opening); err != nil {
		return err
	}
	m, err := mutex.New(c, "baton-bench-"+rand.Text())
	if err != nil {
		return err
	}
	bound, stop := context.WithTimeout(ctx, duration)
	defer stop()
	t := &timings{contended: contenders > 1}
	began := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, contenders)
	for i := range contenders {
		wg.Go(func() {
			for bound.Err() == nil && errs[i] == nil {
				errs[i] = t.cycle(ctx, bound, m)
			}
			stop() // for the others, after an error
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	t.print(a.answer, took)
	return nil
}

// timings collects the durations of the cycles.
type timings struct {
	contended bool

	mu     sync.Mutex
	cycles []time.Duration
	last   time.Time // of the last unlock
}

// cycle locks, unlocks and records the time of both, or, with several
// contenders, the time since the previous unlock. A cycle that the end of bound
// interrupts is not recorded.
func (t *timings) cycle(ctx, bound context.Context, m *mutex.Mutex) error {
	began := time.Now()
	l, err := m.Lock(bound)
	if err != nil {
		if bound.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.contended {
		began = t.last
	}
	if !began.IsZero() {
		t.cycles = append(t.cycles, now.Sub(began))
	}
	t.last = now
	return nil
}

// print prints the distribution of the durations, in microseconds.
func (t *timings) print(w io.Writer, took time.Duration) {
	n := len(t.cycles)
	if n == 0 {
		fmt.Fprintf(w, "no cycle ended within %.1f s: use a longer --duration\n", took.Seconds())
		return
	}
	slices.Sort(t.cycles)
	at := func(percent int) int64 { return t.cycles[min(n*percent/100, n-1)].Microseconds() }
	rate := float64(n) / took.Seconds()
	fmt.Fprintf(w, "%d cycles in %.1f s, %.0f per second\n", n, took.Seconds(), rate)
	fmt.Fprintf(w, "µs per cycle: min %d, median %d, p90 %d, p99 %d, max %d\n",
		at(0), at(50), at(90), at(99), at(100))
}
