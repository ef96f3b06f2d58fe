package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
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
