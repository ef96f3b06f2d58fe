package release_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of THIRD_PARTY.md")

// licences has, for each licence in use, words of its text.
var licences = []struct{ name, words string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"BSD-3-Clause", "Neither the name of"},
	{"CC0-1.0", "released into the public domain with CC0 1.0"},
	{"BSD-2-Clause", "Redistributions of source code must retain the above copyright notice"},
}

// TestThirdPartyLicencesAreListed: THIRD_PARTY.md has the licence of each
// module from which the library, the command, an observer, a driver or an
// adapter compiles a package.
func TestThirdPartyLicencesAreListed(t *testing.T) {
	users := map[string][]string{} // by module
	dirs := map[string]string{}
	for i := range 3 * len(parts) {
		part, goos := parts[i/3], []string{"linux", "darwin", "windows"}[i%3]
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", "./...")
		list.Dir = filepath.Join(root, part)
		list.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		name := map[string]string{".": "library", "cmd/baton": "command", "cmd/batonvet": "analyzer"}[part]
		if name == "" {
			name = filepath.Base(part)
		}
		for line := range strings.Lines(string(out)) {
			module, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if ok && !strings.HasPrefix(module, library) && !slices.Contains(users[module], name) {
				users[module] = append(users[module], name)
				dirs[module] = dir
			}
		}
	}
	var table strings.Builder
	table.WriteString("| module | licence | used by |\n|---|---|---|\n")
	for _, module := range slices.Sorted(maps.Keys(users)) {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", module, licence(t, dirs[module]), strings.Join(users[module], ", "))
	}
	path := filepath.Join(root, "THIRD_PARTY.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, old, ok := strings.Cut(string(page), "| module |")
	if !ok {
		t.Fatal("THIRD_PARTY.md has no table")
	}
	if "| module |"+old == table.String() {
		return
	}
	if !*update {
		t.Fatalf("THIRD_PARTY.md differs from what is compiled: cd integration && go test ./release -run Licences -update\nwant\n%s", table.String())
	}
	if err := os.WriteFile(path, []byte(head+table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestArchivesContainLicences: .ci/licences copies the licence of each module
// that THIRD_PARTY.md lists for the command, and Go's.
func TestArchivesContainLicences(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "THIRD_PARTY.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command(filepath.Join(root, ".ci", "licences"), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	modules := []string{"go"}
	for _, m := range regexp.MustCompile("(?m)^\\| `(.+)` \\| .*command").FindAllStringSubmatch(string(page), -1) {
		modules = append(modules, strings.ReplaceAll(m[1], "/", "_"))
	}
	if len(modules) < 10 {
		t.Fatalf("THIRD_PARTY.md lists %q for the command", modules)
	}
	for _, module := range modules {
		if files, _ := filepath.Glob(filepath.Join(dir, module+"-LICEN[SC]E*")); len(files) == 0 {
			t.Errorf("no licence of %s", module)
		}
	}
}

// licence returns the licence of a module by its file.
func licence(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "LICEN[SC]E*"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no file LICENSE: %v", dir, err)
		return "?"
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(strings.ReplaceAll(string(text), ",", "")), " ")
	for _, l := range licences {
		if strings.Contains(words, strings.ReplaceAll(l.words, ",", "")) {
			return l.name
		}
	}
	t.Errorf("the licence in %s is not known", files[0])
	return "?"
}
