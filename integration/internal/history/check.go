package history

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
)

// Violation is a broken promise.
type Violation struct {
	Check  string // which check found it
	Name   string // of the lock, semaphore, election or register
	At     int64
	Text   string
	Around []string // what happened about then, in order
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s: %s\n\t%s", v.Check, v.Name, v.Text, strings.Join(v.Around, "\n\t"))
}

// mostShown bounds how many violations are reported one by one: one bug causes
// hundreds.
const mostShown = 10

// soakVariable is set when the test has the machine to itself.
const soakVariable = "BATON_SOAK"

// Check fails the test for each violation, and if the history is incomplete. A
// search that timed out fails only a soak: elsewhere other tests may have used
// the processor.
func (h *History) Check(t testing.TB) Report {
	t.Helper()
	r := h.Report()
	for i, v := range r.Violations {
		if i == mostShown {
			t.Errorf("and %d more violations", len(r.Violations)-i)
			break
		}
		t.Error(v)
	}
	if err := h.broken(); err != nil {
		t.Error(err)
	}
	judgeUnknown(t, r)
	return r
}

func judgeUnknown(t testing.TB, r Report) {
	t.Helper()
	for _, u := range r.Unknown {
		if os.Getenv(soakVariable) != "" {
			t.Error(u)
		} else {
			t.Log(u)
		}
	}
}

// broken returns why the history is incomplete, or nil.
func (h *History) broken() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return fmt.Errorf("the history is incomplete: %w", h.err)
	}
	return nil
}

// span is a time in which a user may believe that it holds: [from, to).
type span struct{ from, to int64 }

