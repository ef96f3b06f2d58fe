package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes/counter"
)

func (a *app) counter() *cobra.Command {
	c := &cobra.Command{
		Use:   "counter",
		Short: "Add to a shared number, or print it",
		Long: `Adds to the counter NAME, as package recipes/counter does, and prints the sum; or prints the
value. Each addition is applied exactly once. After an error that ends in "(may have been applied)"
it may have been applied, or may be later, which "get" cannot rule out.

  baton counter add NAME [NUMBER]   NUMBER is 1 by default; write -- before a negative one
  baton counter get NAME`,
		Example: `  baton counter add builds
  baton counter add -- stock -3
  baton counter get stock`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "add NAME [NUMBER]",
		Short: "Add a number, 1 by default, and print the sum",
		Args:  arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			delta := int64(1)
			if len(args) > 1 {
				var err error
				if delta, err = strconv.ParseInt(args[1], 10, 64); err != nil {
					return usage(fmt.Errorf("number %q: want a decimal number of 64 bits", args[1]))
				}
			}
			return a.count(cmd.Context(), args[0], func(ctx context.Context, c *counter.Counter) (int64, error) {
				return c.Add(ctx, delta)
			})
		},
	}, &cobra.Command{
		Use:   "get NAME",
		Short: "Print the value",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.count(cmd.Context(), args[0], func(ctx context.Context, c *counter.Counter) (int64, error) {
				return c.Get(ctx)
			})
		},
	})
	return c
}

// count calls f with the counter of a name, and prints its result.
func (a *app) count(
	ctx context.Context, name string, f func(context.Context, *counter.Counter) (int64, error),
) error {
	return a.with(ctx, func(ctx context.Context, client *coordinator.Client) error {
		c, err := counter.New(client, name)
		if err != nil {
			return err
		}
		n, err := f(ctx, c)
		if err == nil {
			fmt.Fprintln(a.answer, n)
		}
		return err
	})
}
