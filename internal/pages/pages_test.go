package pages

import (
	"reflect"
	"testing"
)

func TestReadParsesAPage(t *testing.T) {
	const text = "# Of `this` & [that](x.md)\n" + // 1
		"See [a](b.md#c), ![p](pictures/d.svg \"title\") and `[no](link)`.\n" + // 2
		"## Again\n## Again\n" +
		"<!-- go: var a int\nvar b int -->\n" + // 5, 6
		"```go\n# no heading, [no](link)\n```\n" + // 7 to 9
		"\n```\nplain\n```\n" +
		"<!-- not directly above -->\n\n```sh\nls\n```\n" +
		"[ref]: https://example.org/x\n" + // 19
		`<img src="e.svg"> <a id="here"></a>` + "\n"
	got := read("docs/x.md", text)
	want := Page{
		Path: "docs/x.md",
		Blocks: []Block{
			{Lang: "go", Text: "# no heading, [no](link)\n", Line: 8, Note: "go: var a int\nvar b int"},
			{Text: "plain\n", Line: 12},
			{Lang: "sh", Text: "ls\n", Line: 17},
		},
		Links: []Link{
			{"x.md", 1},
			{"b.md#c", 2}, {"pictures/d.svg", 2}, {"https://example.org/x", 19}, {"e.svg", 20},
		},
		Spans:   []Span{{"this", 1}, {"[no](link)", 2}},
		Anchors: map[string]bool{"of-this--that": true, "again": true, "again-1": true, "here": true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("have %+v\nwant %+v", got, want)
	}
}

func TestCommandsOfAPage(t *testing.T) {
	p := read("x.md", "Use `make a` or `ls -l`, in `cd sub && go test ./b`.\n"+
		"```sh\n# only a comment\nA=1 B='x y' baton lock \"a b\" -- sh -c 'x; y' 2> log  # and this\n"+
		"cd sub && make \\\n  b | tail -1; echo \"# no comment\" >out\n```\n"+
		"```go\nmake c\n```\n")
	got := p.Commands("make", "go")
	want := []Command{
		{Words: []string{"baton", "lock", "a b", "--", "sh", "-c", "x; y"}, Line: 4},
		{Words: []string{"make", "b"}, Dir: "sub", Line: 5},
		{Words: []string{"tail", "-1"}, Dir: "sub", Line: 6},
		{Words: []string{"echo", "# no comment"}, Dir: "sub", Line: 6},
		{Words: []string{"make", "a"}, Line: 1, Mention: true},
		{Words: []string{"go", "test", "./b"}, Dir: "sub", Line: 1, Mention: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("have %+v\nwant %+v", got, want)
	}
}
