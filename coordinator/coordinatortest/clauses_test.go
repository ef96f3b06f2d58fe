package coordinatortest

import (
	"os"
	"regexp"
	"testing"
)

// contract returns the numbers of the clauses in package driver, and its
// source.
func contract(t *testing.T) (numbered map[string]bool, source string) {
	t.Helper()
	numbered = map[string]bool{}
	for _, name := range []string{"../driver/driver.go", "../driver/capabilities.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	for _, m := range number.FindAllStringSubmatch(source, -1) {
		if numbered[m[1]] {
			t.Errorf("clause %s exists twice", m[1])
		}
		numbered[m[1]] = true
	}
	return numbered, source
}

var number = regexp.MustCompile(`(?m)^\s*// ([A-Z][0-9]+): `)

func TestEveryClauseHasACaseOrAReason(t *testing.T) {
	numbered, source := contract(t)
	if len(numbered) < 50 {
		t.Fatalf("found only %d clauses in package driver: %v", len(numbered), numbered)
	}
	checked, names := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		for _, key := range c.clauses() {
			if !numbered[key] && !regexp.MustCompile(`(?m)^[^/]*\b`+key+`\b`).MatchString(source) {
				t.Errorf("case %q: no clause %s", c.name, key)
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
			t.Errorf("untestable has an unknown clause %s", key)
		}
	}
}
