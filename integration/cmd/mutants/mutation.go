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
	t := test{pkg: "recipes/internal/simulation", name: "TestSimulation"}
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

var mutations = slices.Concat(ofRecipes, ofSessions, ofDrivers, ofFencing, ofShared, ofOperators, ofMembers)

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

Each row breaks one rule of the protocol in the real code, and names the tests that fail. "make mutants" breaks each in turn,
and fails unless every named test fails. "Simulation" is `+"`TestSimulation`"+` in recipes/internal/simulation with its usual 300 seeds. The
promises are those of [guarantees](guarantees.md#the-promises).

If no simulation is named, it does not notice, or not with so few seeds: it has no real driver, stops no process between
two instructions, has no wall clock that runs ahead, and counts no requests. Follow and Pass of the drivers implement the handoff;
here its effects are broken in the recipes, and in the service in memory.

| mutation | promise | the broken code | caught by |
|---|---|---|---|
`, regenerate, len(all))
	for _, m := range all {
		var by []string
		for _, t := range m.caught {
			by = append(by, t.markdown())
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.name, m.promise, m.what, strings.Join(by, "; "))
	}
	return b.String()
}

func (t test) markdown() string {
	if t == simulated("") {
		return "simulation"
	}
	if recipe, ok := strings.CutPrefix(t.env, "BATON_SIM_RECIPE="); ok {
		return "simulation, " + recipe
	}
	return fmt.Sprintf("%s `%s`", t.pkg, t.name)
}
