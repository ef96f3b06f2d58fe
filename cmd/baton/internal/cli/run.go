package cli

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/semaphore"
)

// The exit codes of the commands that run a command, beside that command's own.
// They are those of timeout and env.
const (
	exitTaken     = 1   // unless -E says otherwise
	exitLost      = 124 // the command was ended because the hold was lost, or about to be
	exitBroken    = 125 // baton itself failed
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128 // plus the signal's number
)

// What becomes of the command when the hold is lost.
const (
	onLostTerminate = "terminate"
	onLostKill      = "kill"
	onLostRun       = "run"
)

// runFlags are the options of the commands that run a command.
type runFlags struct {
	nonblock  bool
	wait      time.Duration
	waits     bool // wait is given
	conflict  int
	ttl       time.Duration
	identity  string
	payload   string
	payloads  bool // payload is given
	lockDelay time.Duration
	grace     time.Duration
	graces    bool // grace is given
	onLost    choice
	again     bool
}

const runLong = `
The command's standard streams and exit code are passed on, and so are signals. Its environment has
BATON_NAME, BATON_KIND, BATON_TOKEN, BATON_SEQUENCER, BATON_SESSION, BATON_IDENTITY, BATON_DEADLINE and
BATON_URL.

If the hold is about to be lost, because the service does not answer, the command and all that it has
started get SIGTERM, --grace before the deadline, and SIGKILL at the deadline, which is before anyone else
can hold. A renewal that comes after the SIGTERM does not take it back. If the hold is over without notice,
as by "baton break", others may hold already: SIGTERM at once, and SIGKILL after the grace.
%s
Ends with the command's exit code, or 128+n if signal n ended it; 1 (see -E) if somebody else holds and
--nonblock or --wait was given; 124 if the command was ended because the hold was lost; 125 if baton failed;
126 or 127 if the command cannot be run or is not found; 2 if the command line is wrong.`

// runnable makes a command that runs a command. build returns the recipe, once the flags are known.
func (a *app) runnable(c *cobra.Command, f *runFlags, r func() recipe) *cobra.Command {
	c.Long = strings.TrimSpace(c.Long) + "\n" + fmt.Sprintf(runLong, guarding)
	c.Args = nameAndCommand
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp // a name
		}
		return nil, cobra.ShellCompDirectiveDefault // the command and its files
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		f.waits, f.graces = cmd.Flags().Changed("wait"), cmd.Flags().Changed("grace")
		f.payloads = cmd.Flags().Changed("payload")
		for _, name := range []string{"ttl", "identity", "lock-delay"} {
			if given := cmd.Flags().Lookup(name); given != nil && given.Changed && given.Value.String() == "" {
				return usage(fmt.Errorf("--%s is given and empty, or zero: leave it out for its default", name))
			}
		}
		if err := f.check(); err != nil {
			return usage(err)
		}
		if f.waits && f.wait == 0 {
			f.nonblock, f.waits = true, false
		}
		path, err := find(args[1])
		if err != nil {
			return err
		}
		run := &run{app: a, flags: f, recipe: r(), name: args[0], path: path, argv: args[1:]}
		return run.main(cmd.Context())
	}
	set := c.Flags()
	set.SortFlags = false
	if set.Lookup("permits") != nil { // whose short form is -n
		set.BoolVar(&f.nonblock, "nonblock", false, "do not wait: fail if it is not to be had at once")
	} else {
		set.BoolVarP(&f.nonblock, "nonblock", "n", false, "do not wait: fail if it is not to be had at once")
	}
	set.VarP(seconds{&f.wait}, "wait", "w", "wait for no longer than this: 10, 0.5, 1m30s (plain numbers are seconds)")
	set.IntVarP(&f.conflict, "conflict-exit-code", "E", exitTaken, "exit code if it was not to be had")
	set.Var(seconds{&f.ttl}, "ttl", "how long others wait after a crash; the URL's ttl, or 10s, if it is not given")
	set.StringVar(&f.identity, "identity", "", "who holds, in listings; the URL's identity, or host/pid, if it is not given")
	set.Var(seconds{&f.grace}, "grace", "time from SIGTERM to SIGKILL when the hold is lost; 2s, or what the TTL allows, if it is not given")
	f.onLost = choice{onLostTerminate, []string{onLostTerminate, onLostKill, onLostRun}}
	addChoice(c, &f.onLost, "on-lost", "", "when the hold is lost: terminate, kill (no SIGTERM), or run (let it run on)")
	return c
}

// check checks what can be checked without the service.
func (f *runFlags) check() error {
	switch {
	case f.graces && f.onLost.value != onLostTerminate:
		return fmt.Errorf("--grace goes with --on-lost=%s only, not with %s", onLostTerminate, f.onLost.value)
	case f.nonblock && f.waits:
		return errors.New("--nonblock and --wait exclude each other")
	case f.conflict < 0 || f.conflict > 255:
		return fmt.Errorf("--conflict-exit-code %d: want 0 to 255", f.conflict)
	}
	return nil
}

