package docs_test

import (
	"errors"
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/internal/pages"
)

// foreign has the commands of other projects: pages may show them, unchecked.
var foreign = []string{
	"cat", "curl", "docker", "echo", "etcdctl", "etcdutl", "exit", "export", "git", "head", "jq", "kill", "kubectl", "promtool", "sh", "sleep",
	"source", "tail", "zkCli.sh",
}

// TestCommandsExist: the make targets, packages and files in commands exist.
// cmd/baton checks the command lines of baton, which it parses.
func TestCommandsExist(t *testing.T) {
	targets := makeTargets(t)
	found := 0
	for _, p := range all(t) {
		for _, c := range p.Commands("make", "go") {
			found++
			if err := exists(c, targets); err != nil {
				t.Errorf("%s: %s: %v", at(p.Path, c.Line), strings.Join(c.Words, " "), err)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d commands were found", found)
	}
}

func TestCommandsThatDoNotExistAreFound(t *testing.T) {
	targets := map[string]bool{"demo": true}
	for line, ok := range map[string]bool{
		"make demo": true, "make demo RUNS=3": true, "make demoo": false, "make -C x demo": false,
		"go run ./examples/quickstart": true, "go run ./examples/gone": false, "go run ./mutex": false,
		"go test ./...": true, "go test ./mutex/...": true, "go test -race -run 'TestX' ./gone": false, "go vet ./...": true,
		"go install github.com/baton-go/baton/cmd/baton@latest": true, "go install github.com/baton-go/baton/cmd/gone@latest": false,
		"go get github.com/baton-go/baton": true, "go frob": false,
		"cd integration && go run ./cmd/demo": true, "go run ./cmd/demo": false, "cd gone && go test .": false,
		"baton anything": true, "etcdctl put a b": true, "rm -rf /": false, "./examples/gone.sh": false, "docs/model/run.sh": true,
	} {
		list := pages.Page{Blocks: []pages.Block{{Lang: "sh", Text: line}}}.Commands()
		if len(list) != 1 {
			t.Fatalf("%s: %v", line, list)
		}
		if err := exists(list[0], targets); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(text), -1) {
		targets[m[1]] = true
	}
	return targets
}

func exists(c pages.Command, targets map[string]bool) error {
	tool, args := c.Words[0], c.Words[1:]
	switch {
	case tool == "make":
		for _, a := range args {
			if !strings.Contains(a, "=") && !targets[a] {
				return fmt.Errorf("no target %q", a)
			}
		}
		return nil
	case tool == "go":
		return goCommand(c.Dir, args)
	case tool == "baton" || slices.Contains(foreign, tool):
		return nil
	case strings.Contains(tool, "/"):
		_, err := os.Stat(filepath.Join(root, c.Dir, tool))
		return err
	}
	return errors.New("neither a command of the project nor a known one")
}

// goCommand checks the packages that a command names, after its flags.
func goCommand(dir string, args []string) error {
	if len(args) == 0 || !slices.Contains([]string{"run", "test", "build", "vet", "install", "get", "doc"}, args[0]) {
		return errors.New("no such go command")
	}
	for _, a := range args[1:] {
		pattern, isOwn := strings.CutPrefix(a, "github.com/baton-go/baton")
		switch isLocal := a == "." || strings.HasPrefix(a, "./"); {
		case isOwn:
			path, _, _ := strings.Cut(pattern, "@")
			if err := packages("./"+path, args[0] == "install"); err != nil {
				return err
			}
		case isLocal:
			if err := packages(filepath.Join(dir, a), args[0] == "run"); err != nil {
				return err
			}
			if args[0] == "run" {
				return nil // the rest is for the program
			}
		}
	}
	return nil
}

// packages checks that a directory exists, also one that ends in "...", and
// that a command is a package main.
func packages(pattern string, command bool) error {
	dir, below := strings.CutSuffix(filepath.Join(root, pattern), "...")
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if below || !command {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		return nil
	}
	p, err := build.ImportDir(dir, 0)
	if err == nil && p.Name != "main" {
		err = fmt.Errorf("package %s is not a command", p.Name)
	}
	return err
}
