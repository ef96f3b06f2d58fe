package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
)

func (a *app) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List the locks, semaphores and elections in which somebody stands",
		Long: `Lists each line in which somebody holds or waits: its kind, its name, who holds it, and how many
wait. With PREFIX, those whose names begin so: "orders" finds "orders", "orders/nightly" and
"orders-old"; "orders/" only what is below "orders".

The lines are read one after the other, so the list does not show one moment. A line of a kind that
baton does not know has "?" for holders and waiters, and so has one that cannot be read: then stderr
says why, and baton ends with 1. The lines of a URL with a layout that is shared with other clients
cannot be listed, since nothing tells them from the rest of what the service keeps: use baton
inspect NAME --kind KIND.

With -o json it writes one array, of objects with kind, name, holders and waiting, and error if the
line could not be read. No line is an empty array, no text but the heading, and no failure.`,
		Example: `  baton list
  baton list orders/
  baton list -o json | jq -r '.[] | select(.waiting > 10) | .name'`,
		Args: cobra.MaximumNArgs(1),
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		prefix := strings.Join(args, "")
		return a.with(cmd.Context(), func(ctx context.Context, c *coordinator.Client) error {
			rows, err := listed(ctx, c, prefix)
			if err != nil {
				return err
			}
			if output.json() {
				err = json.NewEncoder(a.Out).Encode(rows)
			} else {
				err = writeRows(a.Out, rows)
			}
			return cmp.Or(err, a.unread(rows))
		})
	}
	return cmd
}

// row is a line in a list.
type row struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Holders []string `json:"holders"` // null if the kind is not known
	Waiting *int     `json:"waiting"` // likewise
	Error   string   `json:"error,omitempty"`
}

// unread tells of lines that could not be read. They do not keep the others from being shown.
func (a *app) unread(rows []row) error {
	n := 0
	for _, r := range rows {
		if r.Error != "" {
			n++
			fmt.Fprintln(a.Err, "baton:", r.Error)
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d lines could not be read; baton inspect NAME --kind KIND shows one", n, len(rows))
}

// reading bounds how many lines are read at once.
const reading = 16

// listed reads the lines that begin with prefix. One that everybody has left by the time that it is read is left out.
func listed(ctx context.Context, c *coordinator.Client, prefix string) ([]row, error) {
	names, err := c.Lines(ctx, prefix)
	if err != nil {
		return nil, err
	}
	rows, errs := make([]row, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	places := make(chan struct{}, reading)
	for i, n := range names {
		places <- struct{}{} // given back soon after ctx ends
		wg.Go(func() {
			defer func() { <-places }()
			rows[i], errs[i] = rowOf(ctx, c, n)
		})
	}
	wg.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(r row) bool { return r.Kind == "" }), nil
}

func rowOf(ctx context.Context, c *coordinator.Client, n coordinator.LineName) (row, error) {
	r := row{Kind: n.Kind, Name: n.Name}
	read, known := readers[n.Kind]
	if !known {
		return r, nil
	}
	l, err := read(ctx, c, n.Name)
	switch {
	case errors.Is(err, coordinator.ErrRefused):
		r.Error = describe(err)
		return r, nil
	case err != nil || len(l.Contenders) == 0:
		return row{}, err
	}
	waiting := len(l.Contenders) - l.holders()
	r.Waiting, r.Holders = &waiting, []string{}
	for _, c := range l.Contenders {
		if c.Holding {
			r.Holders = append(r.Holders, c.Identity)
		}
	}
	return r, nil
}

// mostHolders is how many holders of a line a list names.
const mostHolders = 3

func writeRows(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tNAME\tHOLDERS\tWAITING")
	for _, r := range rows {
		holders, waiting := "?", "?"
		if r.Waiting != nil {
			holders, waiting = holdersOf(r.Holders), strconv.Itoa(*r.Waiting)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Kind, cell(r.Name), holders, waiting)
	}
	return t.Flush()
}

func holdersOf(all []string) string {
	var shown []string
	for _, who := range all[:min(len(all), mostHolders)] {
		shown = append(shown, cell(who))
	}
	if more := len(all) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return cell(strings.Join(shown, ", "))
}

// cell is a text in a table: "-" if there is none, and quoted if it could do something to a terminal.
func cell(s string) string {
	switch {
	case s == "":
		return "-"
	case !printable(s):
		return strconv.Quote(s)
	}
	return s
}
