package docs_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/baton-go/baton/internal/pages"
)

// word is a phrase that readers had to guess, and the field's term for it.
type word struct {
	phrase  string // a regular expression of whole words; a space is any space
	instead string
}

// words are the phrases that are not used. Words with an honest ordinary use
// (line, turn, mark, tail, pass, lost, look up) appear in phrases only.
var words = []word{
	{`whoever|whomever`, "the noun: the holder, the waiter, the client"},
	{`somebody`, "the noun: the holder, another client; or someone else"},
	{`that one(?:'s|[.,;:)]|\s*$| (?:is|was|has|had|does|did|will|would|could|can|may|might|left|leaves|gave|gives|goes|went|ends?|ended|dies|died|holds|held|and|or|but|nor|too|also|alone|itself|first|from|before|which|who))`, "the noun: the predecessor, the holder, the session"},
	{`what (?:it|he|they) had sent`, "the noun: the requests that it had already sent"},
	{`(?:told|tell|tells|telling) of`, "is notified of, reports"},
	{`(?:hear|hears|heard|hearing) of`, "is notified of, learns of"},
	{`rung`, "notified"},
	{`(?:a|an|another|one|no|last|first|second|each|every) look`, "a read of the queue, a check of the clock"},
	{`(?:look|looks|looked|looking) at (?:the|its|his|that|every|each) (?:line|queue|clock)`, "read the queue, read the clock"},
	{`(?:give|gives|gave|given|giving)(?: (?:it|its|them|their|the|one|all|permits|locks?|leases?|entry|entries)){0,2} back|gives?back|givingback`, "release, return"},
	{`(?:go|goes|went|going) by`, "use, be decided by"},
	{`(?:come|comes|came|coming) with`, "contain, include, be sent with"},
	{`(?:has|have|had|having) (?:\w+ )?to do with`, "concern"},
	{`(?:stand|stands|stood|standing) in`, "be queued, be in"},
	{`(?:first|second|third|next|last|place|wait|waits|waiting|queued|those|everyone|who is) in (?:the |a |its |one )?line`, "in the queue"},
	{`(?:join|joins|joined|joining|leave|leaves|left|leaving) (?:the|a|its|this) line`, "join, leave the queue"},
	{`heels?`, "successor node"},
	{`calm`, "uncontended"},
	{`convoys?`, "batch"},
	{`guests?`, "foreign layout, external client"},
	{`lent|lends?|lending`, "external, pass"},
	{`adopt(?:s|ed|ing|ion)?`, "use, take over"},
	{`borrow(?:s|ed|ing|er)?`, "external, use"},
	{`lookouts?`, "shared queue watch"},
	{`tapes?`, "log, record of the events"},
	{`survey(?:s|ed|ing)?`, "shared queue watch"},
	{`crowd(?:s|ed)?`, "many contenders, shared queue watch"},
	{`pens?`, "write lock"},
	{`bells?`, "callback"},
	{`wardens?`, "watchdog"},
	{`chores?`, "background clean-up"},
	{`farewells?`, "close"},
	{`abandon(?:s|ed|ing|ment)?`, "leave the queue, cancel, give up"},
	{`withdraw(?:s|n|ing|als?)?|withdrew`, "leave the queue, cancel; of rights: revoke"},
	{`discard(?:s|ed|ing)?`, "leave the queue, drop, ignore"},
}

// exception is a use of a word that stays.
type exception struct {
	path   string // the file, or a prefix of its path; "" is every file
	text   string // a regular expression
	reason string
}

var exceptions = []exception{
	{"", `io\.Discard|slog\.DiscardHandler`, "identifiers of the standard library"},
	{"", `[Dd]iscard(?:s|ed|ing)? (?:all |the |its )?(?:repl(?:y|ies)|requests?|output|messages?|bytes|results?|data)`, "of data, not of a contender"},
	{"", `(?:so|such|says?|shows?|know|knows|means?|mean|sure|is) that one \w`, "that is a conjunction here"},
	{"docs/model/", `go: .*`, "names of functions, which are checked where they are declared"},
	{"integration/internal/simulation/", `crowd |crowd%d-%s|calm`, "seeds: another name would make other worlds"},
	{"docs/words", `(?s).*`, "the word list itself and its tests"},
}

// copies are lines of pages that other tests compare with texts in Go files,
// where TestWordsInCode reads them.
var copies = []exception{
	{"docs/mutants.md", `.*`, "written by integration/cmd/mutants"},
	{"docs/track-record.md", `\|.*`, "written by integration/cmd/reproduce"},
	{"README.md", "^`(?:cd|make) .* on .*", "the setting of a measurement, written by integration/bench"},
	{"docs/benchmarks.md", "^`(?:cd|make) .* on .*", "the same"},
}

// finding is a line to change.
type finding struct {
	line      int
	have, how string
}

var patterns = func() []*regexp.Regexp {
	all := make([]*regexp.Regexp, len(words))
	for i, w := range words {
		phrase := strings.ReplaceAll(w.phrase, " ", `\s+`)
		all[i] = regexp.MustCompile(`(?i)\b(?:` + phrase + `)(?:$|[^\w-])`)
	}
	return all
}()

