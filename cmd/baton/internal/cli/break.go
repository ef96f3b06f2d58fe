package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	advice "github.com/baton-go/baton/internal/hint"
)

// exitMovedOn is the exit code if no contender has the token.
const exitMovedOn = 3

func (a *app) breakGrant() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "break NAME --token TOKEN",
		Short: "Remove a holder or a waiter from its queue",
		Long: `Removes the holder or waiter with the token TOKEN, which baton inspect shows,
without confirmation. The next waiter is admitted at once, or after the lock-delay if there is
one, during which baton inspect already shows it as the holder.

The old holder is notified just afterwards; if it is a baton command, it ends its own command.
Other clients in a shared layout are not notified. Requests that the holder has already sent
still arrive, and a stopped process notices nothing: only fencing tokens protect against both,
see docs/fencing.md. If you can, end the holder's process instead.

Exit codes: 0 removed; 1 failure: the message says whether the removal may have happened, and
running the command again is safe; 2 wrong command line; 3 no holder or waiter has that token:
nothing was removed, and baton prints who holds the name now.`,
		Example: `  baton inspect orders/nightly
  baton break orders/nightly --token 4711
  baton break orders/nightly --token "$(baton inspect orders/nightly -o json |
      jq '.queues[].contenders[] | select(.identity == "web-1" and .holding).token')"`,
		Args: arguments(1, 1),
	}
	text := cmd.Flags().String("token", "", "token of the holder or waiter to remove")
	kind := addKind(cmd, "search only queues of this kind")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *text == "" {
			name := advice.Argument(args[0])
			return usage(fmt.Errorf("--token is missing: baton inspect %s shows the tokens", name))
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

// breakToken removes the contender with the token.
func (a *app) breakToken(
	ctx context.Context, c *coordinator.Client, kind, name string, token coordinator.Token,
) error {
	queues, err := readQueues(ctx, c, kind, name)
	if err != nil {
		return err
	}
	for _, q := range queues {
		n := slices.IndexFunc(q.Contenders, func(c contenderView) bool { return c.Token == token })
		if n < 0 {
			continue
		}
		err := c.Break(ctx, q.entries.Kind, q.entries.Name, token)
		if errors.Is(err, coordinator.ErrNotHeld) { // it left after the read
			break
		}
		if err == nil {
			who := cell(q.Contenders[n].Identity)
			fmt.Fprintf(a.answer, "broken: %s %s, token %d, of %s\n", q.Kind, cell(name), token, who)
		}
		return err
	}
	if queues, err = readQueues(ctx, c, kind, name); err != nil {
		return err
	}
	return &exitError{code: exitMovedOn, err: fmt.Errorf(
		"%s: no holder or waiter has token %d, and nothing was removed; %s",
		cell(name), token, nowHeld(name, queues))}
}

// nowHeld says who holds the queues at a name.
func nowHeld(name string, queues []queueView) string {
	var all []string
	for _, q := range queues {
		for _, c := range q.Contenders {
			if c.Holding {
				who := cell(c.Identity)
				all = append(all, fmt.Sprintf("the %s is held by %s (token %d)", q.Kind, who, c.Token))
			}
		}
	}
	if len(all) == 0 {
		return "nobody holds it now" + hint(name)
	}
	return abridged(all)
}
