package pages

import (
	"regexp"
	"slices"
	"strings"
)

// Command is one command that a page shows.
type Command struct {
	Words []string // without quotes, redirections and what is set before it
	Dir   string   // that the block has changed to, "" at first
	Line  int
	// Mention: it is a part of a sentence, where arguments may be left out.
	Mention bool
}

// Commands are those in blocks of sh, and those spans of code that begin with
// one of the tools and a space.
func (p Page) Commands(tools ...string) []Command {
	var all []Command
	for _, b := range p.Blocks {
		if b.Lang == "sh" {
			all = append(all, commands(b.Text, b.Line)...)
		}
	}
	for _, s := range p.Spans {
		tool, _, more := strings.Cut(s.Text, " ")
		if !more || !slices.Contains(tools, tool) && tool != "cd" {
			continue
		}
		for _, c := range commands(s.Text, s.Line) {
			c.Mention = true
			all = append(all, c)
		}
	}
	return all
}

var (
	// token is the end of a line, an operator, a redirection, or a word.
	token      = regexp.MustCompile(`\\\n|\n|;|#.*|[0-9]*[<>]+ *\S*|(?:'[^']*'|"[^"]*"|[^\s;'"])+`)
	ends       = regexp.MustCompile(`^(?:\n|&&|\|\||[;|&])$`)
	skipped    = regexp.MustCompile(`^(?:\\\n|#|[0-9]*[<>])`)
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	quoted     = regexp.MustCompile(`'([^']*)'|"([^"]*)"`)
)

// commands takes a script apart, and follows it where it changes to. Of the
// shell's grammar it knows what the pages use.
func commands(script string, line int) []Command {
	var all []Command
	script += "\n"
	now, dir := Command{}, ""
	for _, at := range token.FindAllStringIndex(script, -1) {
		switch word := script[at[0]:at[1]]; {
		case skipped.MatchString(word), len(now.Words) == 0 && assignment.MatchString(word):
		case !ends.MatchString(word):
			if len(now.Words) == 0 {
				now.Dir, now.Line = dir, line+strings.Count(script[:at[0]], "\n")
			}
			now.Words = append(now.Words, quoted.ReplaceAllString(word, "$1$2"))
		case len(now.Words) == 2 && now.Words[0] == "cd":
			dir, now = now.Words[1], Command{}
		case len(now.Words) > 0:
			all, now = append(all, now), Command{}
		}
	}
	return all
}
