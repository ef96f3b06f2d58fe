package integration_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/stall"
)

// partitionReport prints the figures of the holders that were cut off.
func partitionReport(title string, results []cutResult, still *stall.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, on %s %s/%s, %d cores\n", title, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	var held []cutResult
	late := 0
	for _, r := range results {
		if r.late() {
			late++
		}
		if r.measured() {
			held = append(held, r)
		}
	}
	fmt.Fprintf(&b, "notified late: %d; lost before the cut, and not measured: %d\n", late, len(results)-len(held))
	fmt.Fprintf(&b, "stalls of this process: %v\n\n", still)
	fmt.Fprintf(&b, "%-48s%6s%8s%8s%8s%8s%8s%8s\n", "seconds", "runs", "min", "p1", "p10", "p50", "p90", "max")
	row := func(name string, measure func(cutResult) time.Duration, which func(cutResult) bool) {
		var all []time.Duration
		for _, r := range held {
			if which == nil || which(r) {
				all = append(all, measure(r))
			}
		}
		if len(all) > 0 {
			fmt.Fprintf(&b, "%-48s%s\n", name, spread(all))
		}
	}
	row("notified before the entry was gone", marginToGone, nil)
	row("notified before the next one's Lock returned", marginToGrant, nil)
	row("notified after the cut", func(r cutResult) time.Duration { return r.told.Sub(r.cut) }, nil)
	row("notified after its own deadline", func(r cutResult) time.Duration { return r.told.Sub(r.deadline) }, nil)
	fmt.Fprintf(&b, "\nnotified before the entry was gone, by what was cut\n")
	for _, way := range []string{bothWays, onlyUp, lateReplies} {
		row("  "+way, marginToGone, func(r cutResult) bool { return r.way == way && expired(r) })
	}
	row("  only down (*)", marginToGone, func(r cutResult) bool { return r.way == onlyDown && r.heal != healAtLoss })
	row("  healed at the loss (*)", marginToGone, func(r cutResult) bool { return r.heal == healAtLoss })
	fmt.Fprintf(&b, "by what happened to the cluster\n")
	for _, fault := range []string{faultNone, faultLeader, faultFollower} {
		row("  "+fault, marginToGone, func(r cutResult) bool { return r.fault == fault && expired(r) })
	}
	b.WriteString("(*) The client reaches the service after its loss: it ends its session itself, and the name is free at once\n" +
		"    afterwards. In all other runs the service's clock ends the session.\n\n")
	var margins []time.Duration
	for _, r := range held {
		if expired(r) {
			margins = append(margins, marginToGone(r))
		}
	}
	b.WriteString("notified before the entry was gone, where the service's clock ended the session\n" + histogram(margins, 250*time.Millisecond))
	return b.String()
}

func marginToGone(r cutResult) time.Duration  { return r.gone.Sub(r.told) }
func marginToGrant(r cutResult) time.Duration { return r.granted.Sub(r.told) }

// expired reports that the client could not reach the service after its loss.
func expired(r cutResult) bool { return r.heal != healAtLoss && r.way != onlyDown }

// spread prints the number, the extremes and some percentiles.
func spread(all []time.Duration) string {
	slices.Sort(all)
	s := fmt.Sprintf("%6d%8.3f", len(all), all[0].Seconds())
	for _, p := range []int{1, 10, 50, 90} {
		s += fmt.Sprintf("%8.3f", percentile(all, p).Seconds())
	}
	return s + fmt.Sprintf("%8.3f", all[len(all)-1].Seconds())
}

// percentile returns the percentile of sorted values by nearest rank.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// histogram draws a bar for each step with values.
func histogram(all []time.Duration, step time.Duration) string {
	if len(all) == 0 {
		return "  no values\n"
	}
	floor := func(d time.Duration) int {
		if d < 0 {
			return int((d - step + 1) / step)
		}
		return int(d / step)
	}
	var b strings.Builder
	from, to := floor(slices.Min(all)), floor(slices.Max(all))
	counts := make([]int, to-from+1)
	for _, d := range all {
		counts[floor(d)-from]++
	}
	for i, n := range counts {
		at := time.Duration(from+i) * step
		switch {
		case n > 0:
			fmt.Fprintf(&b, "  %6.2f to %5.2f s  %4d  %s\n", at.Seconds(), (at + step).Seconds(), n, strings.Repeat("#", n))
		case counts[i-1] > 0: // the first of consecutive empty steps
			b.WriteString("     ...\n")
		}
	}
	return b.String()
}

func TestSpreadAndHistogram(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i)*time.Second)
	}
	if got, want := strings.Fields(spread(all)), "[100 1.000 1.000 10.000 50.000 90.000 100.000]"; fmt.Sprint(got) != want {
		t.Errorf("spread %v, want %v", got, want)
	}
	got := histogram([]time.Duration{-time.Millisecond, 0, 600 * time.Millisecond, 749 * time.Millisecond}, 250*time.Millisecond)
	var bars []string
	for line := range strings.Lines(got) {
		bars = append(bars, strings.Join(strings.Fields(line), " "))
	}
	if want := []string{"-0.25 to 0.00 s 1 #", "0.00 to 0.25 s 1 #", "...", "0.50 to 0.75 s 2 ##"}; !slices.Equal(bars, want) {
		t.Errorf("histogram %q, want %q", bars, want)
	}
}
