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
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

func (a *app) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List the locks, semaphores and elections in which somebody stands",
		Long: `Lists each queue in which somebody holds or waits: its kind, its name, who holds it, and how many
wait. With PREFIX, those whose names begin so: "orders" finds "orders", "orders/nightly" and
"orders-old"; "orders/" only what is below "orders".

The queues are read one after the other, so the list does not show one moment. A queue of a kind that
baton does not know has "?" for holders and waiters, and so has one that cannot be read: then stderr
says why, and baton ends with 1. The queues of a URL with a layout that is shared with other clients
cannot be listed, since nothing tells them from the rest of what the service keeps: use baton
inspect NAME --kind KIND.

With -o json it writes one array, of objects with kind, name, holders and waiting, and error if the
queue could not be read. No queue is an empty array, no text but the heading, and no failure.`,
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

// row is a queue in a list.
type row struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Holders []string `json:"holders"` // null if the kind is not known
	Waiting *int     `json:"waiting"` // likewise
	Error   string   `json:"error,omitempty"`
}

// unread tells of queues that could not be read. They do not keep the others from being shown.
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
	return fmt.Errorf("%d of %d queues could not be read; baton inspect NAME --kind KIND shows one", n, len(rows))
}

// reading bounds how many queues are read at once.
const reading = 16

