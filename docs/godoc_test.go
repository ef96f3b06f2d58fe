package docs_test

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// withoutExample has the packages without an example, and the reason.
var withoutExample = map[string]string{
	"coordinator/coordinatortest": "it needs a *testing.T, which an example does not have",
}

// TestPackagesAreDocumented: links in the comments of the library lead
// somewhere, and each package that users import has an example.
func TestPackagesAreDocumented(t *testing.T) {
	c := newChecker(t)
	for path, dir := range publicPackages(t) {
		name := strings.TrimPrefix(path, "github.com/baton-go/baton/")
		if !hasExample(t, dir) && withoutExample[name] == "" {
			t.Errorf("%s: no example", name)
		}
		for _, text := range deadDocLinks(t, c, path, dir) {
			t.Errorf("%s: %s leads nowhere", name, text)
		}
	}
}

// publicPackages returns the packages that others can import, with their
// directories.
func publicPackages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range modules {
		list := exec.Command("go", "list", "-f", "{{.Name}}\t{{.ImportPath}}\t{{.Dir}}", "./...")
		list.Dir = dir
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) == 3 && f[0] != "main" && f[0] != "" && !strings.Contains(f[1], "/internal/") && !strings.Contains(f[1], "/docs") && !strings.Contains(f[1], "/examples/") {
				all[f[1]] = f[2]
			}
		}
	}
	if len(all) < 14 {
		t.Fatalf("only %d packages: %v", len(all), all)
	}
	return all
}

func hasExample(t *testing.T, dir string) bool {
	t.Helper()
	for _, f := range parseDir(t, token.NewFileSet(), dir, true) {
		if len(doc.Examples(f)) > 0 {
			return true
		}
	}
	return false
}

func parseDir(t *testing.T, fset *token.FileSet, dir string, tests bool) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") != tests {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// bracketed matches text that looks like a link to an identifier, in the parts
// that the parser did not recognize as a link.
var bracketed = regexp.MustCompile(`\[\*?[A-Za-z_][\w./]*\]`)

func deadDocLinks(t *testing.T, c *checker, path, dir string) []string {
	t.Helper()
	fset := token.NewFileSet()
	pkg, err := doc.NewFromFiles(fset, parseDir(t, fset, dir, false), path)
	if err != nil {
		t.Fatal(err)
	}
	var dead []string
	look := func(texts []comment.Text) {
		for _, text := range texts {
			switch text := text.(type) {
			case comment.Plain:
				dead = append(dead, bracketed.FindAllString(string(text), -1)...)
			case *comment.DocLink:
				if text.ImportPath != "" && !c.has(text) {
					dead = append(dead, text.DefaultURL(""))
				}
			}
		}
	}
	for _, text := range comments(pkg) {
		for _, block := range pkg.Parser().Parse(text).Content {
			switch block := block.(type) {
			case *comment.Paragraph:
				look(block.Text)
			case *comment.List:
				for _, item := range block.Items {
					for _, b := range item.Content {
						if p, ok := b.(*comment.Paragraph); ok {
							look(p.Text)
						}
					}
				}
			}
		}
	}
	return dead
}

// has reports whether the symbol of a link exists.
func (c *checker) has(l *comment.DocLink) bool {
	if c.exports[l.ImportPath] == "" {
		return false
	}
	pkg, err := c.types.Import(l.ImportPath)
	if err != nil || l.Name == "" {
		return err == nil
	}
	if l.Recv == "" {
		return pkg.Scope().Lookup(l.Name) != nil
	}
	recv := pkg.Scope().Lookup(strings.TrimPrefix(l.Recv, "*"))
	if recv == nil {
		return false
	}
	member, _, _ := types.LookupFieldOrMethod(recv.Type(), true, pkg, l.Name)
	return member != nil
}

// comments returns all comments that go doc shows of a package.
func comments(p *doc.Package) []string {
	all := []string{p.Doc}
	values := func(list []*doc.Value) {
		for _, v := range list {
			all = append(all, v.Doc)
		}
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			all = append(all, f.Doc)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, typ := range p.Types {
		all = append(all, typ.Doc)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
		for _, spec := range typ.Decl.Specs {
			all = append(all, members(spec)...)
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// members returns the comments of a type's fields or methods.
func members(spec ast.Spec) []string {
	var all []string
	ast.Inspect(spec, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && f.Doc != nil {
			all = append(all, f.Doc.Text())
		}
		return true
	})
	return all
}
