package docs_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinksLeadSomewhere: linked files and anchors exist. Of web addresses it
// checks the form only.
func TestLinksLeadSomewhere(t *testing.T) {
	list := all(t)
	anchors := map[string]map[string]bool{}
	for _, p := range list {
		anchors[p.Path] = p.Anchors
	}
	found := 0
	for _, p := range list {
		for _, l := range p.Links {
			if found++; dead(p.Path, l.Target, anchors) {
				t.Errorf("%s: %s leads nowhere", at(p.Path, l.Line), l.Target)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d links were found", found)
	}
}

func dead(page, target string, anchors map[string]map[string]bool) bool {
	u, err := url.Parse(target)
	if err != nil {
		return true
	}
	if u.Scheme != "" || u.Host != "" {
		host := u.Hostname()
		return u.Scheme != "https" || !strings.Contains(host, ".") || strings.HasSuffix(host, ".")
	}
	file := page
	if u.Path != "" {
		file = path.Join(path.Dir(page), u.Path)
	}
	if strings.HasPrefix(file, "../") || strings.HasPrefix(u.Path, "/") {
		return true
	}
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return true
	}
	return u.Fragment != "" && (info.IsDir() || !anchors[file][u.Fragment])
}

func TestDeadLinksAreFound(t *testing.T) {
	anchors := map[string]map[string]bool{"README.md": {"here": true}, "docs/fencing.md": {"there": true}}
	for target, want := range map[string]bool{
		"../README.md": false, "../README.md#here": false, "../README.md#gone": true, "#there": false, "#gone": true, "fencing.md": false,
		"gone.md": true, "../docs": false, "../../elsewhere": true, "/README.md": true, "https://go.dev/x": false, "http://go.dev": true,
		"https://": true, "https://localhost/": true, "https://a b/": true, "htps://go.dev": true,
	} {
		if dead("docs/fencing.md", target, anchors) != want {
			t.Errorf("%s: dead %v, want %v", target, !want, want)
		}
	}
}

// TestJSONParses: JSON in blocks, and in files below docs and examples, parses.
// (A test in integration/, which has a parser of YAML, parses that.)
func TestJSONParses(t *testing.T) {
	for _, p := range all(t) {
		for _, b := range p.Blocks {
			if err := parse(b.Text); b.Lang == "json" && err != nil {
				t.Errorf("%s: %v", at(p.Path, b.Line), err)
			}
		}
	}
	for _, dir := range []string{"docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".json") {
				return err
			}
			text, err := os.ReadFile(path)
			if wrong := parse(string(text)); wrong != nil {
				t.Errorf("%s: %v", path, wrong)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if parse("{}\n{}\n") != nil || parse("{,}") == nil || parse(`{"a": 1`) == nil {
		t.Error("valid and invalid JSON are not distinguished")
	}
}

// parse reads all JSON values of a text.
func parse(text string) error {
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
