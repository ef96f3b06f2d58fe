package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/internal/pages"
)

func TestDocumentedCommandLinesParse(t *testing.T) {
	list, err := pages.All("../../../..")
	if err != nil || len(list) < 10 {
		t.Fatalf("%d pages, %v", len(list), err)
	}
	for _, p := range list {
		for _, c := range p.Commands("baton") {
			if c.Words[0] != "baton" {
				continue
			}
			if err := parses(c); err != nil {
				t.Errorf("%s:%d: %s: %v", p.Path, c.Line, strings.Join(c.Words, " "), err)
			}
		}
	}
}

func TestExamplesInHelpParse(t *testing.T) {
	a := newApp(Env{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
	for _, cmd := range a.root().Commands() {
		help := pages.Page{Blocks: []pages.Block{{Lang: "sh", Text: cmd.Example}}}
		found := 0
		for _, c := range help.Commands() {
			if c.Words[0] != "baton" {
				continue
			}
			if found++; parses(c) != nil {
				t.Errorf("%s: %s: %v", cmd.Name(), strings.Join(c.Words, " "), parses(c))
			}
		}
		if cmd.Example != "" && found == 0 {
			t.Errorf("%s: no command line in %q", cmd.Name(), cmd.Example)
		}
	}
}

func TestParsesRefusesWrongCommandLines(t *testing.T) {
	for line, ok := range map[string]bool{
		"baton check baton1:x": true, "baton check --url zk://h -v baton1:x": true, "baton --help": true, "baton help check": true,
		"baton check": false, "baton check a b": false, "baton check --nothing a": false, "baton nothing": false,
	} {
		if err := parses(pages.Command{Words: strings.Fields(line)}); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
	for word, ok := range map[string]bool{"check": true, "nothing": false} {
		if err := parses(pages.Command{Words: []string{"baton", word}, Mention: true}); (err == nil) != ok {
			t.Errorf("%s, mentioned: %v", word, err)
		}
	}
}

// parses runs baton's checks of a command line, and nothing else.
func parses(c pages.Command) error {
	a := newApp(Env{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
	root := a.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	args := slices.DeleteFunc(slices.Clone(c.Words[1:]), func(w string) bool { return w == "…" || w == "..." })
	if slices.Equal(args, []string{"--help"}) || slices.Equal(args, []string{"--version"}) {
		return nil
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	switch unknown := cmd == root && cmd.Flags().NArg() > 0; {
	case unknown:
		return fmt.Errorf("no command %q", cmd.Flags().Arg(0))
	case c.Mention:
		return nil
	case !cmd.Runnable():
		return errors.New("a subcommand is missing")
	}
	for _, check := range []func() error{
		func() error { return cmd.ValidateArgs(cmd.Flags().Args()) }, cmd.ValidateRequiredFlags, cmd.ValidateFlagGroups,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}
