package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Load reads the JSON that WriteDocs has written.
func Load(path string) (*Result, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	return r, json.Unmarshal(b, r)
}

// WriteJSON writes all figures.
func (r *Result) WriteJSON(path string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// WriteDocs writes the figures into the repository at root: as JSON and plots
// into docs/bench, and as tables into docs/benchmarks.md and README.md, between
// their markers.
func (r *Result) WriteDocs(root string) error {
	dir := filepath.Join(root, "docs", "bench")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := r.WriteJSON(filepath.Join(dir, "bench.json")); err != nil {
		return err
	}
	for name, p := range r.pictures() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(p.svg()), 0o644); err != nil {
			return err
		}
	}
	if err := insert(filepath.Join(root, "docs", "benchmarks.md"), r.page()); err != nil {
		return err
	}
	return insert(filepath.Join(root, "README.md"), r.summary())
}

const (
	beginMark = "<!-- bench:begin -->"
	endMark   = "<!-- bench:end -->"
)

// insert replaces the text between the markers of a file.
func insert(path, text string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(b), beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	if !begins || !ends {
		return fmt.Errorf("bench: %s has no %s … %s", path, beginMark, endMark)
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n"+text+endMark+after), 0o644)
}

// summary returns the README's part.
func (r *Result) summary() string {
	return fmt.Sprintf("`make bench` on %s.\n\n%s", r.setting(), r.brief(true).markdown(2))
}

// page returns the measured part of docs/benchmarks.md.
func (r *Result) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`make bench` on %s.\n", r.setting())
	section := func(title string, t table, texts int) {
		if len(t) > 1 {
			fmt.Fprintf(&b, "\n## %s\n\n%s", title, t.markdown(texts))
		}
	}
	section("By case", r.brief(false), 2)
	b.WriteString("\nThe figures of all subjects are in [bench.json](bench/bench.json).\n")
	section("Many waiters on one session", r.waitersTable(), 2)
	return b.String()
}
