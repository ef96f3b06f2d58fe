package pages

import (
	"regexp"
	"slices"
	"strings"
)

// Command is a shell command in a page.
type Command struct {
	Words []string // without quotes, redirections and assignments
	Dir   string   // argument of an earlier cd in the block, or ""
	Line  int
	// Mention is true in a sentence, where arguments may be omitted.
	Mention bool
}

// Commands returns the commands in sh blocks, and the code spans that begin
// with one of the tools and a space.
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
	// token is a newline, a comment, an operator, a redirection, or a word.
	token      = regexp.MustCompile(`\\\n|\n|;|#.*|[0-9]*[<>]+ *\S*|(?:'[^']*'|"[^"]*"|[^\s;'"])+`)
	ends       = regexp.MustCompile(`^(?:\n|&&|\|\||[;|&])$`)
	skipped    = regexp.MustCompile(`^(?:\\\n|#|[0-9]*[<>])`)
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	quoted     = regexp.MustCompile(`'([^']*)'|"([^"]*)"`)
)

// commands parses a script, and follows cd. It knows the part of the shell's
// grammar that the pages use.
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
