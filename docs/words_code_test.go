package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestWordsInCode: comments, texts and identifiers of all modules use the
// field's words, and comments are at most 80 columns wide.
func TestWordsInCode(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "build") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		found, err := inCode(filepath.ToSlash(name), string(src))
		for _, f := range found {
			t.Errorf("%s: %s: %s", at(filepath.ToSlash(name), f.line), f.have, f.how)
		}
		return err
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files, %v", files, err)
	}
}

// inCode returns the findings in one file, in order.
func inCode(path, src string) ([]finding, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := findWords(path, []line{{strings.ReplaceAll(filepath.Base(path), "_", " "), 1}})
	at := func(p token.Pos) int { return fset.Position(p).Line }
	for _, group := range f.Comments {
		var lines []line
		for _, c := range group.List {
			for _, l := range numbered(c.Text, at(c.Pos())) {
				l.text = strings.TrimPrefix(l.text, "//")
				lines = append(lines, l)
			}
		}
		found = append(found, findWords(path, lines)...)
		found = append(found, wideComments(strings.Split(src, "\n"), lines)...)
	}
	for _, text := range texts(f, at) {
		found = append(found, findWords(path, text)...)
	}
	for _, id := range declared(f) {
		found = append(found, findWords(path, []line{{split(id.Name), at(id.Pos())}})...)
	}
	slices.SortStableFunc(found, byLine)
	return found, nil
}

// texts returns the string literals of a file. A sum of literals is one text.
func texts(f *ast.File, at func(token.Pos) int) [][]line {
	var all [][]line
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			all = append(all, literal(n, at))
		case *ast.BinaryExpr:
			if sum := literals(n, at); sum != nil {
				all = append(all, sum)
				return false
			}
		}
		return true
	})
	return all
}

// literals returns the text of a sum that has nothing but string literals.
func literals(e ast.Expr, at func(token.Pos) int) []line {
	switch e := e.(type) {
	case *ast.BasicLit:
		return literal(e, at)
	case *ast.BinaryExpr:
		x, y := literals(e.X, at), literals(e.Y, at)
		if e.Op == token.ADD && x != nil && y != nil {
			return append(x, y...)
		}
	}
	return nil
}

func literal(l *ast.BasicLit, at func(token.Pos) int) []line {
	text, err := strconv.Unquote(l.Value)
	if err != nil || l.Kind != token.STRING {
		return nil
	}
	lines := numbered(text, at(l.Pos()))
	if l.Value[0] != '`' {
		for i := range lines {
			lines[i].number = at(l.Pos())
		}
	}
	return lines
}

// declared returns the names that a file declares. Names that it only uses are
// reported where they are declared, or are those of other projects.
func declared(f *ast.File) []*ast.Ident {
	all := []*ast.Ident{f.Name}
	exprs := func(list ...ast.Expr) {
		for _, e := range list {
			if id, ok := e.(*ast.Ident); ok {
				all = append(all, id)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			all = append(all, n.Name)
		case *ast.TypeSpec:
			all = append(all, n.Name)
		case *ast.ValueSpec:
			all = append(all, n.Names...)
		case *ast.Field:
			all = append(all, n.Names...)
		case *ast.LabeledStmt:
			all = append(all, n.Label)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				exprs(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				exprs(n.Key, n.Value)
			}
		}
		return true
	})
	return all
}

// split returns the words of an identifier: "noLastLook" is "no Last Look".
func split(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		if r == '_' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// mostCommentColumns is the width of comments that fill their lines. A tab
// counts as four.
const mostCommentColumns = 80

var (
	unwrapped = regexp.MustCompile(`://|^ \[[^\]]+\]: `)
	output    = regexp.MustCompile(`^ *(?:Unordered )?Output:`)
	listItem  = regexp.MustCompile(`^ +(?:-|\*|\d+\.) `)
)

// wideComments returns the lines of a comment that are too wide. Tables,
// diagrams and code (which are indented), directives, URLs and the output of an
// example are not wrapped.
func wideComments(src []string, comment []line) []finding {
	var all []finding
	inList := false
	for _, l := range comment {
		if output.MatchString(l.text) {
			break
		}
		isItem := listItem.MatchString(l.text)
		inList = isItem || inList && strings.HasPrefix(l.text, "  ")
		indented := strings.HasPrefix(l.text, "\t") || strings.HasPrefix(l.text, "  ") && !inList
		directive := l.text != "" && l.text[0] != ' ' && l.text[0] != '\t' && !strings.HasPrefix(l.text, "/*")
		table := strings.HasPrefix(l.text, " |")
		text := src[l.number-1]
		whole := strings.HasPrefix(strings.TrimSpace(text), "//")
		n := utf8.RuneCountInString(strings.ReplaceAll(text, "\t", "    "))
		if n > mostCommentColumns && whole && !indented && !directive && !table && !unwrapped.MatchString(l.text) {
			all = append(all, finding{l.number, fmt.Sprintf("%d columns", n), fmt.Sprintf("wrap the comment at %d", mostCommentColumns)})
		}
	}
	return all
}

// TestWrongWordsInCodeAreFound: the check above can fail.
func TestWrongWordsInCodeAreFound(t *testing.T) {
	wide := strings.Repeat("wide ", 17)
	src := "// Package x has a guest.\npackage x\n\n" + // 1
		"// " + wide + "\n// https://go.dev " + wide + "\n//\t" + wide + "\n//\n//   - " + wide + "\n" + // 4, 8
		"const heel = \"gives \" +\n\t\"back \" + `that\none`\n\n" + // 9, 9, 10
		"func needsNoLook(calm int) {\n\tfor _, lastLook := range pens {\n\t}\n\tx := 1 // " + wide + "\n" + // 13, 13, 14
		"\tx = guest\n}\n\n//nolint:x // " + wide + "\n\n" +
		"// Output:\n// " + wide + "\n"
	found, err := inCode("x.go", src)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, f := range found {
		lines = append(lines, f.line)
	}
	if want := []int{1, 4, 8, 9, 9, 10, 13, 13, 14}; !slices.Equal(lines, want) {
		t.Errorf("found on lines %v, want %v:\n%v", lines, want, found)
	}
	if found, _ := inCode("a_look.go", "package x\n"); len(found) != 1 {
		t.Errorf("in a file's name: %v", found)
	}
	for name, want := range map[string]string{"TestNoHTTPLook": "Test No HTTP Look", "a": "a", "x2Y": "x2 Y", "TestX_giveBack": "Test X give Back", "URLs": "UR Ls"} {
		if got := strings.Join(strings.Fields(split(name)), " "); got != want {
			t.Errorf("split(%q) is %q, want %q", name, got, want)
		}
	}
}
