package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/observe"
)

// book checks the events and metrics of all clients of a world: each begin has
// one end, and gauges are zero at the end.
type book struct {
	meter event.Observer

	mu     sync.Mutex
	sums   map[string]float64 // of counters and gauges, by name and labels
	counts map[string]int     // of histograms, by name
	stages map[place][]event.Kind
	locals map[place]bool // shared by several readers
	bad    []string
}

// place is one contender.
type place struct {
	session string
	queue   driver.Queue
	token   coordinator.Token
}

func newBook() *book {
	b := &book{sums: map[string]float64{}, counts: map[string]int{},
		stages: map[place][]event.Kind{}, locals: map[place]bool{}}
	b.meter = observe.New(b, nil)
	return b
}

// Record implements observe.Sink.
func (b *book) Record(_ context.Context, id observe.ID, v float64, values ...string) {
	m := observe.Metrics()[id]
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(values) != len(m.Labels):
		b.blame("%s with the labels %q; want %q", m.Name, values, m.Labels)
	case v < 0 && (m.Type == observe.Counter || m.Unit() == "s"):
		b.blame("%s %q: %v", m.Name, values, v)
	case m.Type == observe.Histogram:
		b.counts[m.Name]++
	default:
		b.sums[m.Name+" "+strings.Join(values, " ")] += v
	}
}

func (b *book) blame(format string,
	args ...any) {
	b.bad = append(b.bad, fmt.Sprintf(format, args...))
}

// orders are the possible sequences of events of a contender. Other events are
// in between.
var orders = [][]event.Kind{
	{event.Joined, event.NotGranted},
	{event.Joined, event.Granted, event.Released},
	{event.Joined, event.Granted, event.Lost},
}

// Observe implements event.Observer.
func (b *book) Observe(e event.Event) {
	b.meter.Observe(e)
	switch e.Kind {
	case event.Joined, event.Granted, event.NotGranted, event.Released, event.Lost:
	default:
		return
	}
	if e.Token == 0 { // it was never queued
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := place{e.Session, e.Queue, e.Token}
	if strings.HasPrefix(string(e.Queue), "rwlock/") && b.shared(p, e) {
		return
	}
	b.stages[p] = append(b.stages[p], e.Kind)
	// A turn that is kept is granted again.
	if n := len(b.stages[p]); e.Kind == event.Granted && e.Local && n == 4 &&
		b.stages[p][n-2] == event.Released {
		b.stages[p] = slices.Delete(b.stages[p], n-2, n)
		return
	}
	for _, o := range orders {
		if n := len(b.stages[p]); n <= len(o) && slices.Equal(o[:n], b.stages[p]) {
			return
		}
	}
	b.blame("%v was observed as %v", p, b.stages[p])
}

// shared reports whether an event is that of a reader which shares the entry of
// another: it is local, or the loss of an entry that was reported for another
// reader. audit compares the sums.
func (b *book) shared(p place, e event.Event) bool {
	if e.Local {
		b.locals[p] = true
	}
	all := b.stages[p]
	return e.Local || e.Kind == event.Lost && b.locals[p] && len(all) > 0 && all[len(all)-1] == event.Lost
}

// sum returns the sum of a metric over all labels.
func (b *book) sum(id observe.ID) (total int) {
	for name, v := range b.sums {
		if strings.HasPrefix(name, observe.Metrics()[id].Name+" ") {
			total += int(v)
		}
	}
	return total
}

// audit checks all clients at the end of a world: all gauges are back at zero.
func (b *book) audit() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, stages := range b.stages {
		if !slices.ContainsFunc(orders,
			func(o []event.Kind) bool { return slices.Equal(o, stages) }) {
			b.blame("%v ended after %v", p, stages)
		}
	}
	for _, m := range observe.Metrics() {
		for name, v := range b.sums {
			if m.Type == observe.Gauge && strings.HasPrefix(name, m.Name+" ") && v != 0 {
				b.blame("the gauge %s is %v at the end", name, v)
			}
		}
	}
	grants := b.sum(observe.Grants)
	for what, n := range map[string]int{
		"releases and losses": b.sum(observe.Releases) + b.sum(observe.Lost),
		"waits":               b.counts["baton_wait_seconds"],
		"holds":               b.counts["baton_hold_seconds"],
	} {
		if n != grants {
			b.blame("%d %s of %d grants", n, what, grants)
		}
	}
	if opened, ended := b.sum(observe.SessionsOpened),
		b.sum(observe.SessionsEnded); opened != ended {
		b.blame("%d sessions were opened, and %d have ended", opened, ended)
	}
	return b.bad
}
