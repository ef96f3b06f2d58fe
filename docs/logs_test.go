package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOperationsPageHasWhatIsLogged: what the library logs at Info and above is in docs/operations.md, and what that page shows is logged.
func TestOperationsPageHasWhatIsLogged(t *testing.T) {
	said := regexp.MustCompile(`\.(?:Warn|Info|Error|Log)\((?:ctx, level, )?"(baton: [^"]+)"`)
	var logged []string
	for _, dir := range publicPackages(t) {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range said.FindAllStringSubmatch(string(src), -1) {
				if !strings.HasSuffix(path, "_test.go") {
					logged = append(logged, m[1])
				}
			}
		}
	}
	var shown []string
	for _, p := range all(t) {
		for _, s := range p.Spans {
			if text, isLog := strings.CutPrefix(s.Text, "baton: "); isLog && p.Path == "docs/operations.md" {
				shown = append(shown, "baton: "+strings.TrimSuffix(text, " …"))
			}
		}
	}
	if len(logged) < 8 || len(shown) < 8 {
		t.Fatalf("logged %q, shown %q", logged, shown)
	}
	for _, text := range unmatched(logged, shown, strings.HasPrefix) {
		t.Errorf("not in docs/operations.md: %q", text)
	}
	for _, text := range unmatched(shown, logged, func(s, l string) bool { return strings.HasPrefix(l, s) }) {
		t.Errorf("docs/operations.md shows %q, which nobody logs", text)
	}
}

// unmatched are those of list for which nothing of others matches.
func unmatched(list, others []string, match func(one, other string) bool) []string {
	var rest []string
	for _, one := range list {
		found := false
		for _, other := range others {
			found = found || match(one, other)
		}
		if !found {
			rest = append(rest, one)
		}
	}
	return rest
}
