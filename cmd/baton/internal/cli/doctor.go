package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	advice "github.com/baton-go/baton/internal/hint"
	"github.com/baton-go/baton/recipes"
)

func (a *app) doctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether the service is fit for locks",
		Long: `Asks every server in the URL for its state, opens a session and measures round
trips. Reports whether the TTL and the rights of the user in the URL are sufficient, and deadlocks:
contenders that wait for each other. It writes only to a queue of its own, and leaves nothing
behind.

Exit code 0 if all findings are "ok" or "note", else 1.`,
		Example: `  baton doctor --url 'etcd://10.0.0.1:2379,10.0.0.2:2379/orders?ttl=5s'
  baton doctor -o json | jq '.[] | select(.grade != "ok")'`,
		Args: arguments(0, 0),
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			found := slices.Concat(c.Examine(ctx), examineGrace(ctx, c), examineDeadlocks(ctx, c))
			err := a.printFindings(found, output.json())
			bad := func(f coordinator.Finding) bool { return f.Grade > driver.Note }
			if err == nil && slices.ContainsFunc(found, bad) {
				err = &exitError{code: exitFailed}
			}
			return err
		})
	}
	return cmd
}

// examineGrace reports the longest outage that commands survive. It is shorter
// than that of other holds, which [coordinator.Client.Examine] reports, by the
// grace.
func examineGrace(ctx context.Context, c *coordinator.Client) []coordinator.Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := c.Session(ctx)
	if err != nil {
		return nil // Examine says why
	}
	const reconnect = 500 * time.Millisecond // until a renewal is answered, as in Examine
	grace := min(usualGrace, longestGrace(s))
	bears := max(0, s.TTL()-s.Margin()-s.TTL()/driver.RenewalsPerTTL-reconnect-grace)
	return []coordinator.Finding{driver.Found(driver.Fine, "commands of baton lock", "--grace is %v by default: "+
		"they survive an outage of %v, in the worst phase; a shorter --grace gives them the difference",
		grace.Round(time.Millisecond), bears.Round(10*time.Millisecond))}
}

// examineDeadlocks reports contenders that wait for each other.
func examineDeadlocks(ctx context.Context, c *coordinator.Client) (found []coordinator.Finding) {
	if c.Shared() { // its entries do not say what their contenders hold
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cycles, err := recipes.Deadlocks(ctx, c)
	if err != nil && len(cycles) == 0 {
		return []coordinator.Finding{driver.Found(driver.Note, "deadlocks", "cannot be looked for: %v", err)}
	}
	for _, d := range cycles {
		last := d.Parties[len(d.Parties)-1]
		kind, name, _ := last.Queue.Split()
		f := driver.Found(driver.Warning, "deadlock", "%v", d)
		found = append(found, f.So(fmt.Sprintf("take the locks in one order, or set WithDeadlockError. "+
			"To free these, remove a waiter: baton break --kind %s --token %d %s", kind, last.Token, advice.Argument(name))))
	}
	return found
}

// printFindings prints a line for each finding, and another for its advice.
func (a *app) printFindings(found []coordinator.Finding, machine bool) error {
	if machine {
		return encode(a.answer, found, "  ")
	}
	width := 0
	for _, f := range found {
		width = max(width, len(f.About))
	}
	for _, f := range found {
		fmt.Fprintf(a.answer, "%-8v %-*s  %s\n", f.Grade, width, line(f.About), line(f.Text))
		if f.Advice != "" {
			fmt.Fprintf(a.answer, "%s-> %s\n", strings.Repeat(" ", len("warning  ")+width+2), line(f.Advice))
		}
	}
	return nil
}

func (a *app) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check SEQUENCER",
		Short: "Check whether the grant of a sequencer still holds",
		Long: `Asks the service whether the grant of a sequencer (BATON_SEQUENCER, or
Lock.Sequencer in a program) still holds. Exit code 0 if it holds, 1 if it has ended. It can end
right after the answer: the check rejects late callers, but does not make a write safe.`,
		Example: `  baton check "$BATON_SEQUENCER" && echo still holding`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := fence.Parse(args[0])
			if err != nil {
				return usage(err)
			}
			return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
				if err := c.Check(ctx, seq); err != nil {
					return err
				}
				fmt.Fprintf(a.answer, "holds: %s, token %d\n", cell(seq.Name), seq.Token)
				return nil
			})
		},
	}
}
