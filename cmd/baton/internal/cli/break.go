package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// exitMovedOn is the code of a break that found nobody with the token.
const exitMovedOn = 3

func (a *app) breakGrant() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "break NAME --token TOKEN",
		Short: "Take a lock, a permit, a leadership or a place in the queue away from whoever has it",
		Long: `Removes exactly the grant, or the waiter, that has the token: baton inspect shows it. Whoever is
next is admitted. Nothing is asked, and nobody else is touched: when the token has moved on, because
the holder has let go or has been broken already, nothing is removed, and baton says who holds the
name now.

What it means to break a grant: the holder is told, as soon as its client hears of it, that its hold
has ended, and a command that baton runs for it is ended. But it is told after the fact. What it has
sent to a database or to another service already is not taken back, and a process that is stopped or
cut off hears nothing. For a moment there may be two who believe that they hold. What the name
protects is safe from that only if it checks tokens: see docs/fencing.md. If the holder's process
can be ended, end it instead; its grant ends with it. A name with a lock-delay rests for so long
before the next one holds. Clients of other make, on a URL with a layout that is shared with them,
are not told at all.

Ends with
  0  the grant or waiter was removed
  1  it could not be done: the service is away, or refuses. If it may have been done all the same the message says
     so, and to run the command again is safe
  2  the command line is wrong
  3  nobody holds the name, or waits for it, with that token; nothing was removed`,
		Example: `  baton inspect orders/nightly
  baton break orders/nightly --token 4711
  baton break orders/nightly --token "$(baton inspect orders/nightly -o json |
      jq '.queues[].contenders[] | select(.identity == "web-1" and .holding).token')"`,
		Args: cobra.ExactArgs(1),
	}
	text := cmd.Flags().String("token", "", "the token of the grant or waiter to remove")
	kind := addKind(cmd, "look in this kind of queue only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *text == "" {
			return usage(fmt.Errorf("--token is missing: baton inspect %s shows the tokens", cell(args[0])))
		}
		token, err := driver.ParseToken(*text)
		if err != nil {
			return usage(err)
		}
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			return a.breakToken(ctx, c, kind.value, args[0], token)
		})
	}
	return cmd
}

// breakToken finds out in which queue a token is, and removes it there.
func (a *app) breakToken(ctx context.Context, c *coordinator.Client, kind, name string, token coordinator.Token) error {
	queues, err := readLines(ctx, c, kind, name)
	if err != nil {
		return err
	}
	for _, l := range queues {
		n := slices.IndexFunc(l.Contenders, func(c contenderView) bool { return c.Token == token })
		if n < 0 {
			continue
		}
		err := c.Break(ctx, l.Kind, name, token)
		if errors.Is(err, coordinator.ErrNotHeld) { // it has left meanwhile
			break
		}
		if err == nil {
			fmt.Fprintf(a.Out, "broken: %s %s, token %d, which %s had\n", l.Kind, cell(name), token, cell(l.Contenders[n].Identity))
		}
		return err
	}
	if queues, err = readLines(ctx, c, kind, name); err != nil {
		return err
	}
	return &exitError{code: exitMovedOn, err: fmt.Errorf("%s: nobody holds it or waits for it with token %d, and nothing was removed; %s",
		cell(name), token, nowHeld(queues))}
}

// nowHeld says who holds queues.
func nowHeld(queues []queueView) string {
	var all []string
	for _, l := range queues {
		for _, c := range l.Contenders {
			if c.Holding {
				all = append(all, fmt.Sprintf("the %s is held by %s", l.Kind, c.who()))
			}
		}
	}
	if len(all) == 0 {
		return "nobody holds it now"
	}
	if more := len(all) - mostHolders; more > 0 {
		all = append(all[:mostHolders], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}
