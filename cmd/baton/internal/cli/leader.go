package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
)

func (a *app) leader() *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:   "leader [flags] NAME",
		Short: "Tell who leads an election",
		Long: `Tells who leads the election NAME: the value that it proclaims, and in brackets its identity, the token of its term, and
since when it has been a candidate. Ends with 1 if nobody leads.

With --watch it tells each change, and "nobody" if there is no leader, until it is interrupted.

What it shows was true when the service showed it. Never act as leader upon it.`,
		Example: `  baton leader scheduler
  baton leader -o json scheduler | jq -r .value`,
		Args: cobra.ExactArgs(1),
	}
	output := addOutput(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if watch {
			return a.watchLeader(cmd.Context(), args[0], output.json())
		}
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			e, err := election.New(c, args[0])
			if err != nil {
				return err
			}
			l, err := e.Leader(ctx)
			if errors.Is(err, election.ErrNoLeader) {
				return &exitError{code: exitFailed, err: fmt.Errorf("nobody leads %q", args[0])}
			} else if err != nil {
				return err
			}
			return a.showLeader(l, output.json())
		})
	}
	c.Flags().BoolVar(&watch, "watch", false, "tell each change")
	return c
}

// watchLeader shows leaders until a signal or an error ends it.
func (a *app) watchLeader(ctx context.Context, name string, machine bool) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	signals, stop := listen()
	defer stop()
	ctx, end := untilSignal(ctx, signals)
	defer end()
	defer finish(c)
	e, err := election.New(c, name)
	if err != nil {
		return err
	}
	for l, err := range e.Observe(ctx) {
		if sig := signalOf(ctx); sig != nil {
			return sig.exit()
		}
		if err != nil {
			return err
		}
		if err := a.showLeader(l, machine); err != nil {
			return err
		}
	}
	return nil
}

// showLeader writes one leader in one line.
func (a *app) showLeader(l election.Leader, machine bool) error {
	if machine {
		if l.IsZero() {
			_, err := fmt.Fprintln(a.Out, "null")
			return err
		}
		return json.NewEncoder(a.Out).Encode(map[string]any{
			"identity": l.Identity, "value": string(l.Value), "token": l.Token, "session": l.Session, "since": l.Since,
		})
	}
	if l.IsZero() {
		_, err := fmt.Fprintln(a.Out, "nobody")
		return err
	}
	_, err := fmt.Fprintf(a.Out, "%s (%s, token %d, since %s)\n", cell(string(l.Value)), cell(l.Identity), l.Token, l.Since.Format(time.RFC3339))
	return err
}
