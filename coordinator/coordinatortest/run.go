package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Run checks a driver against the contract in package driver: one subtest for
// each case, named after the clause that it checks. A case that fails prints
// the clause, what was seen and what was wanted. Cases whose levers the harness
// lacks are skipped, and what was not checked is logged at the end.
func Run(t *testing.T, h Harness) {
	h = h.withDefaults()
	if h.Start == nil {
		t.Fatal("harness: Start is required")
	}
	usable := t.Run("harness", func(t *testing.T) {
		h.Bubble(t, func(t *testing.T) {
			if err := probe(t, h); err != nil {
				t.Fatal(err)
			}
		})
	})
	if !usable {
		return
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if why := c.unable(h); why != "" {
				t.Skip(why)
			}
			err := c.attempt(t, h)
			if l, ok := errors.AsType[lacking](err); ok && h.Lacks[l.capability] != "" {
				t.Skipf("%v: %s", err, h.Lacks[l.capability])
			}
			if err != nil {
				t.Error(report(c, err))
			}
		})
	}
	t.Log(coverage(h))
}

// probe checks the harness itself before anything is concluded from it.
func probe(t *testing.T, h Harness) error {
	svc := h.Start(t)
	if svc.Connect == nil {
		return h.check(svc, Client{})
	}
	c, err := svc.Connect()
	if err != nil {
		return fmt.Errorf("harness: Connect: %w", err)
	}
	if err := h.check(svc, c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	if err := h.checkCapabilities(ctx, c.Driver); err != nil {
		return err
	}
	return c.Driver.Close(ctx)
}

// testCase is one claim about a driver.
type testCase struct {
	// name is "clause/claim".
	name  string
	needs []Lever
	// body makes the claim and fails through its env. It runs in one goroutine.
	body func(e *env)
}

// clause is the key of the clause that the case checks.
func (c testCase) clause() string {
	key, _, _ := strings.Cut(c.name, "/")
	return key
}

// unable says why a case cannot run with a harness; "" if it can.
func (c testCase) unable(h Harness) string {
	for _, lever := range c.needs {
		if why, lacks := h.Lacks[lever]; lacks {
			return fmt.Sprintf("not checked: harness lacks %s: %s", lever, why)
		}
	}
	for name, why := range h.Without {
		if strings.HasPrefix(c.name, name) {
			return "not for this driver: " + why
		}
	}
	return ""
}

// attempt runs the case, each time in a bubble of its own, as often as the harness allows.
func (c testCase) attempt(t *testing.T, h Harness) (err error) {
	for range h.Attempts {
		h.Bubble(t, func(t *testing.T) { err = c.run(t, h) })
		if err == nil || !away(err) {
			return err
		}
		t.Logf("%s found the service away:\n%v", c.name, err)
	}
	return err
}

// run runs the case and returns what it found, rather than failing t: so the suite can
// be tested with drivers that are broken on purpose.
func (c testCase) run(t *testing.T, h Harness) (err error) {
	e := newEnv(t, h)
	defer func() {
		// What the body found comes first: calls that hang are then a consequence.
		if closing := e.close(); err == nil {
			err = closing
		}
	}()
	defer func() {
		// A body stops at its first failure by panicking with it, as t.FailNow
		// stops a test by Goexit. Every other panic goes on.
		switch p := recover().(type) {
		case nil:
		case *failure:
			err = p
		case lacking:
			err = p
		default:
			panic(p)
		}
		if l := e.lacks.Load(); l != nil { // what a call in the background has found
			err = *l
		}
	}()
	c.body(e)
	return nil
}

// failure is what a case found.
type failure struct {
	saw, want string
	cause     error // what the driver returned, if that is what was wrong
}

func (f *failure) Error() string { return fmt.Sprintf("saw:  %s\nwant: %s", f.saw, f.want) }

// away says of what a case found that it may be the weather's doing and not the driver's.
func away(err error) bool {
	var f *failure
	return errors.As(err, &f) && (errors.Is(f.cause, driver.ErrUnavailable) || errors.Is(f.cause, driver.ErrSessionLost))
}

func report(c testCase, err error) string {
	return fmt.Sprintf("case %s\n%s: %s\n%v", c.name, c.clause(), clauses[c.clause()], err)
}

// coverage lists what a run with this harness leaves unchecked.
func coverage(h Harness) string {
	total, able := map[string]int{}, map[string]int{}
	why := map[string][]string{}
	for _, c := range cases {
		total[c.clause()]++
		if reason := c.unable(h); reason != "" {
			why[c.clause()] = append(why[c.clause()], fmt.Sprintf("%q %s", c.name, reason))
		} else {
			able[c.clause()]++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "conformance: %d cases", len(cases))
	for _, key := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(&b, "\nclause %s: %d of %d cases ran:\n\t%s",
			key, able[key], total[key], strings.Join(why[key], "\n\t"))
	}
	for _, key := range slices.Sorted(maps.Keys(untestable)) {
		fmt.Fprintf(&b, "\nclause %s: no case: %s", key, untestable[key])
	}
	return b.String()
}

// group owns the goroutines of a case.
type group struct{ wg sync.WaitGroup }

func (g *group) spawn(f func()) { g.wg.Go(f) }

// wait waits for all of them, but not for ever: a driver that never returns must
// fail its case and not hang the run.
func (g *group) wait(patience time.Duration) bool {
	done := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// subject is what a session can follow from state to state: the first entry of
// a queue, or its record. The clauses for the two are the same where the cases
// are.
type subject struct {
	call string // "Head" or "Record"
	read func(ctx context.Context, s session, queue driver.Queue, known driver.Version) (state, error)
	// set gives it a value, through the session ahead in a duel.
	set func(ctx context.Context, d *duel, value string) error
}

type state struct {
	value   string
	version driver.Version
}

var headSubject = subject{
	call: "Head",
	read: func(ctx context.Context, s session, queue driver.Queue, known driver.Version) (state, error) {
		head, err := s.Head(ctx, queue, known)
		return state{string(head.Value), head.Version}, err
	},
	set: func(ctx context.Context, d *duel, value string) error {
		return d.ahead.Write(ctx, d.queue, d.first.Place, []byte(value))
	},
}

var recordSubject = subject{
	call: "Record",
	read: func(ctx context.Context, s session, queue driver.Queue, known driver.Version) (state, error) {
		record, err := s.Record(ctx, queue, known)
		return state{string(record.Value), record.Version}, err
	},
	set: func(ctx context.Context, d *duel, value string) error { return overwrite(ctx, d.ahead, d.queue, value) },
}

// change sets it, and goes on while the service is unavailable.
func (x subject) change(e *env, d *duel, value string) {
	e.ok(e.again(func(ctx context.Context) error { return x.set(ctx, d, value) }), "a change for "+x.call)
}

// now reads the state without waiting for another.
func (x subject) now(e *env, s session, queue driver.Queue) state {
	got, err := x.read(e.soon(), s, queue, driver.Any)
	e.ok(err, x.call+" of any version")
	return got
}

// duel makes a duel in which the one behind knows a first value, and returns its version.
func (x subject) duel(e *env) (*duel, driver.Version) {
	d := e.duel()
	x.change(e, d, "old")
	var now state
	e.eventually(x.call+" shows what another session has written", func() bool {
		now = x.now(e, d.behind, d.queue)
		return now.value == "old"
	})
	return d, now.version
}

// reach follows the subject from a known state until it has the value. It goes
// on while the service is unavailable, as clause W4 wants package coordinator
// to do.
func (x subject) reach(e *env, s session, queue driver.Queue, known driver.Version, value string) *outcome {
	return e.start(func() error {
		for {
			got, err := x.read(e.ctx, s, queue, known)
			switch {
			case errors.Is(err, driver.ErrUnavailable):
				if !sleep(e.ctx, e.Settle/20) {
					return err
				}
			case err != nil:
				return fmt.Errorf("%s: %w", x.call, err)
			case got.version == known:
				return fmt.Errorf("%s returned the state that was known, version %d", x.call, known)
			case got.value == value:
				return nil
			default:
				known = got.version
			}
		}
	})
}

// reached waits for it to get there.
func (e *env) reached(o *outcome, what, after string) {
	if err := e.ends(o, e.Patience, what+" after "+after); err != nil {
		e.fail("nil", "%s after %s: %v", what, after, err)
	}
}
