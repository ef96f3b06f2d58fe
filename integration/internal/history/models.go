package history

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// patience is how long porcupine may search one name.
	patience = 3 * time.Minute
	// piece is how many accesses of a register porcupine gets at once; more if
	// they overlap.
	piece = 500
)

// Artifacts is the environment variable with the directory for drawings of
// failed checks. Without it they go to a temporary directory.
const Artifacts = "BATON_ARTIFACTS"

// step is an operation of the models of locks.
type step struct {
	do    string // acquire, downgrade or end
	kind  Kind
	token int64
	n     int
	late  bool // granted while its user was excused: its order is unknown
}

func (s step) String() string {
	if s.kind == Permits {
		return fmt.Sprintf("%s %d permits, token %d", s.do, s.n, s.token)
	}
	return fmt.Sprintf("%s %s, token %d", s.do, s.kind, s.token)
}

// lock is the state of a mutex, an election, or a read-write lock.
type lock struct {
	writer  int64  // the token of the exclusive holder
	readers string // tokens of the readers, each followed by a space
	last    int64  // the greatest granted token
	alone   int64  // the greatest exclusively granted token
}

// next is the model of a lock: its state after a step, if the step is possible.
func (l lock) next(s step) (lock, bool) {
	token := fmt.Sprintf("%d ", s.token)
	reads := strings.Contains(" "+l.readers, " "+token)
	switch {
	case s.do == "acquire" && s.kind == Read:
		ok := l.writer == 0 && (s.late || s.token > l.alone)
		l.readers, l.last = sorted(l.readers+token), max(l.last, s.token)
		return l, ok
	case s.do == "acquire":
		ok := l.writer == 0 && l.readers == "" && (s.late || s.token > l.last)
		l.writer, l.last, l.alone = s.token, max(l.last, s.token), max(l.alone, s.token)
		return l, ok
	case s.do == "downgrade":
		ok := l.writer == s.token
		l.writer, l.readers = 0, sorted(l.readers+token)
		return l, ok
	case reads:
		l.readers = strings.TrimPrefix(strings.Replace(" "+l.readers, " "+token, " ", 1), " ")
		return l, true
	default:
		ok := l.writer == s.token
		l.writer = 0
		return l, ok
	}
}

// sorted gives equal states equal representations.
func sorted(readers string) string {
	f := strings.Fields(readers)
	slices.Sort(f)
	return strings.Join(f, " ") + " "
}

func lockModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lock{} },
		Step: func(state, in, _ any) (bool, any) {
			next, ok := state.(lock).next(in.(step))
			return ok, next
		},
		DescribeOperation: func(in, _ any) string { return in.(step).String() },
	}
}

// semaphoreModel counts the held permits.
func semaphoreModel(limit int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, in, _ any) (bool, any) {
			held, s := state.(int), in.(step)
			if s.do == "acquire" {
				return held+s.n <= limit, held + s.n
			}
			return held >= s.n, held - s.n
		},
		DescribeOperation: func(in, _ any) string { return in.(step).String() },
	}
}

// fenced is the state of a register. After an earlier piece of the history only
// the token is certain.
type fenced struct {
	token int64
	value string
	known bool
}

func (f fenced) next(a Access) (fenced, bool) {
	if !a.Accepted {
		return f, a.Token < f.token
	}
	if a.Token != 0 && a.Token < f.token {
		return f, false
	}
	ok := !a.Read || !f.known || a.Value == f.value
	return fenced{max(f.token, a.Token), a.Value, true}, ok
}

func registerModel(init fenced) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return init },
		Step: func(state, in, _ any) (bool, any) {
			next, ok := state.(fenced).next(in.(Access))
			return ok, next
		},
		DescribeOperation: func(in, _ any) string { return in.(Access).String() },
	}
}

// witness runs porcupine's search for each name.
func (h *History) witness() (found []Violation, unknown []string) {
	search := func(name string, model porcupine.Model, ops []porcupine.Operation) {
		result, info := porcupine.CheckOperationsVerbose(model, ops, patience)
		switch result {
		case porcupine.Illegal:
			found = append(found, Violation{
				Check: "porcupine", Name: name, At: ops[0].Call,
				Text: "no order of its operations explains the history", Around: []string{draw(name, model, info)},
			})
		case porcupine.Unknown:
			unknown = append(unknown, fmt.Sprintf("porcupine: %s: no answer within %v for %d operations", name, patience, len(ops)))
		case porcupine.Ok:
		}
	}
	for of, ops := range h.operations() {
		model := lockModel()
		if of.family == Permits {
			model = semaphoreModel(h.limit(of))
		}
		search(string(of.family)+" "+of.name, model, ops)
	}
	for name, all := range h.byRegister() {
		init := fenced{known: true}
		for _, part := range segments(all, piece) {
			search("register "+name, registerModel(init), accesses(part))
			for _, a := range part {
				if a.Accepted {
					init.token, init.known = max(init.token, a.Token), false
				}
			}
		}
	}
	return found, unknown
}

// limit returns the greatest limit of any attempt.
func (h *History) limit(of subject) (limit int) {
	for _, r := range h.holds {
		if r.subject() == of {
			limit = max(limit, r.Limit)
		}
	}
	return limit
}

// operations returns the grants of each name and their ends. A grant took
// effect before its checked span begins. A successful release took effect
// before it returned; any other end took effect at any time after the hold's
// last span.
func (h *History) operations() map[subject][]porcupine.Operation {
	clients := map[string]int{}
	names := map[subject][]porcupine.Operation{}
	for _, r := range h.holds {
		spans := h.spans(r)
		if len(spans) == 0 {
			continue
		}
		if _, ok := clients[r.Client]; !ok {
			clients[r.Client] = len(clients)
		}
		add := func(do string, from, to int64) {
			names[r.subject()] = append(names[r.subject()], porcupine.Operation{
				ClientId: clients[r.Client], Input: step{do, r.Kind, r.Token, r.N, spans[0].from != r.Granted}, Call: from, Return: to,
			})
		}
		add("acquire", r.Asked, spans[0].from)
		end := spans[0].to
		if r.Downgraded != 0 && r.Kind == Write && r.Downgraded < end {
			add("downgrade", max(r.Downgraded, spans[0].from+1), Forever)
		}
		if end == Forever {
			continue
		}
		to := Forever
		if r.Released != 0 && r.ReleaseErr == "" {
			to = max(r.Released, end)
		}
		add("end", end, to)
	}
	return names
}

func accesses(all []Access) (ops []porcupine.Operation) {
	clients := map[string]int{}
	for _, a := range all {
		if _, ok := clients[a.Client]; !ok {
			clients[a.Client] = len(clients)
		}
		ops = append(ops, porcupine.Operation{ClientId: clients[a.Client], Input: a, Call: a.Begin, Return: a.End})
	}
	return ops
}

// draw writes the visualisation of a failed search and returns its location.
func draw(name string, model porcupine.Model, info porcupine.LinearizationInfo) string {
	dir, err := artifacts()
	if err != nil {
		return "not drawn: " + err.Error()
	}
	safe := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\ :`, r) {
			return '-'
		}
		return r
	}, name)
	path := filepath.Join(dir, fmt.Sprintf("%s-%d.html", safe, Now()))
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		return "not drawn: " + err.Error()
	}
	return "drawn in " + path
}

func artifacts() (string, error) {
	if dir := os.Getenv(Artifacts); dir != "" {
		return dir, os.MkdirAll(dir, 0o750)
	}
	return os.MkdirTemp("", "baton-history-")
}
