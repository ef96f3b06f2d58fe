package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// switchPath is a package that exists in the overlay only. Its On is the name
// of the mutation that a process runs.
const switchPath = "github.com/baton-go/baton/internal/mutation"

const switchCode = "package mutation\n\nimport \"os\"\n\n// On is the mutation.\nvar On = os.Getenv(\"" + switchEnv + "\")\n"

const switchEnv = "BATON_MUTATION"

// copies returns the source of a file with a copy of each function for each
// mutation of it. In place of the function is one that calls the copy of the
// mutation that is on, or that of the unchanged code:
//
//	func (s *Session) Err() error {
//		switch mutation.On {
//		case "no-check":
//			return s.Err__1()
//		}
//		return s.Err__0()
//	}
//
// So one test binary, compiled and linked once, has all mutations of a package.
// rest are the mutations that change anything but the body of one function:
// each needs a compilation of its own.
func copies(src []byte, all []mutation) (changed []byte, rest []mutation, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	at := func(p token.Pos) int { return files.Position(p).Offset }
	of := map[*ast.FuncDecl][]mutation{}
	for _, m := range all {
		i := bytes.Index(src, []byte(m.old))
		within := slices.IndexFunc(file.Decls, func(d ast.Decl) bool {
			fn, ok := d.(*ast.FuncDecl)
			return ok && fn.Body != nil && at(fn.Body.Lbrace) < i && i+len(m.old) <= at(fn.Body.Rbrace)
		})
		if within < 0 {
			rest = append(rest, m)
			continue
		}
		fn := file.Decls[within].(*ast.FuncDecl)
		of[fn] = append(of[fn], m)
	}
	if len(of) == 0 {
		return src, rest, nil
	}
	var b bytes.Buffer
	head := at(file.Name.End())
	fmt.Fprintf(&b, "%s\n\nimport mutation__ %q\n", src[:head], switchPath)
	done := head
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || of[fn] == nil {
			continue
		}
		from, to := at(fn.Type.Func), at(fn.End())
		b.Write(src[done:from])
		text := func(n ast.Node) string { return string(src[at(n.Pos()):at(n.End())]) }
		b.WriteString(dispatcher(fn, of[fn], text))
		name := at(fn.Name.End())
		for i, body := range append([]string{string(src[name:to])}, bodies(src, name, to, of[fn])...) {
			fmt.Fprintf(&b, "\n\n%s__%d%s", src[from:name], i, body)
		}
		done = to
	}
	b.Write(src[done:])
	return b.Bytes(), rest, nil
}

// bodies returns what follows the name of a function with each mutation.
func bodies(src []byte, from, to int, all []mutation) (texts []string) {
	for _, m := range all {
		texts = append(texts, strings.Replace(string(src[from:to]), m.old, m.new, 1))
	}
	return texts
}

// dispatcher returns the function that calls one of the copies.
func dispatcher(fn *ast.FuncDecl, all []mutation, text func(ast.Node) string) string {
	var params, args []string
	for _, p := range fn.Type.Params.List {
		for range max(1, len(p.Names)) {
			arg := fmt.Sprintf("p%d", len(args))
			params = append(params, arg+" "+text(p.Type))
			if _, variadic := p.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	receiver, callee := "", fn.Name.Name
	if fn.Recv != nil {
		receiver, callee = "(r "+text(fn.Recv.List[0].Type)+") ", "r."+callee
	}
	typeParams, typeArgs := typesOf(fn, text)
	results, leave := "", ""
	if fn.Type.Results != nil {
		results, leave = resultsOf(fn, text), "return "
	}
	var b strings.Builder
	fmt.Fprintf(&b, "func %s%s%s(%s)%s {\n\tswitch mutation__.On {\n",
		receiver, fn.Name.Name, typeParams, strings.Join(params, ", "), results)
	call := func(n int) string {
		return fmt.Sprintf("%s%s__%d%s(%s)", leave, callee, n, typeArgs, strings.Join(args, ", "))
	}
	for i, m := range all {
		fmt.Fprintf(&b, "\tcase %q:\n\t\t%s\n", m.name, call(i+1))
		if leave == "" {
			b.WriteString("\t\treturn\n")
		}
	}
	fmt.Fprintf(&b, "\t}\n\t%s\n}", call(0))
	return b.String()
}

// typesOf returns the type parameters of a function, and the same as arguments.
func typesOf(fn *ast.FuncDecl, text func(ast.Node) string) (params, args string) {
	if fn.Type.TypeParams == nil {
		return "", ""
	}
	var names []string
	for _, f := range fn.Type.TypeParams.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return text(fn.Type.TypeParams), "[" + strings.Join(names, ", ") + "]"
}

// resultsOf returns the types of a function's results.
func resultsOf(fn *ast.FuncDecl, text func(ast.Node) string) string {
	var types []string
	for _, r := range fn.Type.Results.List {
		for range max(1, len(r.Names)) {
			types = append(types, text(r.Type))
		}
	}
	return " (" + strings.Join(types, ", ") + ")"
}
