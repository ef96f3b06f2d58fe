package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"testing"
)

// walk matches a row of the walk in architecture.md: a file, and a method in
// it.
var walk = regexp.MustCompile("(?m)^\\| `([a-z/]+\\.go)` \\| `(\\w+)\\.(\\w+)` \\|")

// mostFiles is the number of files that the walk opens at most.
const mostFiles = 7

func TestTheWalkIsAsLongAsItSays(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := walk.FindAllStringSubmatch(string(text), -1)
	files := map[string]bool{}
	for _, row := range rows {
		if files[row[1]] {
			t.Errorf("the walk returns to %s", row[1])
		}
		files[row[1]] = true
		if !hasMethod(t, "../"+row[1], row[2], row[3]) {
			t.Errorf("%s has no %s.%s", row[1], row[2], row[3])
		}
	}
	if len(files) < 3 || len(files) > mostFiles {
		t.Errorf("the walk has %d files; want 3 to %d", len(files), mostFiles)
	}
}

func TestMethodsThatDoNotExistAreFound(t *testing.T) {
	if hasMethod(t, "../mutex/mutex.go", "Mutex", "Seize") {
		t.Error("Mutex.Seize was found")
	}
}

// hasMethod reports whether a file declares a method of a type.
func hasMethod(t *testing.T, file, typ, method string) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return false
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil || fn.Name.Name != method {
			continue
		}
		recv := fn.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		if name, ok := recv.(*ast.Ident); ok && name.Name == typ {
			return true
		}
	}
	return false
}
