// Package release_test checks what a release consists of, apart from the code:
// workflows, tags, the comparison of the API, dependencies, licences. It needs
// git, and a module proxy for tools that are not in the module cache.
package release_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository's.
const root = "../.."

// tree is a copy of the working tree in a git repository of its own, so that a
// test can commit and tag.
type tree struct {
	t   *testing.T
	dir string
}

func copyOfTree(t *testing.T) tree {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "baton")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if name == ".git" || name == "build" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // the .git of a worktree
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(dir, name), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), text, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	tr := tree{t, dir}
	tr.must("git", "init", "-q", "-b", "main")
	tr.must("git", "config", "user.name", "A Maintainer")
	tr.must("git", "config", "user.email", "maintainer@example.com")
	tr.commit()
	return tr
}

// run runs a command in the tree and returns what it prints.
func (tr tree) run(name string, args ...string) (string, error) {
	tr.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = tr.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (tr tree) must(name string, args ...string) string {
	tr.t.Helper()
	out, err := tr.run(name, args...)
	if err != nil {
		tr.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

func (tr tree) commit() {
	tr.t.Helper()
	tr.must("git", "add", "-A")
	tr.must("git", "commit", "-q", "-m", "a commit")
}

// replace replaces text in a file, which must have it.
func (tr tree) replace(file, from, to string) {
	tr.t.Helper()
	path := filepath.Join(tr.dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		tr.t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		tr.t.Fatalf("%s does not contain %q", file, from)
	}
	tr.write(file, strings.Replace(string(text), from, to, 1))
}

func (tr tree) write(file, text string) {
	tr.t.Helper()
	if err := os.WriteFile(filepath.Join(tr.dir, file), []byte(text), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

// changelog writes a changelog of these sections.
func (tr tree) changelog(sections string) {
	tr.t.Helper()
	tr.write("CHANGELOG.md", "# Changelog\n\n"+sections)
}
