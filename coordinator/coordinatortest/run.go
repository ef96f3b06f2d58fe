package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
)

// Run checks a driver against the contract in package driver: one subtest for
// each case, named after the clause that it checks. A case that fails prints
// the clause, what was seen and what was wanted. Cases whose levers the harness
// lacks are skipped, and what was not checked is logged at the end.
func Run(t *testing.T, h Harness) {
	h = h.withDefaults()
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
			if err := c.attempt(t, h); err != nil {
				t.Errorf("case %s: see %s in package driver\n%v", c.name, c.clauses(), err)
			}
		})
	}
	t.Log(coverage(h))
}

// probe checks the harness itself before anything is concluded from it.
func probe(t *testing.T, h Harness) error {
	if h.Start == nil || h.TTL <= 0 {
		return errors.New("harness: Start and TTL are required")
	}
	svc := h.Start(t)
	if svc.Connect == nil {
		return errors.New("harness: Service.Connect is required")
	}
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	c, err := svc.Connect()
	if err != nil {
		return fmt.Errorf("harness: Connect: %w", err)
	}
	s, err := c.Driver.Open(ctx, h.TTL)
	if err != nil {
		return fmt.Errorf("harness: Open: %w", err)
	}
	return errors.Join(h.check(svc, c, s.Capabilities()), s.Close(ctx), c.Driver.Close(ctx))
}

type testCase struct {
	// name is "clause/claim", or "clause,clause/claim".
	name  string
	needs []Lever
	// body makes the claim and fails through its env. It runs in one goroutine.
	body func(e *env)
}

func (c testCase) clauses() []string {
	keys, _, _ := strings.Cut(c.name, "/")
	return strings.Split(keys, ",")
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

// attempt runs the case, each time in a bubble of its own, as often as the
// harness allows.
func (c testCase) attempt(t *testing.T, h Harness) (err error) {
	for range h.Attempts {
		h.Bubble(t, func(t *testing.T) { err = c.run(t, h) })
		if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrSessionLost) {
			return err
		}
		t.Logf("%s found the service away:\n%v", c.name, err)
	}
	return err
}

// run runs the case and returns what it found, rather than failing t: so the
// suite can be tested with drivers that are broken on purpose.
func (c testCase) run(t *testing.T, h Harness) error {
	e := newEnv(t, h)
	err := caught(func() error {
		c.body(e)
		return nil
	})
	// What the body found comes first: calls that hang are then a consequence.
	if closing := e.close(); err == nil {
		err = closing
	}
	return err
}

// caught makes a call and returns the failure that it panics with, as t.FailNow
// stops a test by Goexit. Every other panic goes on.
func caught(call func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *failure:
			err = p
		default:
			panic(p)
		}
	}()
	return call()
}

type failure struct {
	saw, want string
	cause     error // what the driver returned, if that is what was wrong
}

func (f *failure) Error() string { return fmt.Sprintf("saw:  %s\nwant: %s", f.saw, f.want) }

func (f *failure) Unwrap() error { return f.cause }

func coverage(h Harness) string {
	why, total := maps.Clone(untestable), map[string]int{}
	lacking := map[string][]string{}
	for _, c := range cases {
		reason := c.unable(h)
		for _, key := range c.clauses() {
			total[key]++
			if reason != "" {
				lacking[key] = append(lacking[key], fmt.Sprintf("%q %s", c.name, reason))
			}
		}
	}
	for key, lines := range lacking {
		why[key] = fmt.Sprintf("%d of %d cases ran:\n\t%s",
			total[key]-len(lines), total[key], strings.Join(lines, "\n\t"))
	}
	text := fmt.Sprintf("conformance: %d cases", len(cases))
	for _, key := range slices.Sorted(maps.Keys(why)) {
		text += fmt.Sprintf("\nclause %s: %s", key, why[key])
	}
	return text
}

// untestable are the clauses that have no case, with reasons.
var untestable = map[string]string{
	"J4": "no case: it promises nothing; J2 and F1 check what holds after such an error",
	"C3": "no case: a driver's own tests check it, with a connection made outside of it",
}

var cases = slices.Concat(
	sessionCases, joinCases, viewCases, contestCases,
	deedCases(), forgetCases, closeCases,
	waitCases(), watchCases, changedCases(),
	needing(convertCases, Converter), needing(writeCases, Writer), lateCases(),
	nearestCases, needing(handoffCases, Handoff),
	headCases, recordCases, stateCases(),
	needing(operatorCases, Operator), needing(checkCases(), Operator),
)

func needing(all []testCase, levers ...Lever) []testCase {
	for i := range all {
		all[i].needs = slices.Concat(all[i].needs, levers)
	}
	return all
}
