package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// count returns the number of tests, examples and fuzz targets in the steps,
// from the sources, so that nothing has to be compiled for it.
func count(root string, steps []step) (total int, err error) {
	for _, s := range steps {
		names, err := testsOf(root, s)
		if err != nil {
			return 0, fmt.Errorf("counting the tests of %s: %w", s.name, err)
		}
		total += len(names)
	}
	return total, nil
}

// testsOf returns the names of the tests that the step runs.
func testsOf(root string, s step) (names []string, err error) {
	run, skip, err := s.filters()
	if err != nil {
		return nil, err
	}
	packages := s.listed
	if packages == nil {
		if packages, err = listPackages(filepath.Join(root, s.dir), s.packages); err != nil {
			return nil, err
		}
	}
	for _, p := range packages {
		all, err := testsIn(p)
		if err != nil {
			return nil, err
		}
		for _, name := range all {
			if run.MatchString(name) && (skip == nil || !skip.MatchString(name)) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// goPackage is what go list prints about the tests of a package.
type goPackage struct {
	Dir, ImportPath           string
	TestGoFiles, XTestGoFiles []string
}

func listPackages(dir string, patterns []string) (packages []goPackage, err error) {
	cmd := exec.Command("go", append([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles"}, patterns...)...)
	cmd.Dir = dir
	printed, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, err
	}
	for d := json.NewDecoder(strings.NewReader(string(printed))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

func testsIn(p goPackage) (names []string, err error) {
	for _, list := range [][]string{p.TestGoFiles, p.XTestGoFiles} {
		for _, file := range list {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && (isTest(f, "Test") || isTest(f, "Fuzz")) {
					names = append(names, f.Name.Name)
				}
			}
			for _, e := range doc.Examples(parsed) {
				if e.Output != "" || e.EmptyOutput {
					names = append(names, "Example"+e.Name)
				}
			}
		}
	}
	return names, nil
}

// isTest follows the go command: TestX and Test_x are tests, Testx and TestMain
// are none. TestMain(*testing.T) would be one; nobody writes it.
func isTest(f *ast.FuncDecl, prefix string) bool {
	rest, ok := strings.CutPrefix(f.Name.Name, prefix)
	if !ok || f.Name.Name == "TestMain" || len(f.Type.Params.List) != 1 {
		return false
	}
	first, _ := utf8.DecodeRuneInString(rest)
	return rest == "" || !unicode.IsLower(first)
}

// filters returns the step's -run and -skip as expressions; skip is nil if it
// has none.
func (s step) filters() (run, skip *regexp.Regexp, err error) {
	if run, err = regexp.Compile(s.run); err != nil || s.skip == "" {
		return run, nil, err
	}
	skip, err = regexp.Compile(s.skip)
	return run, skip, err
}
