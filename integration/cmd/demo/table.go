package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// judge prints a summary of the ledger and returns an error if a promise is
// broken.
func (s *stage) judge() error {
	records, err := s.ledger.read()
	if err != nil {
		return err
	}
	a := check(records, s.interrupted)
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "worker\tgrants\tfirst token\tlast token\twrites refused\t")
	refused := 0
	for _, id := range slices.Sorted(maps.Keys(a.grants)) {
		tokens := a.tokens[id]
		refused += a.refused[id]
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t\n", id, a.grants[id], tokens[0], tokens[len(tokens)-1], a.refused[id])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	slices.Sort(a.gaps)
	if n := len(a.gaps); n > 0 {
		fmt.Printf("\nhand-over after a release    median %v, longest %v, of %d\n",
			round(a.gaps[n/2]), round(a.gaps[n-1]), n)
	}
	fmt.Printf("hand-over after kill -9      %v  (TTL %v)\n", round(s.afterKill), s.ttl)
	fmt.Printf("hand-over after SIGSTOP      %v  (TTL %v)\n", round(s.afterStop), s.ttl)
	fmt.Printf("late writes refused          %d\n", refused)
	fmt.Printf("tokens out of order          %d\n", a.disorder)
	fmt.Printf("overlaps                     %d\n", a.overlaps)
	switch {
	case a.overlaps > 0 || a.disorder > 0:
		return errors.New("two workers held the lock at once")
	case refused == 0:
		return errors.New("the late write was not refused")
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
