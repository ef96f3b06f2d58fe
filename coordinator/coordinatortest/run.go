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

// Run checks a driver against the contract in package driver, with one subtest
// for each case. A failed case prints the clause, what it saw and what it
// wanted. Run skips cases whose levers the harness lacks, and logs at the end
// what was not checked.
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

// probe checks the harness itself.
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
	// body checks the claim, in one goroutine.
	body func(e *env)
}

func (c testCase) clauses() []string {
	keys, _, _ := strings.Cut(c.name, "/")
	return strings.Split(keys, ",")
}

// unable returns why a case cannot run with a harness, or "" if it can.
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

// attempt runs the case as often as Attempts allows, each time in a new bubble.
func (c testCase) attempt(t *testing.T, h Harness) (err error) {
	for range h.Attempts {
		h.Bubble(t, func(t *testing.T) { err = c.run(t, h) })
		if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrSessionLost) {
			return err
		}
		t.Logf("%s failed because of the service:\n%v", c.name, err)
	}
	return err
}

// run runs the case. It returns a failure instead of failing t, for the tests
// of the suite with broken drivers.
func (c testCase) run(t *testing.T, h Harness) error {
	e := newEnv(t, h)
	err := caught(func() error {
		c.body(e)
		return nil
	})
	// The body's failure comes first: hanging calls are a consequence.
	if closing := e.close(); err == nil {
		err = closing
	}
	return err
}

// caught makes a call, and returns the *failure that it panics with.
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
	cause     error // the driver's error, if any
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
	for key, skipped := range lacking {
		why[key] = fmt.Sprintf("%d of %d cases ran:\n\t%s",
			total[key]-len(skipped), total[key], strings.Join(skipped, "\n\t"))
	}
	text := fmt.Sprintf("conformance: %d cases", len(cases))
	for _, key := range slices.Sorted(maps.Keys(why)) {
		text += fmt.Sprintf("\nclause %s: %s", key, why[key])
	}
	return text
}

// untestable has the clauses without a case, with reasons.
var untestable = map[string]string{
	"J4": "no case: it promises nothing; J2 and F1 check what holds after such an error",
	"C3": "no case: a driver's own tests check it, with an external connection",
}

var cases = slices.Concat(
	sessionCases, joinCases, viewCases, contestCases,
	entryCallCases(), forgetCases, closeCases,
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
