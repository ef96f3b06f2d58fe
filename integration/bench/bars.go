package bench

import (
	"fmt"
	"math"
	"time"
)

// Bar is a target for a figure of Baton.
type Bar struct {
	Name string `json:"name"`
	What string `json:"what"`
	// One of Most and Least is the bound; the other is 0.
	Most     float64 `json:"most,omitempty"`
	Least    float64 `json:"least,omitempty"`
	Measured float64 `json:"measured"`
	Unit     string  `json:"unit,omitempty"`
	Met      bool    `json:"met"`
}

func (b Bar) bound() string {
	bound := "≤ " + figure(b.Most) + b.Unit
	if b.Least > 0 {
		bound = "≥ " + figure(b.Least) + b.Unit
	}
	return bound
}

func (b Bar) verdict() string {
	if b.Met {
		return "met"
	}
	return "missed"
}

// bars collects the bars of a result.
type bars struct {
	*Result
	all []Bar
}

// Bars compares the measured figures with their bars. It leaves out those that
// were not measured.
func (r *Result) Bars() []Bar {
	b := &bars{Result: r}
	for _, place := range []string{"etcd", "zookeeper"} {
		b.uncontended(place)
		b.handoff(place)
		b.throughput(place)
		b.waiters(place)
	}
	if r.Complete {
		b.most("run", "the whole run", r.Took.Minutes(), 18, " min")
	}
	return b.all
}

func (b *bars) most(name, what string, measured, most float64, unit string) {
	b.all = append(b.all, Bar{Name: name, What: what, Most: most, Measured: measured, Unit: unit, Met: measured <= most})
}

func (b *bars) least(name, what string, measured, least float64, unit string) {
	b.all = append(b.all, Bar{Name: name, What: what, Least: least, Measured: measured, Unit: unit, Met: measured >= least})
}

// round rounds to one decimal: only few grants are counted.
func round(v float64) float64 { return math.Round(10*v) / 10 }

// over returns by how much a peer is slower than Baton's mutex in a case, or 0
// if one of them was not measured.
func (r *Result) over(name, peer string) float64 {
	for i := range r.Cases {
		baton, other := r.subject(name, "Baton mutex"), r.subject(name, peer)
		if r.Cases[i].Name == name && baton != nil && other != nil {
			return r.Cases[i].ratio(other.Rounds, baton.Rounds)
		}
	}
	return 0
}

// subject returns a subject of a case, or nil if it was not measured.
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

// mostOverFloor bounds the uncontended pair.
var mostOverFloor = map[string]float64{"etcd": 1.12, "zookeeper": 1.2, "etcd-3": 1.08}

func (b *bars) uncontended(place string) {
	for _, place := range []string{place, place + "-3"} {
		s, most := b.subject("pair/"+place, "Baton mutex"), mostOverFloor[place]
		if s == nil || most == 0 {
			continue
		}
		b.most("pair", "uncontended pair on "+place, s.OverFloor, most, " × floor")
		b.most("pair", "requests of an uncontended pair on "+place, round(s.Counts.Requests), 2, "")
	}
	if s := b.subject("pair/"+place, "Baton mutex"); s != nil && s.PeerOver > 0 {
		b.least("pair", "uncontended pair on "+place+", against the best peer", s.PeerOver, 1, " ×")
	}
}

func (b *bars) handoff(place string) {
	turn := func(w int) *SubjectResult {
		return b.subject(fmt.Sprintf("turns/%s/%d", place, w), "Baton mutex")
	}
	for _, w := range contenderCounts {
		s := turn(w)
		if s == nil {
			continue
		}
		what := fmt.Sprintf("handoff on %s, %d contenders", place, w)
		b.most("handoff", what, s.OverFloor, 1.45, " × floor")
		b.most("handoff", what+", requests per grant with the watch", round(s.Counts.Requests), 5, "")
		if over := b.over("turns/zookeeper/2", "go-zookeeper Lock"); w == 2 && place == "zookeeper" && over > 0 {
			b.least("handoff", what+", against go-zookeeper's Lock", over, 1, " ×")
		}
	}
	if few, many := turn(16), turn(512); few != nil && many != nil {
		ratio := many.Counts.In / few.Counts.In
		b.most("handoff", "bytes received per grant on "+place+", 512 contenders to 16", ratio, 1.2, " ×")
	}
}

func (b *bars) throughput(place string) {
	for _, c := range []struct{ name, what string }{
		{"scale/" + place + "/64", "64 goroutines of one client on " + place},
		{"fleet/" + place, "64 clients, names at random on " + place},
		{"fresh/" + place, "64 clients, new names on " + place},
	} {
		if s := b.subject(c.name, "Baton mutex"); s != nil && s.PeerOver > 0 {
			b.least("throughput", c.what+", pairs/s", s.PeerOver, 1, " × best peer")
		}
	}
	if s := b.subject("permits/"+place, "Baton semaphore"); s != nil && s.PeerOver > 0 {
		b.least("throughput", "64 clients on 10 permits on "+place+", grants/s", s.PeerOver, 3, " × Curator")
	}
}

func (b *bars) waiters(place string) {
	most := map[string]float64{"etcd": 24, "zookeeper": 8}[place]
	for _, w := range b.Waiters {
		if w.Place == place && w.Role == Baton {
			b.most("waiters", fmt.Sprintf("heap of each of %d waiters on %s", w.Waiters, place), w.Heap/1024, most, " KiB")
			inOrder := 0.0
			if w.InOrder {
				inOrder = 1
			}
			b.least("waiters", fmt.Sprintf("%d waiters on %s drained in order (1: yes)", w.Waiters, place), inOrder, 1, "")
		}
	}
}

// figure formats a number with the significant digits.
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

// short formats a duration in seconds.
func short(d time.Duration) string { return d.Round(time.Second).String() }
