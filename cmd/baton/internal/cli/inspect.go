package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
)

func (a *app) inspect() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show who holds a name and who waits for it, in order",
		Long: `Shows the queues with the name NAME, of all kinds: holders and waiters in order.
SINCE is when the contender joined the queue, by its clock, not when it was admitted. FOR is how
long ago that is, by this machine's clock. TOKEN is for baton break. In an election, the last column
is PROCLAIMS, the proclaimed value; of a group it is VALUE; of a partition SHARDS, by the plan.

  mutex nightly-report: 1 holding, 1 waiting
  #  DOES   IDENTITY  SINCE                 FOR    TOKEN  SESSION           PAYLOAD
  1  holds  batch-1   2026-11-22T02:00:00Z  14m3s  3      37e4a20384d40a03  report.sh
  2  waits  batch-2   2026-11-22T02:00:01Z  14m2s  6      37e4a20384d40a0a  report.sh

Lines below the table say what a contender held when it joined, if it was called with the context of
other holds; a waiter most likely still holds it:

  2: called under mutex orders (token 5), rwlock stock (token 9) of etcd://10.0.0.9:2379/stock

On call, use in this order: baton list, baton inspect NAME, baton doctor. Like all commands they
open a session, so they need a client's rights, and a service that accepts writes.

--watch reads the queues once a second, so it misses shorter changes. If the service becomes
unavailable, it says so on stderr and keeps trying. -o json prints one object on one line, with
time, name and queues; with --watch, one for each change. With --limit each queue that has more says
how many are left_out. An empty queue is not an error.

KIND is mutex, rwlock, semaphore, election, group, partition, partition-shard (whose NAME is that of
the partition, a slash and the number), counter, ids (the last number taken), barrier,
double-barrier or once (with its latest run).`,
		Example: `  baton inspect orders/nightly --watch
  baton inspect orders/nightly -o json | jq '.queues[].contenders[0].token'`,
		Args: arguments(1, 1),
	}
	output := addOutput(cmd)
	kind := addKind(cmd, "show only queues of this kind")
	watch := cmd.Flags().Bool("watch", false, "keep running, and print each change")
	limit := cmd.Flags().Int("limit", 0, "show so many of each queue, the first ones (default: all)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		i := inspection{app: a, name: args[0], kind: kind.value, json: output.json()}
		if *limit < 0 || *limit == 0 && cmd.Flags().Changed("limit") {
			return usage(fmt.Errorf("--limit %d: want at least 1", *limit))
		}
		i.limit = *limit
		read := func(ctx context.Context, c *coordinator.Client) ([]queueView, error) {
			return readQueues(ctx, c, i.kind, i.name)
		}
		if *watch {
			return follow(cmd.Context(), a, !i.json, read, i.print)
		}
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			queues, err := read(ctx, c)
			if err != nil {
				return err
			}
			return i.print(queues)
		})
	}
	return cmd
}

// inspection is one run of inspect.
type inspection struct {
	*app
	name, kind string
	json       bool
	limit      int // of contenders to show in each queue; 0: all
}

// print shows the queues as they are now.
func (i inspection) print(queues []queueView) error {
	now := time.Now()
	if i.json {
		queues = slices.Clone(queues)
		for n := range queues {
			queues[n].LeftOut = i.leaveOut(&queues[n])
		}
		return encode(i.answer, struct {
			Time   time.Time   `json:"time"`
			Name   string      `json:"name"`
			Queues []queueView `json:"queues"`
		}{now.UTC(), i.name, queues}, "")
	}
	if len(queues) == 0 {
		what := "it"
		if i.kind != "" {
			what = "that " + i.kind
		}
		fmt.Fprintf(i.answer, "%s: nobody holds %s or waits for it%s\n", cell(i.name), what, hint(i.name))
	}
	for n, q := range queues {
		if n > 0 {
			fmt.Fprintln(i.answer)
		}
		if err := i.printQueue(q, now); err != nil {
			return err
		}
	}
	return nil
}

