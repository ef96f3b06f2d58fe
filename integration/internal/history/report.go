package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report summarizes a history.
type Report struct {
	Attempts int
	Grants   map[Kind]int
	Losses   map[string]int // holds that ended before their release, by cause
	Failures map[string]int // attempts, by their error
	Accesses int            // of registers
	Refused  int            // of those
	Faults   map[string]int
	// HandOver is the longest time from the end of a hold to the next grant of
	// the name, if that request was already waiting.
	HandOver time.Duration
	// Recovery is the longest time from the end of a fault, by kind, to the
	// next grant of an affected client. Clients affected by another fault
	// meanwhile are left out.
	Recovery map[string]time.Duration
	// ToldLate is the longest time from the deadline of a lost hold until its
	// context's end was noticed, without excused holds. It is not checked: a
	// stalled machine delays the timer as well, and a call of Err compares the
	// deadline.
	ToldLate   time.Duration
	Violations []Violation
	Unknown    []string // searches that timed out
}

// Report checks and summarizes the history. Call it after the last recording.
func (h *History) Report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := newReport()
	r.Violations = h.direct()
	found, unknown := h.witness()
	r.Violations, r.Unknown = append(r.Violations, found...), unknown
	var grants []*Hold
	for _, hold := range h.holds {
		r.Attempts++
		switch {
		case hold.Granted != 0:
			r.Grants[hold.Kind]++
			grants = append(grants, hold)
			if hold.Ended != 0 && (hold.Releasing == 0 || hold.Ended < hold.Releasing) {
				r.Losses[hold.Cause]++
				r.ToldLate = max(r.ToldLate, h.toldLate(hold))
			}
		case hold.FailedAt != 0:
			r.Failures[reason(hold.Error)]++
		}
	}
	slices.SortFunc(grants, func(a, b *Hold) int { return int(a.Granted - b.Granted) })
	for _, a := range h.accesses {
		r.Accesses++
		if !a.Accepted {
			r.Refused++
		}
	}
	h.times(&r, grants)
	return r
}

func newReport() Report {
	return Report{
		Grants: map[Kind]int{}, Losses: map[string]int{}, Failures: map[string]int{}, Faults: map[string]int{},
		Recovery: map[string]time.Duration{},
	}
}

// reason returns the common part of similar errors: of "lock name: not held:
// details" the part without the operation and the name.
func reason(err string) string {
	for _, known := range []string{
		"session is lost", "session lost", "context deadline exceeded", "context canceled", "client is closed",
		"entry was removed", "unavailable", "taken", "refused",
	} {
		if strings.Contains(err, known) {
			return known
		}
	}
	return err
}

// toldLate returns how long after the end of a hold its user was notified.
func (h *History) toldLate(r *Hold) time.Duration {
	for _, e := range h.excused {
		if e.covers(r) && e.From <= r.Told && r.Ended <= e.To {
			return 0
		}
	}
	return time.Duration(max(0, r.Told-r.Ended))
}

// times requires the grants in order.
func (h *History) times(r *Report, grants []*Hold) {
	last := map[subject]*Hold{}
	for _, g := range grants {
		s := g.subject()
		if before := last[s]; before != nil && g.Kind != Permits && g.Kind != Read {
			if spans := h.spans(before); len(spans) > 0 && spans[len(spans)-1].to < Forever {
				r.HandOver = max(r.HandOver, time.Duration(g.Granted-max(spans[len(spans)-1].to, g.Asked)))
			}
		}
		last[s] = g
	}
	for _, f := range h.faults {
		r.Faults[f.Kind]++
		for _, g := range grants {
			if f.End != 0 && g.Granted > f.End && f.hits(g.Client) {
				if !h.disturbed(f, g) {
					r.Recovery[f.Kind] = max(r.Recovery[f.Kind], time.Duration(g.Granted-f.End))
				}
				break
			}
		}
	}
}

func (f *Injected) hits(client string) bool {
	return len(f.Clients) == 0 || slices.Contains(f.Clients, client)
}

// disturbed reports whether another fault affected a client between the end of
// a fault and its grant, so that the time in between is meaningless.
func (h *History) disturbed(f *Injected, g *Hold) bool {
	return slices.ContainsFunc(h.faults, func(o *Injected) bool {
		return o != f && o.hits(g.Client) && o.Begin < g.Granted && (o.End == 0 || o.End > f.End)
	})
}

// Add adds the figures of another report.
func (r *Report) Add(o Report) {
	if r.Grants == nil {
		*r = newReport()
	}
	r.Attempts += o.Attempts
	r.Accesses += o.Accesses
	r.Refused += o.Refused
	sum(r.Grants, o.Grants)
	sum(r.Losses, o.Losses)
	sum(r.Failures, o.Failures)
	sum(r.Faults, o.Faults)
	r.HandOver, r.ToldLate = max(r.HandOver, o.HandOver), max(r.ToldLate, o.ToldLate)
	for kind, d := range o.Recovery {
		r.Recovery[kind] = max(r.Recovery[kind], d)
	}
	r.Violations = append(r.Violations, o.Violations...)
	r.Unknown = append(r.Unknown, o.Unknown...)
}

func sum[K comparable](to, from map[K]int) {
	for k, n := range from {
		to[k] += n
	}
}

func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "attempts           %d\n", r.Attempts)
	table(&b, "grants", r.Grants)
	table(&b, "losses", r.Losses)
	table(&b, "failed attempts", r.Failures)
	table(&b, "faults", r.Faults)
	fmt.Fprintf(&b, "register accesses  %d, %d of them refused\n", r.Accesses, r.Refused)
	fmt.Fprintf(&b, "slowest hand-over  %v\n", r.HandOver.Round(time.Millisecond))
	fmt.Fprintf(&b, "told late at most  %v\n", r.ToldLate.Round(time.Millisecond))
	fmt.Fprintln(&b, "slowest recovery, after")
	for _, kind := range slices.Sorted(maps.Keys(r.Recovery)) {
		fmt.Fprintf(&b, "    %-50s %v\n", kind, r.Recovery[kind].Round(time.Millisecond))
	}
	fmt.Fprintf(&b, "undecided          %d\n", len(r.Unknown))
	fmt.Fprintf(&b, "violations         %d\n", len(r.Violations))
	return b.String()
}

func table[K ~string](b *strings.Builder, title string, counts map[K]int) {
	total := 0
	for _, n := range counts {
		total += n
	}
	fmt.Fprintf(b, "%-18s %d\n", title, total)
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "    %-50s %d\n", k, counts[k])
	}
}
