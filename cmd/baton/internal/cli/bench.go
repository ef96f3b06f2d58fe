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
		Short: "Measure how long a lock takes",
		Long: `Acquires and releases a lock of a new name repeatedly, and prints how long that
takes; with --contenders, the time from one unlock to the next. It leaves nothing behind. It
loads the service: each turn is two replicated writes.`,
		Example: `  baton bench --contenders 16 --duration 10s`,
		Args:    cobra.NoArgs,
	}
	contenders := cmd.Flags().Int("contenders", 1, "number of goroutines that want the name, over one session")
	duration := cmd.Flags().Duration("duration", 5*time.Second, "end after this time")
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
	t := &timings{crowd: contenders > 1}
	began := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, contenders)
	for i := range contenders {
		wg.Go(func() {
			for bound.Err() == nil && errs[i] == nil {
				errs[i] = t.turn(ctx, bound, m)
			}
			stop() // for the others, after an error
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	t.print(a.Out, took)
	return nil
}

// timings are how long the turns took.
type timings struct {
	crowd bool

	mu    sync.Mutex
	turns []time.Duration
	last  time.Time // of the last unlock
}

// turn locks and unlocks, and notes its time: that of both, or, with several
// contenders, the time since the unlock before. A turn that is cut short by the
// end of bound is not noted.
func (t *timings) turn(ctx, bound context.Context, m *mutex.Mutex) error {
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
	if t.crowd {
		began = t.last
	}
	if !began.IsZero() {
		t.turns = append(t.turns, now.Sub(began))
	}
	t.last = now
	return nil
}

// print prints how long the turns took, in microseconds.
func (t *timings) print(w io.Writer, took time.Duration) {
	n := len(t.turns)
	if n == 0 {
		fmt.Fprintf(w, "no turn ended within %.1f s: give a longer --duration\n", took.Seconds())
		return
	}
	slices.Sort(t.turns)
	at := func(percent int) int64 { return t.turns[min(n*percent/100, n-1)].Microseconds() }
	rate := float64(n) / took.Seconds()
	fmt.Fprintf(w, "%d turns in %.1f s, %.0f a second\n", n, took.Seconds(), rate)
	fmt.Fprintf(w, "µs a turn: min %d, median %d, p90 %d, p99 %d, max %d\n",
		at(0), at(50), at(90), at(99), at(100))
}
