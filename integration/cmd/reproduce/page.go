package main

import (
	"fmt"
	"strings"
)

// page returns docs/track-record.md.
func page(faults []fault) string {
	var b strings.Builder
	b.WriteString(head)
	group := ""
	for _, f := range faults {
		if f.group != group {
			group = f.group
			fmt.Fprintf(&b, "\n## %s\n\n| name | fault | found by | first commit without it | test |\n|---|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s.%s` |\n", f.name, f.what, f.by(), f.mend, f.pkg[strings.LastIndex(f.pkg, "/")+1:], f.today())
	}
	return b.String()
}

// by says who has found a fault, and which worlds do.
func (f fault) by() string {
	if f.worlds == "" {
		return f.found
	}
	return f.found + "; worlds on " + f.worlds
}

// head is the page's beginning. Without the history a fault cannot be shown.
const head = `# Track record

Faults that Baton had, so that you can judge what its tests find, and what they had not found. One
command reproduces a row: it runs the test on the code before the commit that mends the fault,
where the test must fail, and on the code that you have, where it must pass.

` + "```sh" + `
make reproduce                     # all rows
make reproduce NAME=lock-delay-for-ever
` + "```" + `

This needs Go, the whole history of the repository (in a shallow clone: git fetch --unshallow), and
no server. The test on the old code is that of the mending commit. Faults whose test uses a function
that the old code lacks cannot be shown so, and are left out.

Found by: a *review* is a person who reads or tries the code, a *test* one that existed, a *seed* a
world of the [simulation](../CONTRIBUTING.md), a *mutant* a [mutation](mutants.md) that no test
caught, a *report* what a user wrote. "Worlds on" a service means that today's simulation finds the
fault, too, if its mend alone is taken back from today's code. ` + "`integration/cmd/reproduce`" + `
writes this page.
`
