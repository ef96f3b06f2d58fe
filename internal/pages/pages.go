// Package pages reads this repository's Markdown, for the tests that hold it to
// the code.
//
// It knows as much of Markdown as the pages use: fenced blocks, headings,
// links, spans of code, comments.
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
	Path   string // from the root, with slashes
	Blocks []Block
	Links  []Link
	Spans  []Span
	// Anchors are what a link can name after "#".
	Anchors map[string]bool
}

// Block is what stands between two lines of backquotes.
type Block struct {
	Lang string // what the first of them says; often nothing
	Text string
	Line int // of the first line of Text
	// Note is the HTML comment on the lines directly above, if there is one.
	Note string
}

// InIntegration is the note of a block that needs what only the module
// integration/ has: it is a file of tests, and is run there.
const InIntegration = "go: run in integration"

// Link is a target that a page names.
type Link struct {
	Target string
	Line   int
}

// Span is `code` within a line.
type Span struct {
	Text string
	Line int
}

// All reads every page below root, but for those in directories that Go does
// not look at either.
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

// read takes a page apart, line by line.
func read(path, text string) Page {
	p := Page{Path: path, Anchors: map[string]bool{}}
	var open *Block      // the block that is being read
	var fence string     // what ends it
	var comment []string // the comment that has just ended, or is being read
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

// line notes what one line of prose has.
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

// anchor notes an anchor; of several headings with one text GitHub numbers the
// later ones.
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

// slug is the anchor that GitHub gives a heading.
func slug(heading string) string {
	text := strings.ToLower(linked.ReplaceAllString(heading, "$1"))
	return strings.ReplaceAll(dropped.ReplaceAllString(text, ""), " ", "-")
}
