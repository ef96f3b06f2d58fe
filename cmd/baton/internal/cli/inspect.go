package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
		Long: `Shows all queues at a name, of whatever kind: who holds and who waits, in the order in which they are
served; what each does or asks for; since when it has been in the queue, by its own clock, and for
how long by this one; the token of its grant, which baton break takes; its session; and what it
chose to show, which in an election is what the leader proclaims. Of a semaphore it shows the limit,
too.

With --watch it goes on, until it is interrupted. On a terminal the picture is refreshed in place;
elsewhere what there is now is written whenever that has changed. It looks at the queue again and
again, every second or as --every says, and does not see what came and went in between. While the
service is away it says so on stderr and goes on.

With -o json it writes one object on one queue, with time, name and queues; with --watch, one for each
change. When nobody is there, queues is empty, and the text says so on stderr. That is no failure.`,
		Example: `  baton inspect orders/nightly
  baton inspect orders/nightly --watch
  baton inspect orders/nightly -o json | jq '.queues[].contenders[0].token'`,
		Args: cobra.ExactArgs(1),
	}
	output := addOutput(cmd)
	kind := addKind(cmd, "show this kind of queue only")
	watch := cmd.Flags().Bool("watch", false, "go on, and show each change")
	every := cmd.Flags().Duration("every", time.Second, "how often --watch looks")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *every <= 0 {
			return usage(fmt.Errorf("--every %v; want more than 0", *every))
		}
		i := inspection{app: a, name: args[0], kind: kind.value, json: output.json()}
		if *watch {
			return i.watch(cmd.Context(), *every)
		}
		return a.with(cmd.Context(), i.once)
	}
	return cmd
}

// inspection is one run of inspect.
type inspection struct {
	*app
	name, kind string
	json       bool
}

func (i inspection) once(ctx context.Context, c *coordinator.Client) error {
	queues, err := readLines(ctx, c, i.kind, i.name)
	if err != nil {
		return err
	}
	if len(queues) == 0 && !i.json {
		fmt.Fprintln(i.Err, "baton:", i.nobody())
	}
	return i.write(i.Out, queues, time.Now())
}

// write shows the queues as they were at a time.
func (i inspection) write(w io.Writer, queues []queueView, at time.Time) error {
	if i.json {
		return json.NewEncoder(w).Encode(struct {
			Time   time.Time   `json:"time"`
			Name   string      `json:"name"`
			Queues []queueView `json:"queues"`
		}{at.UTC(), i.name, queues})
	}
	for n, l := range queues {
		if n > 0 {
			fmt.Fprintln(w)
		}
		if err := l.write(w, at); err != nil {
			return err
		}
	}
	return nil
}

func (i inspection) nobody() string {
	what := "it"
	if i.kind != "" {
		what = "that " + i.kind
	}
	return fmt.Sprintf("%s: nobody holds %s or waits for it", cell(i.name), what)
}

// write shows a queue to people.
func (l queueView) write(w io.Writer, at time.Time) error {
	fmt.Fprintf(w, "%s %s: %s\n", l.Kind, cell(l.Name), l.sum())
	if len(l.Contenders) == 0 {
		return nil
	}
	shows := "PAYLOAD"
	if l.Kind == "election" {
		shows = "PROCLAIMS"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "#\tDOES\tIDENTITY\tSINCE\tFOR\tTOKEN\tSESSION\t%s\n", shows)
	for n, c := range l.Contenders {
		since, age := "-", "-"
		if c.Since != nil {
			since = c.Since.Local().Format(time.RFC3339)
			age = max(0, at.Sub(*c.Since)).Truncate(time.Second).String()
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n",
			n+1, c.does(), cell(c.Identity), since, age, c.Token, cell(c.Session), c.shows())
	}
	return t.Flush()
}

// sum is the queue in a few words.
func (l queueView) sum() string {
	holding := l.holders()
	words := []string{fmt.Sprintf("%d holding", holding), fmt.Sprintf("%d waiting", len(l.Contenders)-holding)}
	if l.Kind == "semaphore" {
		words = append([]string{fmt.Sprintf("%d of %d permits held", l.Held, l.Limit)}, words...)
	}
	return strings.Join(words, ", ")
}

// mostPayload is how much of a payload a table shows, in characters.
const mostPayload = 60

func (c contenderView) shows() string {
	if len(c.PayloadBytes) > 0 {
		return fmt.Sprintf("(%d bytes)", len(c.PayloadBytes))
	}
	text := []rune(c.Payload)
	if len(text) > mostPayload {
		return string(text[:mostPayload-1]) + "…"
	}
	return cell(c.Payload)
}
