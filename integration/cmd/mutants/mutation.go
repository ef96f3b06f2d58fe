package main

import (
	"fmt"
	"slices"
	"strings"
)

// mutation breaks one rule of the protocol.
type mutation struct {
	name    string
	promise string // the broken promise, P1 to P8
	what    string // what the broken code does
	file    string // relative to the root of the repository
	old     string // occurs once in the file
	new     string
	caught  []test // each of them fails
}

// test names a test.
type test struct {
	pkg  string // the directory, relative to the root of the repository
	name string
	env  string // an environment variable for its run, or ""
}

// simulated is the simulation of one recipe, or of all if recipe is "".
func simulated(recipe string) test {
	t := test{pkg: "integration/simulation", name: "TestSimulationOnMemory"}
	if recipe != "" {
		t.env = "BATON_SIM_RECIPE=" + recipe
	}
	return t
}

func (t test) String() string {
	s := t.pkg + " " + t.name
	if t.env != "" {
		s += " (" + t.env + ")"
	}
	return s
}

var mutations = slices.Concat(ofRecipes, ofSessions, ofEngine,
	ofDrivers, ofEtcdQueues, ofEtcdReads, ofEtcdSessions, ofZooKeeperQueues, ofZooKeeperSessions,
	ofFencing, ofShared, ofSharedLayouts, ofSharedReads, ofOperators, ofMembers, ofCompositions,
	ofDeadlocks, ofKept)

// regenerate is the command that writes the page.
const regenerate = "(cd integration && go run ./cmd/mutants -markdown > ../docs/mutants.md)"

// page is docs/mutants.md.
func page(all []mutation) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<!-- Written by %s: change integration/cmd/mutants instead. -->

# Rules broken on purpose

`+"```"+`
make mutants                  # run all %d, two at a time
make mutants MUTANTS=herd     # mutations with matching names
`+"```"+`

Each mutation breaks one rule of the protocol in the real code. "make mutants" breaks each in turn,
names the tests that failed, and fails if one that should does not. The
[tables](../integration/cmd/mutants) say what each breaks, where, and which tests notice it, and so
does "go run ./cmd/mutants -list" in integration. The promises are those of
[guarantees](guarantees.md#the-promises).

| promise | mutations |
|---|---|
`, regenerate, len(all))
	for promise := range 8 {
		p := fmt.Sprintf("P%d", promise+1)
		var names []string
		for _, m := range all {
			if m.promise == p {
				names = append(names, "`"+m.name+"`")
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", p, strings.Join(names, ", "))
	}
	return b.String()
}
