package observe_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/observe"
)

const doc = "../../docs/observability.md"

// row returns a metric's row in the documentation. The page has the types by
// suffix, and the labels kind and class, before its tables.
func row(m observe.Metric) string {
	labels := strings.TrimPrefix(strings.TrimPrefix(strings.Join(m.Labels, ", "), "kind, class"), ", ")
	if labels != "" {
		labels = " (" + labels + ")"
	}
	return fmt.Sprintf("| `%s`%s | %s |", m.Name, labels, m.Help)
}

// typeOf returns the type that the page documents for a name.
func typeOf(name string) observe.Type {
	switch {
	case strings.HasSuffix(name, "_total"):
		return observe.Counter
	case strings.HasSuffix(name, "_seconds"), strings.HasSuffix(name, "_ratio"):
		return observe.Histogram
	}
	return observe.Gauge
}

func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("(?m)^\\| `baton_.*$").FindAllString(string(text), -1)
	var exist []string
	for _, m := range observe.Metrics() {
		exist = append(exist, row(m))
		if !slices.Contains(documented, row(m)) {
			t.Errorf("%s lacks the row\n%s", doc, row(m))
		}
		if m.Type != typeOf(m.Name) {
			t.Errorf("%s is a %s; its suffix means %s", m.Name, m.Type, typeOf(m.Name))
		}
	}
	for _, line := range documented {
		if !slices.Contains(exist, line) {
			t.Errorf("%s has a row without a metric:\n%s", doc, line)
		}
	}
}

func TestLogMessagesAreDocumentedAtTheirLevel(t *testing.T) {
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	documented, level := map[string]string{}, ""
	for _, m := range regexp.MustCompile("(?m)^\\| (?:at (\\w+)|`(baton: [^`]*)`) \\|").FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			level = m[1]
		} else {
			documented[m[2]] = level
		}
	}
	line := regexp.MustCompile(`(?:\.(Debug|Info|Warn|Error)\(|[ ,=(])\s*"(baton: [^"%]*[^"% ])"`)
	found := map[string]bool{}
	for _, dir := range []string{"coordinator", "internal/engine", "recipes", "mutex", "rwlock", "semaphore", "election"} {
		err := filepath.WalkDir("../../"+dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			for _, m := range line.FindAllStringSubmatch(string(src), -1) {
				found[m[2]] = true
				if level := documented[m[2]]; level == "" || m[1] != "" && level != m[1] {
					t.Errorf("%s logs %q at %s; documented at %q", path, m[2], m[1], level)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for message := range documented {
		if !found[message] {
			t.Errorf("documented, but not logged: %q", message)
		}
	}
}