func (i inspection) printQueue(q queueView, now time.Time) error {
	fmt.Fprintf(i.answer, "%s %s: %s\n", q.Kind, cell(q.Name), q.summary())
	if len(q.Contenders) == 0 {
		return nil
	}
	more := i.leaveOut(&q)
	payload := cmp.Or(map[string]string{
		"election": "PROCLAIMS", "group": "VALUE", "partition": "SHARDS",
	}[q.Kind], "PAYLOAD")
	t := tabwriter.NewWriter(i.answer, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "#\tDOES\tIDENTITY\tSINCE\tFOR\tTOKEN\tSESSION\t%s\n", payload)
	for n, c := range q.Contenders {
		since := "-"
		if c.Since != nil {
			since = c.Since.Local().Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", n+1, c.does(), cell(c.Identity),
			since, age(c.Since, now), c.Token, cell(c.Session), shortened(cell(c.Payload)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(i.answer, "and %d more\n", more)
	}
	for n, c := range q.Contenders {
		if c.Stray != "" {
			fmt.Fprintf(i.answer, "%d: %s\n", n+1, printable(c.Stray))
		}
		if len(c.Under) > 0 {
			fmt.Fprintf(i.answer, "%d: %s\n", n+1, c.under())
		}
	}
	return nil
}

// leaveOut removes the contenders beyond the limit from a view, and returns how
// many.
func (i inspection) leaveOut(q *queueView) int {
	shown := len(q.Contenders)
	if i.limit > 0 {
		shown = min(i.limit, shown)
	}
	more := len(q.Contenders) - shown
	q.Contenders = q.Contenders[:shown]
	return more
}

// summary describes a queue in a few words.
func (q queueView) summary() string {
	holding := len(q.holders())
	waiting := len(q.Contenders) - holding
	counts := fmt.Sprintf("%d holding, %d waiting", holding, waiting)
	switch {
	case q.Kind == "semaphore":
		return fmt.Sprintf("%d of %d permits held, %s", q.Held, q.Limit, counts)
	case q.Kind == "group":
		return plural(holding, "member")
	case q.Kind == "partition":
		return plural(q.Shards, "shard") + ", " + plural(holding, "member")
	case q.Kind == "double-barrier":
		return fmt.Sprintf("round %d, %d inside, %d waiting", q.Round, holding, waiting)
	case q.Kind == "once":
		return counts + q.latestRun()
	case q.Set != nil:
		return map[bool]string{true: "closed", false: "open"}[*q.Set]
	case q.Value == nil:
		return counts
	case len(q.Contenders) > 0:
		return fmt.Sprintf("%d, %s", *q.Value, counts)
	}
	return fmt.Sprint(*q.Value)
}

// latestRun describes the latest run of a once.
func (q queueView) latestRun() string {
	if len(q.Runs) == 0 {
		return ""
	}
	last, state := q.Runs[len(q.Runs)-1], "over and not complete"
	for _, c := range q.Contenders {
		if c.Holding && c.Token == last.Token {
			state = "not over"
		}
	}
	if last.Ended != nil {
		state = "complete since " + last.Ended.Local().Format(time.RFC3339)
	}
	return fmt.Sprintf("; the latest run, of %s by %s, is %s", cell(last.Key), cell(last.Identity), state)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// does describes what a contender does.
func (c contenderView) does() string {
	permits := plural(c.Permits, "permit")
	words := map[string][2]string{
		"exclusive": {"waits", "holds"},
		"lead":      {"waits to lead", "leads"},
		"read":      {"waits to read", "reads"},
		"write":     {"waits to write", "writes"},
		"permits":   {"asks for " + permits, "has " + permits},
		"member":    {"is no member", "is a member"},
		"enter":     {"waits to enter", "is inside"},
		"leave":     {"waits to leave", ""},
		"unknown":   {"is not Baton's", "is not Baton's"},
	}[c.Mode]
	switch {
	case c.Holding && c.Retains:
		return "holds or keeps"
	case c.Holding:
		return words[1]
	}
	return words[0]
}

// under lists the holds under which a contender was called.
func (c contenderView) under() string {
	all := make([]string, len(c.Under))
	for i, u := range c.Under {
		all[i] = u.String()
	}
	if c.UnderLeftOut > 0 {
		all = append(all, fmt.Sprintf("%d more", c.UnderLeftOut))
	}
	return "called under " + strings.Join(all, ", ")
}

// shortened truncates a text for a table.
func shortened(s string) string {
	const most = 60
	if text := []rune(s); len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return s
}
