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
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	operator   = regexp.MustCompile(`^(?:&&|\|\||[;|&])$`)
	redirect   = regexp.MustCompile(`^[0-9]*(?:>>?|<)(.*)$`)
)

// commands takes a script apart: lines, operators, words. Of the shell's
// grammar it knows what the pages use.
func commands(script string, line int) []Command {
	var all []Command
	dir, joined, first := "", "", line
	for i, text := range strings.Split(script, "\n") {
		if joined == "" {
			first = line + i
		}
		if more, found := strings.CutSuffix(strings.TrimRight(text, " "), `\`); found {
			joined += more + " "
			continue
		}
		all = append(all, split(words(joined+text), &dir, first)...)
		joined = ""
	}
	return all
}

// split makes commands of the words of one line, and follows them where they change to.
func split(words []string, dir *string, line int) []Command {
	var all []Command
	var now []string
	end := func() {
		if len(now) == 2 && now[0] == "cd" {
			*dir = now[1]
		} else if len(now) > 0 {
			all = append(all, Command{Words: now, Dir: *dir, Line: line})
		}
		now = nil
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		to := redirect.FindStringSubmatch(w)
		switch {
		case operator.MatchString(w):
			end()
		case to != nil && to[1] == "":
			i++ // the file is the next word
		case to != nil, len(now) == 0 && assignment.MatchString(w):
		default:
			now = append(now, w)
		}
	}
	end()
	return all
}

// words splits a line at blanks and operators outside of quotes, and stops at a comment.
func words(line string) []string {
	var all []string
	var word strings.Builder
	var quote rune
	begun := false
	end := func() {
		if begun {
			all = append(all, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '#' && !begun:
			return all
		case r == ' ' || r == '\t':
			end()
		case r == ';':
			end()
			all = append(all, ";")
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return all
}
