// Package model_test ties the models to the source: what they say that they
// model must exist there.
package model_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// A renamed or removed function means that the model of it must be checked
// again.
func TestModelsNameFunctionsThatExist(t *testing.T) {
	exists := functions(t)
	named := regexp.MustCompile(`\bgo: ([\w., ]+?)[;:]? *(\*/|\n)`)
	for _, path := range models(t) {
		found := 0
		for _, m := range named.FindAllStringSubmatch(read(t, path), -1) {
			for name := range strings.SplitSeq(m[1], ", ") {
				if found++; !exists[strings.TrimSuffix(name, ".")] {
					t.Errorf("%s names %s, which does not exist", path, name)
				}
			}
		}
		if found < 5 {
			t.Errorf("%s names only %d functions: it is not read as it should be", path, found)
		}
	}
}

// TestModelsSayWhatEachActionIs: every label stands for something that a
// function does, or the world.
func TestModelsSayWhatEachActionIs(t *testing.T) {
	label := regexp.MustCompile(`^[a-z]\w*:( |$)`)
	for _, path := range models(t) {
		for i, line := range strings.Split(read(t, path), "\n") {
			if label.MatchString(line) && !strings.Contains(line, "/* go: ") && !strings.Contains(line, "/* world: ") {
				t.Errorf("%s:%d: %q does not say whose action it is", path, i+1, line)
			}
		}
	}
}

// A variant that is never run shows nothing.
func TestEveryFlagOfTheModelsIsRun(t *testing.T) {
	runs := read(t, "run.sh")
	documented := regexp.MustCompile(`(?m)^ \*   -D(\w+)`)
	for _, path := range models(t) {
		flags := documented.FindAllStringSubmatch(read(t, path), -1)
		if len(flags) == 0 {
			t.Errorf("%s documents no flags", path)
		}
		model := strings.TrimSuffix(path, ".pml")
		for _, f := range flags {
			if !regexp.MustCompile(` ` + model + ` .*-D` + f[1] + `\b`).MatchString(runs) {
				t.Errorf("%s documents -D%s, and run.sh does not run it", path, f[1])
			}
		}
	}
}

func models(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("*.pml")
	if err != nil || len(paths) != 4 {
		t.Fatalf("models: %v, %v; want 4", paths, err)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// functions are those of the packages that models speak of: "package.Func" and
// "package.Type.Method".
func functions(t *testing.T) map[string]bool {
	t.Helper()
	exists := map[string]bool{}
	for _, dir := range []string{
		"recipes", "semaphore", "internal/engine", "coordinator",
		"coordinator/etcd", "coordinator/etcd/internal/lease", "coordinator/etcd/internal/watch",
		"coordinator/etcd/internal/keys", "coordinator/zookeeper",
		"coordinator/zookeeper/internal/nodes", "coordinator/zookeeper/internal/zkconn",
	} {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no source in %s: %v", dir, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					exists[file.Name.Name+"."+receiver(f)+f.Name.Name] = true
				}
			}
		}
	}
	return exists
}

// receiver is "Type." for a method, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	return of.(*ast.Ident).Name + "."
}
