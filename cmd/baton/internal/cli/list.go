package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
)

func (a *app) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List the queues that have a holder or a waiter",
		Long: `Lists each queue that has a holder or a waiter. PREFIX selects names that begin
with it: "orders" also matches "orders-old"; "orders/" matches only names below "orders".

HELD FOR is how long ago the first holder joined the queue, by its clock: it includes its own wait.
OLDEST WAIT is the same of the waiter that joined first. What is stuck comes first with --sort wait.

The list is not a snapshot: each queue is read separately. "?" marks a queue of an unknown kind,
or one that cannot be read; then stderr has the reason, and the exit code is 1. Queues in a
layout shared with other clients cannot be listed: use baton inspect NAME --kind KIND. Barriers,
counters and onces have nobody in the queue at rest: use baton inspect.

--watch reads the queues once a second, and prints the list when it has changed. -o json prints an
array of objects with kind, name, holders, held_since, waiting, waiting_since, and error if the queue
could not be read; with --watch, one for each change. An empty list is not an error.`,
		Example: `  baton list orders/ --sort wait
  baton list -o json | jq -r '.[] | select(.waiting > 10) | .name'`,
		Args: arguments(0, 1),
	}
	output := addOutput(cmd)
	order := addChoice(cmd, &choice{"name", []string{"name", "held", "wait"}}, "sort", "",
		"order: name, or the longest hold or wait first")
	watch := cmd.Flags().Bool("watch", false, "keep running, and print each change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		read := func(ctx context.Context, c *coordinator.Client) ([]row, error) {
			rows, err := readRows(ctx, c, strings.Join(args, ""))
			sortRows(rows, order.value)
			return rows, err
		}
		show := func(rows []row) error {
			if output.json() {
				return encode(a.answer, rows, "")
			}
			return printRows(a.answer, rows, time.Now())
		}
		if *watch {
			return follow(cmd.Context(), a, !output.json(), read, func(rows []row) error {
				err := show(rows)
				_ = a.unread(rows) // it goes on
				return err
			})
		}
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			rows, err := read(ctx, c)
			if err != nil {
				return err
			}
			return cmp.Or(show(rows), a.unread(rows))
		})
	}
	return cmd
}

// sortRows orders the rows, which are in the order of their names.
func sortRows(rows []row, order string) {
	since := map[string]func(row) *time.Time{
		"held": func(r row) *time.Time { return r.HeldSince }, "wait": func(r row) *time.Time { return r.WaitingSince },
	}[order]
	if since == nil {
		return
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		switch x, y := since(a), since(b); {
		case x == nil && y == nil:
			return 0
		case x == nil:
			return 1
		case y == nil:
			return -1
		default:
			return x.Compare(*y)
		}
	})
}

// row is a queue in a list.
type row struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Holders []string `json:"holders"` // null if unknown
	Waiting *int     `json:"waiting"` // likewise
	// When the first of the holders, and of the waiters, joined the queue, by
	// its own clock.
	HeldSince    *time.Time `json:"held_since,omitempty"`
	WaitingSince *time.Time `json:"waiting_since,omitempty"`
	Error        string     `json:"error,omitempty"`
}

// mostReads bounds how many queues are read at once.
const mostReads = 16

// readRows reads the queues whose names begin with prefix. It leaves out those
// that have become empty.
func readRows(ctx context.Context, c *coordinator.Client, prefix string) ([]row, error) {
	names, err := c.Queues(ctx, "")
	if err != nil {
		return nil, err
	}
	names = listed(names, prefix)
	rows, errs := make([]row, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	slots := make(chan struct{}, mostReads)
	for i, n := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			rows[i], errs[i] = readRow(ctx, c, n)
		})
	}
	wg.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(r row) bool { return r.Kind == "" }), nil
}

// listed returns the queues to list. A partition is one, with the queues of its
// members and shards.
func listed(names []coordinator.QueueName, prefix string) (all []coordinator.QueueName) {
	for _, n := range names {
		if partition, ok := ofPartition(n); ok {
			n = coordinator.QueueName{Kind: "partition", Name: partition}
		}
		if strings.HasPrefix(n.Name, prefix) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b coordinator.QueueName) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return slices.Compact(all)
}

func readRow(ctx context.Context, c *coordinator.Client, n coordinator.QueueName) (row, error) {
	r := row{Kind: n.Kind, Name: n.Name}
	read, known := readers[n.Kind]
	if !known {
		return r, nil
	}
	q, err := read(ctx, c, n.Name)
	switch {
	case errors.Is(err, coordinator.ErrRefused):
		r.Error = describe(err)
		return r, nil
	case err != nil || len(q.Contenders) == 0:
		return row{}, err
	}
	r.Holders = q.holders()
	r.HeldSince, r.WaitingSince = q.since(true), q.since(false)
	waiting := len(q.Contenders) - len(r.Holders)
	r.Waiting = &waiting
	return r, nil
}

// unread reports the queues that could not be read. The others are still shown.
func (a *app) unread(rows []row) error {
	n := 0
	for _, r := range rows {
		if r.Error != "" {
			n++
			a.say("%s", r.Error)
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d queues could not be read; baton inspect NAME --kind KIND reads one",
		n, len(rows))
}

func printRows(w io.Writer, rows []row, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tNAME\tHOLDERS\tWAITING\tHELD FOR\tOLDEST WAIT")
	for _, r := range rows {
		holders, waiting, held, waited := "?", "?", "?", "?"
		if r.Waiting != nil {
			held, waited = age(r.HeldSince, now), age(r.WaitingSince, now)
			shown := []string{}
			for _, who := range r.Holders {
				shown = append(shown, cell(who))
			}
			holders, waiting = cell(abridged(shown)), strconv.Itoa(*r.Waiting)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Kind, cell(r.Name), holders, waiting, held, waited)
	}
	return t.Flush()
}

// age formats how long ago a time is, for a table.
func age(since *time.Time, now time.Time) string {
	if since == nil {
		return "-"
	}
	return max(0, now.Sub(*since)).Truncate(time.Second).String()
}

// abridged joins the first few texts, and counts the others.
func abridged(all []string) string {
	const most = 3
	if more := len(all) - most; more > 0 {
		all = append(all[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}
