package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is a flag that has one of a few values.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }

func (c *choice) Set(value string) error {
	if !slices.Contains(c.of, value) {
		return fmt.Errorf("want one of %s", strings.Join(c.of, ", "))
	}
	c.value = value
	return nil
}

// addChoice gives a command such a flag, and its shell completion. short may be empty.
func addChoice(cmd *cobra.Command, c *choice, name, short, help string) {
	cmd.Flags().VarP(c, name, short, help)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.of, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// addOutput gives a command the flag that chooses between people and machines.
func addOutput(cmd *cobra.Command) *choice {
	c := &choice{"text", []string{"text", "json"}}
	addChoice(cmd, c, "output", "o", "how to show it")
	return c
}

// json tells whether that is for machines.
func (c *choice) json() bool { return c.value == "json" }

// addKind gives a command the flag that chooses one kind of line.
func addKind(cmd *cobra.Command, help string) *choice {
	c := &choice{"", kinds}
	addChoice(cmd, c, "kind", "", help)
	return c
}
