package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/group"
)

func (a *app) group() *cobra.Command {
	c := &cobra.Command{
		Use:   "group",
		Short: "Be a member of a group while a command runs, or list the members",
		Long: `Makes the command's process a member of the group NAME, as package recipes/group does, or
prints the members.

  baton group join NAME -- COMMAND [ARGUMENT]...   runs a command as a member
  baton group list NAME                            prints the members, in the order of their joins

join has --ttl, --identity, --grace, --keep-running as in "baton lock"; --value, which is what list
shows (default: the identity); and --again, which joins and runs the command again after a loss.
BATON_TOKEN is the token of the member. A group excludes no one.

list prints "nobody" for an empty group; -o json prints one array on one line. With --watch it
prints the list again after each change; it may skip states, but not the latest.`,
		Example: `  baton group join workers --value 10.0.0.7:8080 -- ./worker
  baton group list workers -o json | jq -r '.[].value'
  baton group list workers --watch`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.join(), a.members())
	return c
}

func (a *app) join() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:   "join",
		Short: "Run a command as a member",
		Long:  `Runs a command as a member of the group NAME. BATON_VALUE is the member's value.`,
	}, f, "group", f.member)
	c.Flags().StringVar(&f.value, "value", "",
		"value in the list of members, such as an address (default: the identity)")
	c.Flags().BoolVar(&f.again, "again", false,
		"join again after a loss, and while the service is unavailable")
	return c
}

func (a *app) members() *cobra.Command {
	c := &cobra.Command{
		Use:   "list NAME",
		Short: "Print the members",
		Args:  arguments(1, 1),
	}
	output := addOutput(c)
	watch := c.Flags().Bool("watch", false, "keep running, and print each change")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if *watch {
			return a.watchMembers(cmd.Context(), args[0], output.json())
		}
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			g, err := group.New(c, args[0])
			if err != nil {
				return err
			}
			all, err := g.Members(ctx)
			if err != nil {
				return err
			}
			return a.printMembers(all, output.json())
		})
	}
	return c
}

// watchMembers prints the members after each change, until an error occurs.
func (a *app) watchMembers(ctx context.Context, name string, machine bool) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	defer finish(c)
	g, err := group.New(c, name)
	if err != nil {
		return err
	}
	first := true
	for all, err := range g.Observe(ctx) {
		if err == nil && !first && !machine {
			_, err = fmt.Fprintln(a.answer)
		}
		if first = false; err == nil {
			err = a.printMembers(all, machine)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printMembers prints the members: a line each, or all in one array.
func (a *app) printMembers(all []group.Info, machine bool) error {
	if machine {
		rows := make([]map[string]any, len(all)) // an empty array in JSON
		for i, m := range all {
			rows[i] = fields(contender(m))
		}
		return encode(a.answer, rows, "")
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.answer, "nobody")
		return err
	}
	for _, m := range all {
		if err := a.printLeader(contender(m), false); err != nil {
			return err
		}
	}
	return nil
}

// contender returns a member as the leader of an election is printed.
func contender(m group.Info) recipes.Contender {
	return recipes.Contender{Token: m.Token, Identity: m.Identity, Payload: m.Value, Since: m.Since, Session: m.Session}
}
