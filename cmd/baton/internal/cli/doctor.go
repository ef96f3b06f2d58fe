package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

func (a *app) doctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out whether the service is fit for locks",
		Long: `Asks every server in the URL how it is, opens a session, measures round trips, and says what that means: for the
TTL to choose, for the rights of the user in the URL, and for the clocks that listings show.

It makes and deletes some entries in a queue that nobody uses, and leaves nothing behind.

Ends with 0 if all is well or only worth a note, and with 1 after a warning or a failure.`,
		Example: `  baton doctor --url 'etcd://10.0.0.1,10.0.0.2,10.0.0.3/orders?ttl=5s'
  baton doctor -o json | jq '.[] | select(.grade != "ok")'`,
		Args: cobra.NoArgs,
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			found := c.Examine(ctx)
			if err := a.printFindings(found, output.json()); err != nil {
				return err
			}
			for _, f := range found {
				if f.Grade > driver.Note {
					return &exitError{code: exitFailed}
				}
			}
			return nil
		})
	}
	return cmd
}

func (a *app) printFindings(found []coordinator.Finding, machine bool) error {
	if machine {
		e := json.NewEncoder(a.Out)
		e.SetIndent("", "  ")
		return e.Encode(found)
	}
	width := 0
	for _, f := range found {
		width = max(width, len(f.About))
	}
	for _, f := range found {
		fmt.Fprintf(a.Out, "%-8v %-*s  %s\n", f.Grade, width, f.About, f.Text)
		if f.Advice != "" {
			fmt.Fprintf(a.Out, "%s-> %s\n", strings.Repeat(" ", len("warning  ")+width+2), f.Advice)
		}
	}
	return nil
}

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

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(a.Out, "baton", version())
			return nil
		},
	}
}

// version is what the go command has written into the program: the module's
// version, or the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	said := map[string]string{}
	for _, s := range info.Settings {
		said[s.Key] = s.Value
	}
	if commit := said["vcs.revision"]; commit != "" {
		v += " " + commit
		if said["vcs.modified"] == "true" {
			v += " with changes"
		}
	}
	return v + " " + info.GoVersion
}
