// Package cli is the command line of baton, apart from the process it runs in:
// its streams and its environment are passed in.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/baton-go/baton/cmd/baton/internal/ward"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

// The exit codes of all commands.
const (
	exitFailed = 1 // the operation failed
	exitUsage  = 2 // the command line is wrong
)

// Env is the process around a command line.
type Env struct {
	In       io.Reader // the command's standard input; an *os.File is inherited directly
	Out, Err io.Writer
	Getenv   func(string) string
	Environ  func() []string
}

// app is one run of baton.
type app struct {
	Env
	answer   *answer   // the standard output, for what baton itself prints
	messages *messages // nil in tests of parts
	atEnd    func()    // called when the last message was written

	url     string
	verbose bool
	running bool // the command line was accepted; an earlier error is a usage error
}

func newApp(env Env) *app {
	return &app{Env: env, answer: &answer{w: env.Out}, atEnd: func() {}}
}

// exitError is an error with baton's exit code. Without err nothing more is
// printed.
type exitError struct {
	code int
	err  error
	lost bool // the hold was lost, so code is not the command's own

	signal os.Signal // if not nil, it ends baton, too
	whole  bool      // baton's group gets it: Ctrl-C did not reach it
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{code: exitUsage, err: err} }

// Main runs a command line and returns the exit code. It prints to env's
// streams. It ends early when ctx ends or the process receives a signal.
func Main(ctx context.Context, args []string, env Env) int {
	a := newApp(env)
	a.messages = newMessages(env.Err)
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if lost := a.answer.err; lost != nil {
		err = a.incomplete(err, lost)
	}
	defer func() {
		a.messages.close()
		a.atEnd()
	}()
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
		a.say("%s", describe(err))
	}
	if exit != nil && exit.signal != nil {
		a.messages.close()
		ward.Raise(exit.signal, exit.whole)
	}
	return code
}

// incomplete is the error of a command whose answer was not written whole.
func (a *app) incomplete(err, lost error) error {
	told := fmt.Errorf("the answer is incomplete: %w", lost)
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		with := *exit
		with.err = errors.Join(exit.err, told)
		return &with
	case err == nil, errors.Is(err, lost):
		a.running = true // also for help: the command line is right
		return told
	}
	return errors.Join(err, told)
}

// say prints a message to the standard error. It does not block.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.errs(), "baton: %s\n", line(fmt.Sprintf(format, args...)))
}

// errs is the standard error for what must not block.
func (a *app) errs() io.Writer {
	if a.messages == nil {
		return a.Err
	}
	return a.messages
}

// root is the whole tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "baton",
		Short: "Locks, permits and leaders between processes, over etcd, ZooKeeper, SQL or Redis",
		Long: `baton runs a command while it holds a lock, permits of a semaphore, or a leadership.
It also shows who holds and who waits, and breaks grants. --url or BATON_URL names the service:

  etcd://host:2379/namespace?ttl=10s      etcds://… with TLS
  zk://host:2181/chroot?ttl=10s           zks://… with TLS
  postgres://user:password@host/database  mysql://… also for MariaDB; see "baton migrate"
  redis://host:6379/namespace?ttl=10s     rediss://… with TLS

For a first try, "make serve" in Baton's sources starts an etcd and prints its URL.

Exit codes: 0 success; 1 failure, or the answer is no; 2 wrong command line. "baton lock --help"
lists the exit codes of the commands that run a command.`,
		Example:       `  baton lock nightly-report -- ./report.sh`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			err := cmp.Or(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups())
			a.running = err == nil
			return err
		},
	}
	root.Flags().BoolP("version", "V", false, "print the version")
	root.SetFlagErrorFunc(wrongFlag)
	root.SetVersionTemplate("baton {{.Version}}\n")
	root.SetIn(a.In)
	root.SetOut(a.answer)
	root.SetErr(a.Err)
	root.PersistentFlags().StringVar(&a.url, "url", "", "URL of the service (default $BATON_URL)")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false,
		"log everything to stderr (default: warnings and errors)")
	root.AddCommand(
		a.lock(), a.rlock(), a.wlock(), a.sem(), a.elect(), a.leader(),
		a.list(), a.inspect(), a.breakGrant(), a.check(), a.counter(), a.group(), a.doctor(), a.bench(),
		a.migrate(), a.man(),
	)
	return root
}

