package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
)

func (a *app) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check SEQUENCER",
		Short: "Ask whether the grant of a sequencer still holds",
		Long: `Asks the service whether the grant that a sequencer tells of still holds. A sequencer is what
BATON_SEQUENCER has in a command that baton runs, and Lock.Sequencer in a program.

Ends with 0 if the grant holds, and with 1 if it is over. It may be over the moment after: this keeps out
those who are late, and makes no write safe.`,
		Example: `  baton check "$BATON_SEQUENCER" && echo still holding`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := fence.Parse(args[0])
			if err != nil {
				return usage(err)
			}
			return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
				if err := c.Check(ctx, seq); err != nil {
					return err
				}
				fmt.Fprintf(a.Out, "holds: %s, token %d\n", seq.Name, seq.Token)
				return nil
			})
		},
	}
}