// anyPattern matches wherever one of the patterns does.
var anyPattern = func() *regexp.Regexp {
	var all []string
	for _, p := range patterns {
		all = append(all, p.String())
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}()

// line is one line of a file.
type line struct {
	text   string
	number int
}

// findWords returns the uses of the words in a text. A phrase may span lines.
func findWords(path string, lines []line) []finding {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	if !anyPattern.MatchString(b.String()) {
		return nil
	}
	text := without(path, b.String())
	var all []finding
	for i, p := range patterns {
		for _, at := range p.FindAllStringIndex(text, -1) {
			number := lines[strings.Count(text[:at[0]], "\n")].number
			have := strings.TrimRight(strings.Join(strings.Fields(text[at[0]:at[1]]), " "), ".,;:`()'\"")
			all = append(all, finding{number, fmt.Sprintf("%q", have), "write " + words[i].instead})
		}
	}
	slices.SortStableFunc(all, byLine)
	return all
}

func byLine(a, b finding) int { return cmp.Compare(a.line, b.line) }

// without blanks the exceptions, and keeps the lines.
func without(path, text string) string {
	for _, e := range exceptions {
		if strings.HasPrefix(path, e.path) {
			text = regexp.MustCompile(e.text).ReplaceAllStringFunc(text, func(s string) string {
				return strings.Repeat("\n", strings.Count(s, "\n"))
			})
		}
	}
	return text
}

// isCopy tells whether a line of a page is compared with a Go file elsewhere.
func isCopy(path, line string) bool {
	return slices.ContainsFunc(copies, func(e exception) bool {
		return path == e.path && regexp.MustCompile(e.text).MatchString(line)
	})
}

// mostColumns is the width of prose. A table's row cannot be wrapped, nor can a
// URL.
const mostColumns = 100

func findWide(lines []line) []finding {
	var all []finding
	for _, l := range lines {
		text := strings.TrimSpace(l.text)
		if n := utf8.RuneCountInString(l.text); n > mostColumns && !strings.HasPrefix(text, "|") && !strings.Contains(text, "://") {
			all = append(all, finding{l.number, fmt.Sprintf("%d columns", n), fmt.Sprintf("wrap at %d", mostColumns)})
		}
	}
	return all
}

// TestWordsInDocs: pages, alerts, the dashboard and pictures use the field's
// words, and pages have lines that fit a terminal.
func TestWordsInDocs(t *testing.T) {
	report := func(path string, found []finding) {
		for _, f := range found {
			t.Errorf("%s: %s: %s", at(path, f.line), f.have, f.how)
		}
	}
	for _, p := range all(t) {
		text, err := os.ReadFile(filepath.Join(root, p.Path))
		if err != nil {
			t.Error(err)
		}
		report(p.Path, inPage(p, string(text)))
	}
	for _, pattern := range otherTexts {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Errorf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			path = strings.TrimPrefix(filepath.ToSlash(path), root+"/")
			report(path, findWords(path, numbered(string(text), 1)))
		}
	}
}

// otherTexts are the files, beside pages, that people read.
var otherTexts = []string{
	"docs/observability/*", "docs/pictures/*.svg", "docs/model/*.pml", "docs/model/*.sh", "examples/*/*/*.yaml", "Makefile", ".golangci.yml", ".ci/*",
}

// inPage returns the findings in a page. The lines of its blocks are not
// wrapped, and are searched for words only if they are no copies.
func inPage(p pages.Page, text string) []finding {
	prose := numbered(text, 1)
	for i, l := range prose {
		if isCopy(p.Path, l.text) || strings.HasPrefix(l.text, "<!--") {
			prose[i].text = ""
		}
	}
	for _, b := range p.Blocks {
		for n := range strings.Count(b.Text, "\n") {
			prose[b.Line-1+n].text = ""
		}
	}
	found := append(findWords(p.Path, prose), findWide(prose)...)
	for _, b := range p.Blocks {
		if strings.HasPrefix(b.Note, "help:") {
			continue // a copy, compared in cmd/baton
		}
		found = append(found, findWords(p.Path, numbered(b.Text, b.Line))...)
	}
	return found
}

// numbered splits a text into lines, from the number on.
func numbered(text string, from int) []line {
	var all []line
	for i, t := range strings.Split(text, "\n") {
		all = append(all, line{t, from + i})
	}
	return all
}

// TestWrongWordsAreFound: the check above can fail, and not too easily.
func TestWrongWordsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"Whoever holds the lock waits for that one.":     2,
		"The waiter is told\n  of it and gives it back.": 2,
		"It stands\nin the line, the first in line.":     2,
		"It takes a look at the queue.":                  2,
		"A convoy of guests on a calm tape.":             4,
		"The second name comes with it; it goes by it.":  2,
		"It abandons, withdraws and discards.":           3,
		"It discards replies, writes to io.Discard.":     0,
		"It shows that one is enough, as that one entry": 0,
		"A line of text, a command line, in its turn.":   0,
		"Give the lock to the next; call back; go back.": 0,
		"A look-up of a tail key; look up the mark.":     0,
		"Independent, label, tapestry, open, bellows.":   0,
	} {
		if got := findWords("x.md", numbered(text, 1)); len(got) != want {
			t.Errorf("%q: found %v, want %d", text, got, want)
		}
	}
	wide := strings.Repeat("wide ", 21)
	for text, want := range map[string]int{wide: 1, "| " + wide: 0, "https://go.dev " + wide: 0, "narrow": 0} {
		if got := findWide(numbered(text, 1)); len(got) != want {
			t.Errorf("%q: found %v, want %d", text, got, want)
		}
	}
	got := findWords("x.md", numbered("fine\nfine\nthat\none", 7))
	if len(got) != 1 || got[0].line != 9 {
		t.Errorf("a phrase over two lines: %v, want line 9", got)
	}
	p := pages.Page{Path: "README.md", Blocks: []pages.Block{{Text: "// a guest\n", Line: 4}, {Text: "a guest\n", Line: 8, Note: "help: baton"}}}
	text := "`make bench` on whoever's machine\nWhoever\n```go\n// a guest\n```\n<!-- help: baton -->\n```text\na guest\n```\n"
	if got := inPage(p, text); len(got) != 2 || got[0].line != 2 || got[1].line != 4 {
		t.Errorf("a page with copies: %v", got)
	}
}
