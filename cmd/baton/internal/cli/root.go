// Package cli is the command line of baton, apart from the process it runs in:
// its streams and its environment are handed to it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/cmd/baton/internal/ward"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

// The exit codes of baton itself.
const (
	exitFailed = 1 // what was asked could not be done
	exitUsage  = 2 // the command line is wrong
)

// Env is the process around a command line.
type Env struct {
	In       io.Reader // what a command that is run reads; passed on as it is if it is an *os.File
	Out, Err io.Writer
	Getenv   func(string) string
	Environ  func() []string
}

// app is one run of baton.
type app struct {
	Env
	url     string
	verbose bool
	running bool // the command line was right, and what it asks for is done; errors from before are about the command line
}

// exitError is an error that says with which code baton ends. One without err
// has been told already, or says nothing.
type exitError struct {
	code int
	err  error
	lost bool // the hold was lost, so code is not the command's own

	interrupted bool // the command died of the terminal's Ctrl-C
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Main runs a command line and returns the exit code. What it has to tell is on
// env's streams. ctx ends it early; the signals of the process are its own
// business.
func Main(ctx context.Context, args []string, env Env) int {
	a := &app{Env: env}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := exitFailed
	var exit *exitError
	if errors.As(err, &exit) {
		code, err = exit.code, exit.err
	} else if !a.running || errors.Is(err, coordinator.ErrInvalid) {
		code = exitUsage
	}
	if err != nil {
		fmt.Fprintln(env.Err, "baton:", describe(err))
	}
	if exit != nil && exit.interrupted {
		ward.Interrupt()
	}
	return code
}

// root is the whole tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "baton",
		Short: "Locks, permits and leaders between processes, over etcd or ZooKeeper",
		Long: `baton takes locks, permits and leaderships for a command that it runs, and shows and mends
the queues of those who wait for them.

The service is named by --url or BATON_URL:

  etcd://host:2379/namespace?ttl=10s      etcds://… with TLS
  zk://host:2181/chroot?ttl=10s           zks://… with TLS

To try things on, "make serve" in Baton's sources starts an etcd and prints its URL; "make serve PORT=2379" on that port.

Exit codes: 0 done, 1 the answer is no, or it failed, 2 the command line is wrong. The commands that run a command
have more: see "baton lock --help".`,
		Example: `  baton lock nightly-report -- ./report.sh
  baton sem --limit 4 downloads -- ./download.sh
  baton elect --again scheduler -- ./scheduler
  baton leader scheduler`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("baton {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.PersistentFlags().StringVar(&a.url, "url", "", "the service; BATON_URL if it is not given")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "log what happens to stderr")
	root.AddCommand(a.commands()...)
	a.mark(root)
	return root
}

// mark has every command of a tree note that it runs.
func (a *app) mark(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			a.running = true
			return run(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		a.mark(sub)
	}
}

// commands are the subcommands, in the order of help.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.lock(), a.rlock(), a.wlock(), a.sem(), a.elect(), a.leader(),
		a.list(), a.inspect(), a.breakGrant(), a.check(), a.doctor(), a.bench(), a.version(),
	}
}

// patience bounds the commands that ask the service something and end.
const patience = 10 * time.Second

// with runs f with a client, for no longer than such a command may take, and closes the client.
func (a *app) with(ctx context.Context, f func(context.Context, *coordinator.Client) error) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	bound, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	defer finish(c)
	return f(bound, c)
}

// finish closes a client, within a time of its own. What it leaves ends with the session.
func finish(c *coordinator.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	_ = c.Close(ctx)
}

func usage(err error) error { return &exitError{code: exitUsage, err: err} }

// service is the URL that the user gave.
func (a *app) service() string {
	if a.url != "" {
		return a.url
	}
	return a.Getenv("BATON_URL")
}

// open returns the client of the service that the user named.
func (a *app) open(opts ...coordinator.Option) (*coordinator.Client, error) {
	url := a.service()
	if url == "" {
		return nil, usage(errors.New("no service is named: give --url or set BATON_URL, etcd://127.0.0.1:2379 for one; " +
			"`make serve` in Baton's sources starts one to try things on"))
	}
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level}))
	return coordinator.Open(url, append([]coordinator.Option{coordinator.WithLogger(log)}, opts...)...)
}

// describe is an error as it is shown to people: what happened, and what to do
// next where that is known.
func describe(err error) string {
	s := plain(err)
	var limit *semaphore.LimitError
	switch {
	case errors.As(err, &limit):
		s += "; on the command line: leave --limit out to use the stored one"
	case errors.Is(err, coordinator.ErrUnavailable):
		s += "; is the service there, and is its address right? \"baton -v\" logs the attempts"
	}
	return s
}

// plain is an error without the "baton: " that stands before it anyway.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "baton: ") }

// choice is a flag that has one of a few values.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }

func (c *choice) Set(value string) error {
	if !slices.Contains(c.of, value) {
		return fmt.Errorf("want one of %s", strings.Join(c.of, ", "))
	}
	c.value = value
	return nil
}

// addChoice gives a command such a flag, and its shell completion. short may be empty.
func addChoice(cmd *cobra.Command, c *choice, name, short, help string) {
	cmd.Flags().VarP(c, name, short, help)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.of, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// addOutput gives a command the flag that chooses between people and machines.
func addOutput(cmd *cobra.Command) *choice {
	c := &choice{"text", []string{"text", "json"}}
	addChoice(cmd, c, "output", "o", "how to show it")
	return c
}

// json tells whether that is for machines.
func (c *choice) json() bool { return c.value == "json" }

// addKind gives a command the flag that chooses one kind of queue.
func addKind(cmd *cobra.Command, help string) *choice {
	c := &choice{"", kinds}
	addChoice(cmd, c, "kind", "", help)
	return c
}

// environ is the command's environment. It is baton's own, with what the hold is.
func (r *run) environ(ctx context.Context, c *coordinator.Client, g *grant) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	seq, err := g.Sequencer(ctx)
	if err != nil {
		return nil, err
	}
	outer := slices.DeleteFunc(r.Environ(), func(v string) bool { // which this hold may have nothing in place of
		return strings.HasPrefix(v, "BATON_PERMITS=") || strings.HasPrefix(v, "BATON_SLOTS=") || strings.HasPrefix(v, "BATON_VALUE=")
	})
	return append(append(outer,
		"BATON_URL="+r.service(),
		"BATON_KIND="+r.recipe.kind,
		"BATON_NAME="+r.name,
		"BATON_IDENTITY="+c.Identity(),
		"BATON_SESSION="+g.Session(),
		"BATON_TOKEN="+g.Token().String(),
		"BATON_SEQUENCER="+seq.String(),
		"BATON_DEADLINE="+g.Deadline().Format(time.RFC3339Nano),
	), g.env...), nil
}

// seconds is a flag with a duration, where plain numbers are seconds, as flock and timeout have it.
type seconds struct{ d *time.Duration }

func (s seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, failed := strconv.ParseFloat(text, 64); failed == nil {
		if n*float64(time.Second) > math.MaxInt64 || math.IsNaN(n) {
			return fmt.Errorf("%s seconds are too many", text)
		}
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil {
		return fmt.Errorf("%q is neither a number of seconds nor a duration such as 1m30s", text)
	}
	if d < 0 {
		return fmt.Errorf("%q is negative", text)
	}
	*s.d = d
	return nil
}

func (s seconds) String() string {
	if s.d == nil || *s.d == 0 {
		return ""
	}
	return s.d.String()
}

func (s seconds) Type() string { return "duration" }
