package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/recipes"
)

func (a *app) leader() *cobra.Command {
	c := &cobra.Command{
		Use:   "leader NAME",
		Short: "Print the current leader of an election",
		Long: `Prints the current leader of the election NAME: its proclaimed value, and in
parentheses its identity, the token of its term, and when it joined the queue, by its own clock.
If there is no leader, the command fails; with --watch, it prints "nobody". While the service does
not answer, --watch prints the last state again, and says so ("stale" in JSON). The answer can be
out of date: do not act as leader because of it.`,
		Example: `  baton leader scheduler
  baton leader -o json scheduler | jq -r .value
  baton leader transfer scheduler --to scheduler-7d9f-2xkqp`,
		Args: arguments(1, 1),
	}
	c.AddCommand(a.transfer())
	output := addOutput(c)
	watch := c.Flags().Bool("watch", false, "keep running, and print each change")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if *watch {
			return a.watchLeader(cmd.Context(), args[0], output.json())
		}
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			e, err := election.New(c, args[0])
			if err != nil {
				return err
			}
			l, err := e.Leader(ctx)
			if errors.Is(err, election.ErrNoLeader) {
				return fmt.Errorf("nobody leads %q", args[0])
			} else if err != nil {
				return err
			}
			return a.printLeader(l, output.json())
		})
	}
	return c
}

// transfer is a part of leader: an election with the name "transfer" is printed
// by "baton leader -- transfer".
func (a *app) transfer() *cobra.Command {
	c := &cobra.Command{
		Use:   "transfer NAME --to ID",
		Short: "Ask the leader to step down for a candidate",
		Long: `Asks the leader of the election NAME to step down for the first waiting candidate with the
identity ID, and waits until that leads. The leader's work first stops, as in a planned stop;
candidates ahead of ID let it pass. Only a leader under election.Run steps down. If ID leaves or
dies meanwhile, the first candidate leads, and the command fails. If it ends sooner, the leader may
still step down. baton inspect lists the candidates.`,
		Example: `  baton leader transfer scheduler --to scheduler-7d9f-2xkqp
  baton leader transfer scheduler --to scheduler-7d9f-2xkqp --wait 300`,
		Args: arguments(1, 1),
	}
	to := c.Flags().String("to", "", "identity of the candidate")
	wait := time.Minute
	c.Flags().VarP(seconds{&wait}, "wait", "w", "how long to wait until it leads")
	_ = c.MarkFlagRequired("to") // fails for unknown flags only
	c.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := a.open()
		if err != nil {
			return err
		}
		defer finish(client)
		e, err := election.New(client, args[0])
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), wait)
		defer cancel()
		return e.Transfer(ctx, *to)
	}
	return c
}

// watchLeader prints each leader until an error occurs.
func (a *app) watchLeader(ctx context.Context, name string, machine bool) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	defer finish(c)
	e, err := election.New(c, name)
	if err != nil {
		return err
	}
	for l, err := range e.Observe(ctx) {
		if err == nil {
			err = a.printLeader(l, machine)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fields are those of a leader or a member in JSON.
func fields(l recipes.Contender) map[string]any {
	return map[string]any{
		"identity": l.Identity, "value": string(l.Payload),
		"token": l.Token, "session": l.Session, "since": l.Since,
	}
}

// printLeader prints a leader, or a member of a group, on one line.
func (a *app) printLeader(l recipes.Contender, machine bool) error {
	var err error
	switch {
	case machine && l.Token == 0:
		_, err = fmt.Fprintln(a.answer, "null")
	case machine:
		all := fields(l)
		if l.Stale {
			all["stale"] = true
		}
		err = encode(a.answer, all, "")
	case l.Token == 0:
		_, err = fmt.Fprintln(a.answer, "nobody"+stale(l))
	default:
		_, err = fmt.Fprintf(a.answer, "%s (%s, token %d, since %s)%s\n",
			cell(string(l.Payload)), cell(l.Identity), l.Token, l.Since.Format(time.RFC3339), stale(l))
	}
	return err
}

// stale says that a state may be over, for people.
func stale(l recipes.Contender) string {
	if l.Stale {
		return ", unless it has changed: the service does not answer"
	}
	return ""
}