// spans returns the times of a hold that are checked, in order.
func (h *History) spans(r *Hold) []span {
	if r.Granted == 0 {
		return nil
	}
	to := Forever
	for _, end := range []int64{r.Releasing, r.Ended} {
		if end != 0 {
			to = min(to, end)
		}
	}
	if to <= r.Granted {
		return nil
	}
	spans := []span{{r.Granted, to}}
	for _, e := range h.excused {
		if !e.covers(r) {
			continue
		}
		var left []span
		for _, s := range spans {
			left = append(left, span{s.from, min(s.to, e.From)}, span{max(s.from, e.To), s.to})
		}
		spans = slices.DeleteFunc(left, func(s span) bool { return s.from >= s.to })
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return spans
}

func (e Excused) covers(r *Hold) bool {
	return e.Client == r.Client && (e.Name == "" || e.Name == r.Name) && (e.Before == 0 || r.Asked < e.Before)
}

// moment is an event of the sweep over a name.
type moment struct {
	at    int64
	order int // of events at the same time: an end, a downgrade, a call, a beginning
	what  int
	hold  *Hold
}

const (
	ends = iota
	downgrades
	asks
	begins
)

// sweep checks the holds of one name in the order of time.
type sweep struct {
	h      *History
	found  []Violation
	alive  map[*Hold]bool
	asking map[*Hold]bool // requests that will be granted
	token  int64          // the greatest granted so far
	before map[*Hold]int64
	limit  int // 0: it changes
}

func (h *History) direct() (found []Violation) {
	names := map[subject][]*Hold{}
	for _, r := range h.holds {
		if r.Granted != 0 {
			names[r.subject()] = append(names[r.subject()], r)
		}
	}
	for _, holds := range names {
		s := sweep{h: h, alive: map[*Hold]bool{}, asking: map[*Hold]bool{}, before: map[*Hold]int64{}, limit: holds[0].Limit}
		s.run(holds)
		found = append(found, s.found...)
	}
	found = append(found, h.registers()...)
	slices.SortFunc(found, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return found
}

func (s *sweep) run(holds []*Hold) {
	var all []moment
	add := func(at int64, what int, r *Hold) { all = append(all, moment{at, what, what, r}) }
	seen := map[int64]*Hold{}
	for _, r := range holds {
		if r.Limit != s.limit {
			s.limit = 0
		}
		if twin := seen[r.Token]; twin != nil {
			s.report("one token for one grant", r.Granted, []*Hold{r, twin}, "token %d is granted to %s and to %s", r.Token, twin.Client, r.Client)
		}
		seen[r.Token] = r
		spans := s.h.spans(r)
		if len(spans) == 0 {
			continue // never believed
		}
		if spans[0].from == r.Granted { // otherwise it was granted while excused: its order is not checked
			add(r.Asked, asks, r)
		}
		for _, p := range spans {
			add(p.from, begins, r)
			if p.to != Forever {
				add(p.to, ends, r)
			}
		}
		if r.Downgraded != 0 && r.Kind == Write {
			add(r.Downgraded, downgrades, r)
		}
	}
	sort.SliceStable(all, func(i, j int) bool {
		return cmp.Or(cmp.Compare(all[i].at, all[j].at), cmp.Compare(all[i].order, all[j].order)) < 0
	})
	for _, m := range all {
		switch m.what {
		case asks:
			s.before[m.hold], s.asking[m.hold] = s.token, true
		case begins:
			s.begin(m)
		case ends:
			delete(s.alive, m.hold)
		case downgrades:
		}
	}
}

// begin checks a grant, or the end of an excuse, against the current holds.
func (s *sweep) begin(m moment) {
	r := m.hold
	for other := range s.alive {
		if excludes(r, other, m.at) {
			s.report("exclusion", m.at, []*Hold{r, other}, "%s's %s with token %d holds, and so does %s's %s with token %d until %s",
				r.Client, r.Kind, r.Token, other.Client, other.Kind, other.Token, s.until(other, m.at))
		}
	}
	s.alive[r] = true
	if r.Kind == Permits {
		s.count(m, "permits", "%d permits of %d are held", func(*Hold) bool { return true }, s.alive)
	}
	if m.at != r.Granted {
		return
	}
	delete(s.asking, r)
	if r.Token <= s.before[r] {
		s.report("tokens rise", m.at, []*Hold{r}, "%s asked after token %d was granted, and has %d", r.Client, s.before[r], r.Token)
	}
	s.token = max(s.token, r.Token)
	s.order(m)
}

// order checks a grant against requests with smaller tokens that are granted
// later.
func (s *sweep) order(m moment) {
	r := m.hold
	ahead := map[*Hold]bool{}
	for other := range s.asking {
		if other.Token >= r.Token {
			continue
		}
		ahead[other] = true
		if excludes(r, other, m.at) {
			s.report("first come, first served", m.at, []*Hold{r, other}, "%s is granted %s with token %d while %s still waits for %s with %d",
				r.Client, r.Kind, r.Token, other.Client, other.Kind, other.Token)
		}
	}
	if r.Kind != Permits || len(ahead) == 0 {
		return
	}
	for other := range s.alive {
		ahead[other] = true
	}
	s.count(m, "first come, first served", "with the earlier requests that still wait, %d permits of %d would be held",
		func(o *Hold) bool { return o.Token <= r.Token }, ahead)
}

func (s *sweep) count(m moment, check, text string, counts func(*Hold) bool, holds map[*Hold]bool) {
	n, counted := 0, []*Hold{m.hold}
	for r := range holds {
		if counts(r) {
			n, counted = n+r.N, append(counted, r)
		}
	}
	if limit := s.limit; limit != 0 && n > limit {
		s.report(check, m.at, counted, text, n, limit)
	}
}

// excludes reports whether two holds of one name exclude each other at a time
// when both hold or are about to.
func excludes(a, b *Hold, at int64) bool {
	reads := func(r *Hold) bool {
		return r.Kind == Read || r.Kind == Write && r.Downgraded != 0 && r.Downgraded <= at
	}
	return a.Kind != Permits && (!reads(a) || !reads(b))
}

// until returns how long a hold overlaps with an event at from.
func (s *sweep) until(r *Hold, from int64) string {
	for _, p := range s.h.spans(r) {
		if p.from <= from && from < p.to && p.to != Forever {
			return fmt.Sprintf("%v later", time.Duration(p.to-from))
		}
	}
	return "the end"
}

// report adds a violation, with the events of all concerned holds.
func (s *sweep) report(check string, at int64, concerned []*Hold, format string, args ...any) {
	of := concerned[0].subject()
	s.found = append(s.found, Violation{
		Check: check, Name: string(of.family) + " " + of.name, At: at,
		Text: fmt.Sprintf(format, args...), Around: s.h.around(of, at, concerned),
	})
}

// near is the number of events shown on each side of a violation.
const near = 4

// around returns the events of a name around a time, among them those of all
// concerned holds, and the last injected faults.
func (h *History) around(of subject, at int64, concerned []*Hold) []string {
	type event struct {
		at   int64
		text string
		must bool
	}
	var all []event
	add := func(at int64, must bool, format string, args ...any) {
		if at != 0 && at != Forever {
			all = append(all, event{at, fmt.Sprintf(format, args...), must})
		}
	}
	for _, r := range h.holds {
		if r.subject() != of {
			continue
		}
		must := slices.Contains(concerned, r)
		who := fmt.Sprintf("%s %s token %d", r.Client, r.Kind, r.Token)
		add(r.Asked, must, "%s: asks for %d", who, r.N)
		add(r.Granted, must, "%s: granted", who)
		add(r.FailedAt, must, "%s: fails: %s", who, r.Error)
		add(r.Downgraded, must, "%s: downgrades", who)
		add(r.Releasing, must, "%s: releases", who)
		add(r.Released, must, "%s: has released: %s", who, cmp.Or(r.ReleaseErr, "ok"))
		add(r.Ended, must, "%s: context ended: %s", who, r.Cause)
	}
	for _, f := range h.faults {
		add(f.Begin, false, "fault %s %v begins", f.Kind, f.Clients)
		add(f.End, false, "fault %s %v ends", f.Kind, f.Clients)
	}
	for _, e := range h.excused {
		if e.Name == "" || e.Name == of.name {
			add(e.From, false, "%s is excused: %s", e.Client, e.Why)
			add(e.To, false, "%s is no longer excused: %s", e.Client, e.Why)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	middle := sort.Search(len(all), func(i int) bool { return all[i].at >= at })
	var text []string
	for i, e := range all {
		if distance := math.Abs(float64(i - middle)); e.must || distance <= near {
			text = append(text, fmt.Sprintf("%+.6f s  %s", float64(e.at-at)/1e9, e.text))
		}
	}
	return text
}
