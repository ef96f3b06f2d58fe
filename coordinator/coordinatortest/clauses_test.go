package coordinatortest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// paragraphs returns the paragraphs of all comments of the contract, each on one queue.
func paragraphs(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range []string{"../driver/driver.go", "../driver/capabilities.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			all = append(all, split(group)...)
		}
	}
	return all
}

func split(group *ast.CommentGroup) []string {
	var all []string
	for paragraph := range strings.SplitSeq(group.Text(), "\n\n") {
		all = append(all, strings.Join(strings.Fields(paragraph), " "))
	}
	return all
}

var numbered = regexp.MustCompile(`^([A-Z][0-9]+): (.*)$`)

func TestClausesAreQuotedVerbatim(t *testing.T) {
	written := map[string]string{}
	var text []string
	for _, p := range paragraphs(t) {
		if m := numbered.FindStringSubmatch(p); m != nil {
			if written[m[1]] != "" {
				t.Errorf("driver.go has clause %s twice", m[1])
			}
			written[m[1]] = m[2]
			continue
		}
		text = append(text, p)
	}
	if len(written) < 30 {
		t.Fatalf("found only %d clauses in driver.go: %v", len(written), written)
	}
	for key, clause := range written {
		if clauses[key] != clause {
			t.Errorf("clause %s\nin driver.go: %s\nquoted here:  %s", key, clause, clauses[key])
		}
	}
	all := strings.Join(text, "\n")
	for key, clause := range clauses {
		if _, ok := written[key]; !ok && !strings.Contains(all, clause) {
			t.Errorf("driver.go does not say %q (%s)", clause, key)
		}
	}
}

func TestEveryClauseHasACaseOrAReason(t *testing.T) {
	checked, names := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		if clauses[c.clause()] == "" {
			t.Errorf("case %q checks no clause", c.name)
		}
		if names[c.name] {
			t.Errorf("two cases are named %q", c.name)
		}
		checked[c.clause()], names[c.name] = true, true
	}
	for key := range clauses {
		if checked[key] == (untestable[key] != "") {
			t.Errorf("clause %s: case %t, reason for none %q; want one of the two", key, checked[key], untestable[key])
		}
	}
	for key := range untestable {
		if clauses[key] == "" {
			t.Errorf("there is no clause %s to have no case for", key)
		}
	}
}

// TestGuaranteesCountTheCases: the page with the evidence says how many cases there are.
func TestGuaranteesCountTheCases(t *testing.T) {
	const path = "../../docs/guarantees.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("the contract of a driver, %d cases,", len(cases)); !strings.Contains(string(page), want) {
		t.Errorf("%s does not say %q", path, want)
	}
}
