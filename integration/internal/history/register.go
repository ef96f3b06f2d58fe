package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

func (h *History) byRegister() map[string][]Access {
	names := map[string][]Access{}
	for _, a := range h.accesses {
		names[a.Name] = append(names[a.Name], a)
	}
	for _, all := range names {
		slices.SortFunc(all, func(a, b Access) int { return cmp.Compare(a.Begin, b.Begin) })
	}
	return names
}

// registers checks each access against those that had ended when it began, and
// those that had begun when it ended.
func (h *History) registers() (found []Violation) {
	for name, all := range h.byRegister() {
		r := newRegister(all)
		for _, a := range all {
			if text := r.judge(a); text != "" {
				found = append(found, Violation{
					Check: "fenced register", Name: name, At: a.Begin,
					Text: fmt.Sprintf("%s: %s", a, text), Around: aroundAccess(all, a),
				})
			}
		}
	}
	return found
}

type register struct {
	writes map[string]Access // accepted, by value
	// The state of accepted accesses before a time.
	least, most func(int64) int64 // the greatest token of those that ended, that began
	overwritten func(int64) int64 // the latest beginning of the writes that ended
}

func newRegister(all []Access) register {
	writes := map[string]Access{}
	for _, a := range all {
		if !a.Read && a.Accepted {
			writes[a.Value] = a
		}
	}
	begin, end := func(a Access) int64 { return a.Begin }, func(a Access) int64 { return a.End }
	token := func(a Access) int64 { return a.Token }
	accepted := func(a Access) bool { return a.Accepted }
	return register{
		writes:      writes,
		least:       greatest(all, accepted, end, token),
		most:        greatest(all, accepted, begin, token),
		overwritten: greatest(all, func(a Access) bool { return a.Accepted && !a.Read }, end, begin),
	}
}

// judge returns what is wrong with an access, or "".
func (r register) judge(a Access) string {
	least, most := r.least(a.Begin), r.most(a.End)
	w, written := r.writes[a.Value]
	switch {
	case a.Token != 0 && a.Accepted && a.Token < least:
		return fmt.Sprintf("it is accepted after token %d was", least)
	case !a.Accepted && a.Token >= most:
		return fmt.Sprintf("it is refused, but the greatest token was %d", most)
	case !a.Read || !a.Accepted:
		return ""
	case a.Value == "" && r.overwritten(a.Begin) != 0:
		return "there was an earlier write"
	case a.Value == "":
		return ""
	case !written || w.Begin > a.End:
		return "no write had this value"
	case w.End < r.overwritten(a.Begin):
		return "it was overwritten before"
	}
	return ""
}

// greatest returns a function of a time: the greatest quantity among the
// accesses that count and whose moment is before that time. (An access at that
// very time may be concurrent.)
func greatest(all []Access, counts func(Access) bool, moment, quantity func(Access) int64) func(int64) int64 {
	type step struct{ at, quantity int64 }
	var steps []step
	for _, a := range all {
		if counts(a) {
			steps = append(steps, step{moment(a), quantity(a)})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(steps); i++ {
		steps[i].quantity = max(steps[i].quantity, steps[i-1].quantity)
	}
	return func(t int64) int64 {
		if i := sort.Search(len(steps), func(i int) bool { return steps[i].at >= t }); i > 0 {
			return steps[i-1].quantity
		}
		return 0
	}
}

func aroundAccess(all []Access, a Access) (text []string) {
	i := slices.Index(all, a)
	for _, b := range all[max(0, i-near):min(len(all), i+near+1)] {
		text = append(text, fmt.Sprintf("%+.6f s to %+.6f s  %s", float64(b.Begin-a.Begin)/1e9, float64(b.End-a.Begin)/1e9, b))
	}
	return text
}

func (a Access) String() string {
	verb := "writes"
	if a.Read {
		verb = "reads"
	}
	if !a.Accepted {
		return fmt.Sprintf("%s is refused with token %d when it %s %q", a.Client, a.Token, verb, a.Value)
	}
	return fmt.Sprintf("%s %s %q with token %d", a.Client, verb, a.Value, a.Token)
}

// segments splits the accesses of a register, at times when none is in flight,
// into pieces small enough for a search.
func segments(all []Access, size int) (pieces [][]Access) {
	last, until := 0, int64(math.MinInt64)
	for i, a := range all {
		if i-last >= size && a.Begin > until {
			pieces, last = append(pieces, all[last:i]), i
		}
		until = max(until, a.End)
	}
	return append(pieces, all[last:])
}
