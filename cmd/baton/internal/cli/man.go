package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// man is the hidden command that writes a man page for each command. Releases
// contain the pages.
func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the man pages to a directory", Hidden: true, Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.InitDefaultCompletionCmd()
			pages := append([]*cobra.Command{root}, root.Commands()...)
			for _, c := range pages {
				if c.Hidden || c.Name() == "help" {
					continue
				}
				path := filepath.Join(args[0], strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
				if err := os.WriteFile(path, []byte(manPage(c)), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// manPage returns the page of one command, in roff. It has no date, so that
// the same sources give the same page.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"Baton\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(name)), roff(name), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n%s\n.SH DESCRIPTION\n", roff(c.UseLine()))
	verbatim(&b, cmp.Or(c.Long, c.Short))
	if flags := c.NonInheritedFlags(); flags.HasAvailableFlags() {
		b.WriteString(".SH OPTIONS\n")
		verbatim(&b, flags.FlagUsages())
	}
	if c.HasAvailableInheritedFlags() {
		b.WriteString(".SH GLOBAL OPTIONS\n")
		verbatim(&b, c.InheritedFlags().FlagUsages())
	}
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		verbatim(&b, c.Example)
	}
	b.WriteString(".SH SEE ALSO\n")
	if c.HasParent() {
		fmt.Fprintf(&b, "%s(1)\n", roff(c.Parent().Name()))
		return b.String()
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			fmt.Fprintf(&b, "%s(1)\n", roff(name+"-"+sub.Name()))
		}
	}
	return b.String()
}

// verbatim writes a text whose lines and columns stay as they are.
func verbatim(b *strings.Builder, text string) {
	fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(strings.Trim(text, "\n")))
}

// roff escapes what troff would interpret: backslashes, hyphens, characters
// that are not ASCII, and a dot or a quote that starts a line.
func roff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r > unicode.MaxASCII:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
