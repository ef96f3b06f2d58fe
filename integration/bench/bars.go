package bench

import (
	"fmt"
	"math"
	"time"
)

// Bar is a figure that Baton is to reach.
type Bar struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Most and Least are the bound, one of them; the other is 0. Measured may be neither, if it is what Met says.
	Most     float64 `json:"most,omitempty"`
	Least    float64 `json:"least,omitempty"`
	Measured float64 `json:"measured"`
	Unit     string  `json:"unit,omitempty"`
	Met      bool    `json:"met"`
	// Reason is where it says why it is missed, for a bar that allows a reason instead.
	Reason string `json:"reason,omitempty"`
}

func (b Bar) bound() string {
	bound := "≤ " + figure(b.Most) + b.Unit
	if b.Least > 0 {
		bound = "≥ " + figure(b.Least) + b.Unit
	}
	if b.Reason != "" {
		bound += ", or the reason"
	}
	return bound
}

func (b Bar) verdict() string {
	if b.Met {
		return "met"
	}
	if b.Reason != "" {
		return "reason: " + b.Reason
	}
	return "missed"
}

// bars are the bars of a result, under way.
type bars struct {
	*Result
	all []Bar
}

// Bars judges what was measured. What was not measured is not among them.
func (r *Result) Bars() []Bar {
	b := &bars{Result: r}
	for _, place := range []string{"etcd", "zookeeper"} {
		b.uncontended(place)
		b.handOver(place)
		b.cost(place)
		b.throughput(place)
		b.waiters(place)
	}
	if r.Reenter != nil {
		b.most("E7", "re-entrant pair", r.Reenter.Time, 200, " ns")
		b.most("E7", "re-entrant pair, allocations", math.Round(r.Reenter.Allocs), 0, "")
		b.all[len(b.all)-1].Reason = "decision 7"
	}
	if r.Complete {
		b.most("E8", "the run", r.Took.Minutes(), 20, " min")
	}
	return b.all
}

func (b *bars) most(name, what string, measured, most float64, unit string) {
	b.all = append(b.all, Bar{Name: name, What: what, Most: most, Measured: measured, Unit: unit, Met: measured <= most})
}

func (b *bars) least(name, what string, measured, least float64, unit string) {
	b.all = append(b.all, Bar{Name: name, What: what, Least: least, Measured: measured, Unit: unit, Met: measured >= least})
}

// subject is one of a case, nil if it was not measured.
func (r *Result) subject(name, subject string) *SubjectResult {
	for i := range r.Cases {
		if r.Cases[i].Name != name {
			continue
		}
		for j := range r.Cases[i].Subjects {
			if s := &r.Cases[i].Subjects[j]; s.Name == subject {
				return s
			}
		}
	}
	return nil
}

func (b *bars) uncontended(place string) {
	for _, recipe := range []string{"mutex", "rwlock read", "rwlock write", "election"} {
		if s := b.subject("pair/"+place, "Baton "+recipe); s != nil {
			b.most("E1", recipe+" on "+place+", uncontended pair", s.OverFloor, 1.10, " × floor")
			b.most("E1", recipe+" on "+place+", requests a pair", math.Round(10*s.Counts.Requests)/10, 2, "")
		}
	}
	if s := b.subject("permit/"+place, "Baton semaphore"); s != nil {
		b.most("E5", "semaphore on "+place+", uncontended pair", s.OverFloor, 1.15, " × floor")
	}
}

// overPeers is how much faster than the best peer turns have to be.
var overPeers = map[string]map[int]float64{
	"etcd":      {2: 20, 16: 4, 128: 1.5, 512: 1.5},
	"zookeeper": {128: 1.2, 512: 1.2},
}

func (b *bars) handOver(place string) {
	for _, w := range crowds {
		if s := b.subject(fmt.Sprintf("drain/%s/%d", place, w), "Baton mutex"); s != nil {
			b.most("E2", fmt.Sprintf("drain on %s, %d contenders", place, w), s.OverFloor, 1.3, " × floor")
		}
		if s := b.subject(fmt.Sprintf("turns/%s/%d", place, w), "Baton mutex"); s != nil {
			b.most("E2", fmt.Sprintf("turns on %s, %d contenders", place, w), s.OverFloor, 1.5, " × floor")
			if least := overPeers[place][w]; least > 0 {
				b.least("E2", fmt.Sprintf("turns on %s, %d contenders, against the best peer", place, w), s.PeerOver, least, " ×")
			}
		}
	}
}

// cost is that of a turn: in requests, and in what a long line adds.
func (b *bars) cost(place string) {
	turn := func(w int, subject string) *SubjectResult {
		return b.subject(fmt.Sprintf("turns/%s/%d", place, w), subject)
	}
	for _, w := range crowds {
		if s := turn(w, "Baton mutex"); s != nil {
			b.most("E3", fmt.Sprintf("requests a turn on %s, %d contenders, the watch included", place, w), math.Round(10*s.Counts.Requests)/10, 5, "")
		}
	}
	few, many := turn(16, "Baton mutex"), turn(512, "Baton mutex")
	if few != nil && many != nil {
		b.most("E3", "bytes received a turn on "+place+", 512 contenders to 16", many.Counts.In/few.Counts.In, 1.2, " ×")
	}
	peer, share := "etcd concurrency.Mutex", 1.0/3
	if place == "zookeeper" {
		peer, share = "go-zookeeper Lock", 1.0
	}
	if theirs := turn(512, peer); many != nil && theirs != nil {
		b.most("E3", "server CPU a turn on "+place+", 512 contenders, to "+peer, many.Median.ServerTime/theirs.Median.ServerTime, share, " ×")
	}
}

func (b *bars) throughput(place string) {
	if s := b.subject("names/"+place, "Baton mutex"); s != nil && s.OverFloor > 0 {
		b.least("E4", "1,000 names on "+place+", throughput", 1/s.OverFloor, 0.85, " × floor")
	}
	if s := b.subject("permits/"+place, "Baton semaphore"); s != nil && s.PeerOver > 0 {
		b.least("E5", "64 clients on 10 permits on "+place+", grants/s", s.PeerOver, 5, " × Curator")
	}
}

func (b *bars) waiters(place string) {
	most := map[string]float64{"etcd": 24, "zookeeper": 8}[place]
	for _, w := range b.Waiters {
		if w.Place == place && w.Role == Baton {
			b.most("E6", fmt.Sprintf("heap of each of %d waiters on %s", w.Waiters, place), w.Heap/1024, most, " KiB")
			inOrder := 0.0
			if w.InOrder {
				inOrder = 1
			}
			b.least("E6", fmt.Sprintf("%d waiters on %s drained in order (1: yes)", w.Waiters, place), inOrder, 1, "")
		}
	}
}

// figure writes a number with as many digits as it deserves.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 1000:
		return thousands(v)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func micros(ns float64) string { return figure(math.Round(ns/100) / 10) }

// short is a duration for people.
func short(d time.Duration) string { return d.Round(time.Second).String() }