// listed reads the queues that begin with prefix. One that everybody has left by
// the time that it is read is left out.
func listed(ctx context.Context, c *coordinator.Client, prefix string) ([]row, error) {
	names, err := c.Queues(ctx, prefix)
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

func rowOf(ctx context.Context, c *coordinator.Client, n coordinator.QueueName) (row, error) {
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

// mostHolders is how many holders of a queue a list names.
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

// cell is a text in a table: "-" if there is none, and quoted if it could do
// something to a terminal.
func cell(s string) string {
	switch {
	case s == "":
		return "-"
	case !printable(s):
		return strconv.Quote(s)
	}
	return s
}

// queueView is a queue as the service shows it.
type queueView struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Limit and Held are a semaphore's.
	Limit      int             `json:"limit,omitempty"`
	Held       int             `json:"held,omitempty"`
	Contenders []contenderView `json:"contenders"`

	shared bool // other clients stand there too
}

// contenderView is one who holds or waits.
type contenderView struct {
	Holding bool `json:"holding"`
	// Mode is what it asks for or has: "exclusive", "read", "write", "permits",
	// "lead", or "unknown" of an entry that is none of Baton's.
	Mode     string            `json:"mode"`
	Permits  int               `json:"permits,omitempty"`
	Identity string            `json:"identity,omitempty"`
	Since    *time.Time        `json:"since,omitempty"`
	Token    coordinator.Token `json:"token"`
	Session  string            `json:"session,omitempty"`
	// Payload is there if it can be printed, and PayloadBytes otherwise.
	Payload      string `json:"payload,omitempty"`
	PayloadBytes []byte `json:"payloadBytes,omitempty"`
}

// kinds are those of the recipes, in the order in which they are shown.
var kinds = []string{"mutex", "rwlock", "semaphore", "election"}

// readers ask for a queue of each kind.
var readers = map[string]func(context.Context, *coordinator.Client, string) (queueView, error){
	"mutex": readMutex, "rwlock": readRWLock, "semaphore": readSemaphore, "election": readElection,
}

func readMutex(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	m, err := mutex.New(c, name)
	if err != nil {
		return queueView{}, err
	}
	all, err := m.Contenders(ctx)
	return newView(c, "mutex", name).with(all, "exclusive"), err
}

func readElection(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	e, err := election.New(c, name)
	if err != nil {
		return queueView{}, err
	}
	all, err := e.Candidates(ctx)
	return newView(c, "election", name).with(all, "lead"), err
}

// newView is a queue with nobody in it.
func newView(c *coordinator.Client, kind, name string) queueView {
	return queueView{Kind: kind, Name: name, Contenders: []contenderView{}, shared: c.Shared()} // an empty array, and not null
}

// with has all who are queued for the same.
func (l queueView) with(all []recipes.Contender, mode string) queueView {
	for _, c := range all {
		l.add(c, mode, 0)
	}
	return l
}

func readRWLock(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	l := newView(c, "rwlock", name)
	lock, err := rwlock.New(c, name)
	if err != nil {
		return l, err
	}
	all, err := lock.Contenders(ctx)
	for _, c := range all {
		mode := "read"
		if c.Writer {
			mode = "write"
		}
		l.add(c.Contender, mode, 0)
	}
	return l, err
}

func readSemaphore(ctx context.Context, c *coordinator.Client, name string) (queueView, error) {
	l := newView(c, "semaphore", name)
	s, err := semaphore.New(c, name, semaphore.Stored)
	if err != nil {
		return l, err
	}
	listing, err := s.List(ctx)
	l.Limit, l.Held = listing.Limit, listing.Held
	for _, c := range listing.Contenders {
		l.add(c.Contender, "permits", c.Permits)
	}
	return l, err
}

func (l *queueView) add(c recipes.Contender, mode string, permits int) {
	v := contenderView{Holding: c.Holding, Mode: mode, Permits: permits, Identity: c.Identity, Token: c.Token, Session: c.Session}
	if c.ID == "" && !l.shared {
		v.Mode = "unknown"
	}
	if !c.Since.IsZero() {
		v.Since = &c.Since
	}
	if printable(string(c.Payload)) {
		v.Payload = string(c.Payload)
	} else {
		v.PayloadBytes = c.Payload
	}
	l.Contenders = append(l.Contenders, v)
}

// printable says that a text can be shown to a terminal as it is.
func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// holders counts those who hold.
func (l queueView) holders() (n int) {
	for _, c := range l.Contenders {
		if c.Holding {
			n++
		}
	}
	return n
}

// empty says that nobody stands in the queue and nothing is stored at the name.
func (l queueView) empty() bool { return len(l.Contenders) == 0 && l.Limit == 0 }

// does says in words what a contender does.
func (c contenderView) does() string {
	permits := fmt.Sprintf("%d permits", c.Permits)
	if c.Permits == 1 {
		permits = "1 permit"
	}
	words := map[string][2]string{
		"exclusive": {"waits", "holds"}, "lead": {"waits to lead", "leads"},
		"read": {"waits to read", "reads"}, "write": {"waits to write", "writes"},
		"permits": {"asks for " + permits, "has " + permits},
		"unknown": {"is none of Baton's", "is none of Baton's"},
	}[c.Mode]
	if c.Holding {
		return words[1]
	}
	return words[0]
}

// who is a contender in a message.
func (c contenderView) who() string {
	who := "somebody without a name"
	if c.Identity != "" {
		who = cell(c.Identity)
	}
	return fmt.Sprintf("%s (token %d)", who, c.Token)
}

// errWhichKind: under a layout of another client the queues of two kinds can be
// one, and looking at one as another kind is an error.
var errWhichKind = errors.New("the URL has a layout that is shared with other clients: say which kind of queue it is with --kind")

// readLines reads the queues at a name in which somebody stands, or at which
// something is stored: of one kind, or of all if kind is empty.
func readLines(ctx context.Context, c *coordinator.Client, kind, name string) ([]queueView, error) {
	of := kinds
	switch {
	case kind != "":
		of = []string{kind}
	case c.Shared():
		return nil, usage(errWhichKind)
	}
	queues := []queueView{} // shown as an empty list, if need be
	for _, k := range of {
		l, err := readers[k](ctx, c, name)
		switch {
		case kind == "" && errors.Is(err, coordinator.ErrRefused):
			return nil, fmt.Errorf("%w; other kinds at the name are to be had with --kind", err)
		case err != nil:
			return nil, err
		}
		if !l.empty() {
			queues = append(queues, l)
		}
	}
	return queues, nil
}
