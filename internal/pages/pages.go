// Package pages parses this repository's Markdown, for tests that compare it
// with the code. It knows the Markdown that the pages use: fenced blocks,
// headings, links, code spans, comments.
package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Page is one file.
type Page struct {
	Path    string // from the root, with slashes
	Blocks  []Block
	Links   []Link
	Spans   []Span
	Anchors map[string]bool // targets of links after "#"
}

// Block is a fenced code block.
type Block struct {
	Lang string // after the opening fence; may be empty
	Text string
	Line int // of the first line of Text
	// Note is the HTML comment on the lines directly above, if there is one.
	Note string
}

// The notes of blocks that run.
const (
	// InIntegration marks a test file of the module integration.
	InIntegration = "go: run in integration"
	// Run marks declarations of a test: all such blocks of a page are one
	// package, without its package clause and imports, in this module.
	Run = "go: run"
)

// Link is a link of a page.
type Link struct {
	Target string
	Line   int
}

// Span is a code span.
type Span struct {
	Text string
	Line int
}

// All reads every page below root. It skips directories that Go ignores too,
// and build.
func All(root string) ([]Page, error) {
	var all []Page
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := path != root && strings.HasPrefix(d.Name(), ".")
		if d.IsDir() && (hidden || d.Name() == "testdata" || d.Name() == "build") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".md") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		all = append(all, read(filepath.ToSlash(name), string(text)))
		return err
	})
	return all, err
}

var (
	heading = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	named   = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	span    = regexp.MustCompile("`+([^`]+)`+")
	inline  = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?)(?: "[^"]*")?\)`)
	defined = regexp.MustCompile(`^ {0,3}\[[^\]]+\]: +(\S+)`)
	tagged  = regexp.MustCompile(`(?:href|src|srcset)="([^"]+)"`)
)

// read parses a page line by line.
func read(path, text string) Page {
	p := Page{Path: path, Anchors: map[string]bool{}}
	var open *Block      // the block being read
	var fence string     // that ends the block
	var comment []string // the comment being read, or just before this line
	inComment := false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && trimmed == fence:
			p.Blocks = append(p.Blocks, *open)
			open = nil
		case open != nil:
			open.Text += line + "\n"
		case inComment || strings.HasPrefix(trimmed, "<!--"):
			if !inComment {
				comment = nil
			}
			text := strings.TrimSuffix(strings.TrimPrefix(trimmed, "<!--"), "-->")
			comment = append(comment, text)
			inComment = !strings.HasSuffix(trimmed, "-->")
		case strings.HasPrefix(trimmed, "```"):
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]
			note := strings.TrimSpace(strings.Join(comment, "\n"))
			open = &Block{Lang: strings.TrimLeft(trimmed, "`"), Line: i + 2, Note: note}
			comment = nil
		default:
			comment = nil
			p.line(line, i+1)
		}
	}
	return p
}

// line adds the anchors, spans and links of one line of prose.
func (p *Page) line(line string, n int) {
	if m := heading.FindStringSubmatch(line); m != nil {
		p.anchor(slug(m[1]))
	}
	for _, m := range named.FindAllStringSubmatch(line, -1) {
		p.anchor(m[1])
	}
	for _, m := range span.FindAllStringSubmatch(line, -1) {
		p.Spans = append(p.Spans, Span{m[1], n})
	}
	bare := span.ReplaceAllString(line, "")
	for _, form := range []*regexp.Regexp{inline, defined, tagged} {
		for _, m := range form.FindAllStringSubmatch(bare, -1) {
			p.Links = append(p.Links, Link{m[1], n})
		}
	}
}

// anchor adds an anchor. GitHub numbers the later ones of equal headings.
func (p *Page) anchor(name string) {
	unique := name
	for i := 1; p.Anchors[unique]; i++ {
		unique = name + "-" + strconv.Itoa(i)
	}
	p.Anchors[unique] = true
}

var (
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_\- ]`)
)

// slug returns the anchor that GitHub makes for a heading.
func slug(heading string) string {
	text := strings.ToLower(linked.ReplaceAllString(heading, "$1"))
	return strings.ReplaceAll(dropped.ReplaceAllString(text, ""), " ", "-")
}