// nameAndCommand wants NAME -- COMMAND [ARGUMENT]…
func nameAndCommand(c *cobra.Command, args []string) error {
	switch dash := c.ArgsLenAtDash(); {
	case dash == 1 && len(args) > 1:
		return nil
	case dash < 0 && len(args) > 1:
		return fmt.Errorf("no -- before the command: want %s", c.UseLine())
	default:
		return fmt.Errorf("%d arguments, want a name, --, and a command: %s", len(args), c.UseLine())
	}
}

// find returns the path of a program, or why there is none: before anything is waited for.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", cannotRun(err)
	}
	return path, nil
}

func (a *app) lock() *cobra.Command {
	f := &runFlags{}
	c := a.runnable(&cobra.Command{
		Use:   "lock [flags] NAME -- COMMAND [ARGUMENT]...",
		Short: "Run a command while holding a lock",
		Long:  "Waits until the lock NAME is free, in the order of asking, and runs a command while holding it.\n",
		Example: `  baton lock nightly-report -- ./report.sh
  baton lock -n deploy -- make deploy          # somebody deploys already: fail at once
  baton lock -w 30 -E 75 db-migration -- ./migrate`,
	}, f, func() recipe { return mutexRecipe(f) })
	f.addPayload(c)
	f.addLockDelay(c)
	return c
}

func (a *app) rlock() *cobra.Command {
	f := &runFlags{}
	c := a.runnable(&cobra.Command{
		Use:     "rlock [flags] NAME -- COMMAND [ARGUMENT]...",
		Short:   "Run a command while holding a read lock, together with other readers",
		Long:    "Waits until nobody who came before holds or wants the read-write lock NAME for writing, and runs a command while\nholding it for reading. See wlock. It has nothing to do with \"lock NAME\".\n",
		Example: `  baton rlock catalogue -- ./export.sh`,
	}, f, func() recipe { return rwlockRecipe(f, false) })
	f.addPayload(c)
	return c
}

func (a *app) wlock() *cobra.Command {
	f := &runFlags{}
	c := a.runnable(&cobra.Command{
		Use:     "wlock [flags] NAME -- COMMAND [ARGUMENT]...",
		Short:   "Run a command while holding a write lock, alone",
		Long:    "Waits until nobody else holds the read-write lock NAME, and runs a command while holding it for writing. See rlock.\n",
		Example: `  baton wlock catalogue -- ./rebuild.sh`,
	}, f, func() recipe { return rwlockRecipe(f, true) })
	f.addPayload(c)
	return c
}

func (a *app) sem() *cobra.Command {
	f, n, limit, slots := &runFlags{}, 0, 0, false
	c := &cobra.Command{
		Use:   "sem [flags] NAME -- COMMAND [ARGUMENT]...",
		Short: "Run a command while holding permits of a semaphore",
		Long: `Waits until permits of the semaphore NAME are free, in the order of asking, and runs a command while
holding them. The limit is stored at the name by the first who asks; who gives another one later is refused.
With --slots, BATON_SLOTS has the numbers of the permits, such as "3 7", which nobody else has meanwhile.
`,
		Example: `  baton sem --limit 10 downstream -- ./call.sh
  baton sem -n 2 --limit 8 --slots gpu -- sh -c './train --devices "$BATON_SLOTS"'`,
	}
	c.Flags().IntVarP(&n, "permits", "n", 1, "how many permits, all or none")
	c.Flags().IntVar(&limit, "limit", semaphore.Stored, "how many permits there are; what is stored at the name if it is not given")
	c.Flags().BoolVar(&slots, "slots", false, "give the command the numbers of its permits")
	c.Flags().Lookup("limit").DefValue = "0" // which help does not show
	c = a.runnable(c, f, func() recipe { return semaphoreRecipe(f, n, limit, slots) })
	f.addPayload(c)
	return c
}

func (a *app) elect() *cobra.Command {
	f, value := &runFlags{}, ""
	c := a.runnable(&cobra.Command{
		Use:   "elect [flags] NAME -- COMMAND [ARGUMENT]...",
		Short: "Run a command while leading",
		Long: `Campaigns in the election NAME and runs a command while leading: for one term, or, with --again, for one
after the other, until the command ends by itself. "baton leader NAME" tells who leads.
`,
		Example: `  baton elect --again --value 10.0.0.7:8080 scheduler -- ./scheduler`,
	}, f, func() recipe { return electionRecipe(f, value) })
	c.Flags().StringVar(&value, "value", "", "what others see of the leader, an address for instance; the identity if it is not given")
	c.Flags().BoolVar(&f.again, "again", false, "campaign again when a term was lost, and while the service is away")
	f.addLockDelay(c)
	return c
}

func (f *runFlags) addPayload(c *cobra.Command) {
	c.Flags().StringVar(&f.payload, "payload", "", "what listings show besides; the command's name, without its arguments, if it is not given")
}

func (f *runFlags) addLockDelay(c *cobra.Command) {
	c.Flags().Var(seconds{&f.lockDelay}, "lock-delay", "after a loss, let the name rest for so long, 1ms to 1m; all who use it give the same")
}

// options are those of the client.
func (f *runFlags) options() []coordinator.Option {
	var opts []coordinator.Option
	if f.ttl != 0 {
		opts = append(opts, coordinator.WithTTL(f.ttl))
	}
	if f.identity != "" {
		opts = append(opts, coordinator.WithIdentity(f.identity))
	}
	return opts
}