// arguments is how many arguments a command takes.
func arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return fmt.Errorf("%s, want %s", plural(n, "argument"), c.UseLine())
		}
		return nil
	}
}

// wrongFlag says more about a negative number, which is taken for a flag.
func wrongFlag(_ *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedShortnames()) == 0 {
		return err
	}
	if c := unknown.GetSpecifiedShortnames()[0]; '0' <= c && c <= '9' {
		return fmt.Errorf("%w; before a negative number, write -- in front of all arguments", err)
	}
	return err
}

// version returns the version that the go command recorded in the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return cmp.Or(info.Main.Version, "(devel)") + " " + info.GoVersion
}

// patience bounds the commands that query the service once.
const patience = 10 * time.Second

var errSilent = fmt.Errorf("no answer within %v", patience)

// with runs f with a client and closes the client. f gets a context that ends
// after patience.
func (a *app) with(ctx context.Context, f func(context.Context, *coordinator.Client) error) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	defer finish(c)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	return f(ctx, c)
}

// closing bounds the clean-up at the end.
const closing = 2 * time.Second

// finish closes a client. The end of the session removes what Close did not
// remove in time.
func finish(c *coordinator.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	_ = c.Close(ctx)
}

// service returns the URL that the user gave.
func (a *app) service() string { return cmp.Or(a.url, a.Getenv("BATON_URL")) }

var errNoService = errors.New("no service given: use --url or set BATON_URL, for " +
	"example to etcd://127.0.0.1:2379; `make serve` in Baton's sources starts an etcd")

// open returns a client of the service that the user named.
func (a *app) open(opts ...coordinator.Option) (*coordinator.Client, error) {
	url := a.service()
	if url == "" {
		return nil, usage(errNoService)
	}
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(a.errs(), &slog.HandlerOptions{Level: level}))
	opts = append([]coordinator.Option{coordinator.WithLogger(log)}, opts...)
	return coordinator.Open(url, opts...)
}

// describe returns the text of an error and, where known, what to do next. It
// strips the prefix "baton: ", which say prints.
func describe(err error) string {
	s := strings.TrimPrefix(err.Error(), "baton: ")
	s = strings.TrimSuffix(s, "; is the driver's package imported?") // for programs
	var limit *semaphore.LimitError
	switch {
	case errors.As(err, &limit):
		s += "; omit --limit to use the stored limit, or add --set-limit to change it"
	case errors.Is(err, coordinator.ErrUnavailable):
		s += "; \"baton doctor\" checks the service"
	}
	return s
}

// choice is a flag with a fixed set of values.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }

func (c *choice) Type() string {
	if len(c.of) > 4 {
		return "kind" // the help of the command lists them
	}
	return strings.Join(c.of, "|")
}

func (c *choice) Set(value string) error {
	if !slices.Contains(c.of, value) {
		return fmt.Errorf("want one of %s", strings.Join(c.of, ", "))
	}
	c.value = value
	return nil
}

// addChoice adds a choice flag, with shell completion, to a command.
func addChoice(cmd *cobra.Command, c *choice, name, short, help string) *choice {
	cmd.Flags().VarP(c, name, short, help)
	values := cobra.FixedCompletions(c.of, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(name, values)
	return c
}

// addOutput adds the flag that selects text or JSON.
func addOutput(cmd *cobra.Command) *choice {
	return addChoice(cmd, &choice{"text", []string{"text", "json"}}, "output", "o", "output format")
}

func (c *choice) json() bool { return c.value == "json" }

// addKind adds the flag that selects one kind of queue.
func addKind(cmd *cobra.Command, help string) *choice {
	return addChoice(cmd, &choice{"", kinds}, "kind", "", help)
}

// seconds is a duration flag. A plain number means seconds, as in flock and
// timeout.
type seconds struct{ d *time.Duration }

func (s seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	switch {
	case err != nil:
		return fmt.Errorf("%q is neither a number of seconds nor a duration such as 1m30s", text)
	case d < 0:
		return fmt.Errorf("%q is negative", text)
	}
	*s.d = d
	return nil
}

func (s seconds) String() string {
	if s.d == nil || *s.d == 0 {
		return "" // so that help shows no default
	}
	return s.d.String()
}

func (s seconds) Type() string { return "duration" }
