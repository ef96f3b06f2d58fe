package coordinatortest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"testing"
)

// contract returns the numbers of the clauses in package driver, and the names
// of what it declares.
func contract(t *testing.T) (numbered, declared map[string]bool) {
	t.Helper()
	numbered, declared = map[string]bool{}, map[string]bool{}
	for _, name := range []string{"../driver/driver.go", "../driver/capabilities.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			for _, m := range number.FindAllStringSubmatch(group.Text(), -1) {
				if numbered[m[1]] {
					t.Errorf("%s has clause %s twice", name, m[1])
				}
				numbered[m[1]] = true
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				declared[n.Name.Name] = true
			case *ast.Field:
				for _, name := range n.Names {
					declared[name.Name] = true
				}
			}
			return true
		})
	}
	return numbered, declared
}

var number = regexp.MustCompile(`(?m)^([A-Z][0-9]+): `)

func TestEveryClauseHasACaseOrAReason(t *testing.T) {
	numbered, declared := contract(t)
	if len(numbered) < 50 {
		t.Fatalf("found only %d clauses in package driver: %v", len(numbered), numbered)
	}
	checked, names := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		for _, key := range c.clauses() {
			if !numbered[key] && !declared[key] {
				t.Errorf("case %q: there is no clause %s", c.name, key)
			}
			checked[key] = true
		}
		if names[c.name] {
			t.Errorf("two cases are named %q", c.name)
		}
		names[c.name] = true
	}
	for key := range numbered {
		if checked[key] == (untestable[key] != "") {
			t.Errorf("clause %s: case %t, reason for none %q; want one of the two", key, checked[key], untestable[key])
		}
	}
	for key := range untestable {
		if !numbered[key] {
			t.Errorf("there is no clause %s to have no case for", key)
		}
	}
}
