package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/baton-go/baton/cmd/baton/internal/ward"
	"github.com/baton-go/baton/coordinator"
	advice "github.com/baton-go/baton/internal/hint"
	"github.com/baton-go/baton/semaphore"
)

// The exit codes of the commands that run a command, besides that command's
// own. timeout and env use the same ones.
const (
	exitTaken     = 1   // default of -E
	exitLost      = 124 // baton ended the command: the hold was lost, or about to be
	exitBroken    = 125 // baton itself failed
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128 // plus the signal's number
)

// runFlags are the options of the commands that run a command.
type runFlags struct {
	nonblock    bool
	wait        time.Duration
	conflict    int
	ttl         time.Duration
	identity    string
	payload     string
	lockDelay   time.Duration
	grace       time.Duration
	graces      bool // --grace was given
	keepRunning bool
	again       bool

	permits, limit int    // sem
	slots          bool   // sem
	setLimit       bool   // sem
	value          string // elect
}

const (
	runUse     = " [flags] NAME -- COMMAND [ARGUMENT]..."
	runManyUse = " [flags] NAME... -- COMMAND [ARGUMENT]..."
)

// runLong is the help of lock to which the other commands refer.
const runLong = `
The command inherits baton's standard streams and receives the signals sent to baton. Before the
release baton ends all processes that the command left running, unless they are in a session of
their own, as with setsid; then it names them.

If the service does not answer, the command and all its descendants get SIGTERM, and --grace later
SIGKILL, before anyone else can acquire the name. If the hold ends without warning, for example
by "baton break", others may hold the name already: SIGTERM at once, SIGKILL after the grace.
If baton itself is killed or stopped, a guard process kills them.

Environment of the command:
  BATON_NAME, BATON_KIND         the name; mutex, rwlock, semaphore, election or group
  BATON_TOKEN                    the fencing token, for the resource to check
  BATON_SEQUENCER                token, name and service in one string, for "baton check"
  BATON_DEADLINE                 when the hold ends without a renewal, as known at the start
  BATON_SESSION, BATON_IDENTITY  the session and the holder's identity, as baton inspect shows them
  BATON_URL                      the service's URL, with its password
With several names, BATON_NAME_1, BATON_TOKEN_1 and BATON_SEQUENCER_1 are those of the first name
given, BATON_NAME_2 and so on those of the second; these three are not set without a number.
BATON_SEQUENCER is not set for queues shared with other clients: the URL has a layout.

Exit codes: the command's own, 128+n if signal n ended the command or the wait, or:
  1    the name, or one of them, is taken, with --nonblock or --wait (see -E)
  2    wrong command line, or --limit differs from the stored limit
  124  baton ended the command because the hold was lost or about to be lost
  125  baton failed: the service is unavailable, or the session was lost while waiting
  126  the command cannot be run
  127  the command was not found`

const runSee = `
See "baton lock --help" for environment, signals, lost holds, exit codes.`

// runs makes c a command that runs a command under a hold. open is called once
// the flags are parsed.
func (a *app) runs(c *cobra.Command, f *runFlags, kind string, open opener) *cobra.Command {
	op, names := c.Use, 1
	use, long := runUse, runSee
	if op == "lock" {
		use, long, names = runManyUse, runLong, math.MaxInt
	}
	c.Use += use
	c.Long = strings.TrimSpace(c.Long) + "\n" + long + ward.Limits
	c.Args = namesAndCommand(names)
	set := c.Flags()
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if f.conflict < 0 || f.conflict > 255 {
			return usage(fmt.Errorf("--conflict-exit-code %d: want 0 to 255", f.conflict))
		}
		f.graces = set.Changed("grace")
		f.nonblock = f.nonblock || set.Changed("wait") && f.wait == 0
		names, argv := splitAtDash(cmd, args)
		path, err := exec.LookPath(argv[0]) // fail before the wait
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return cannotRun(err)
		}
		// Not the arguments: they can contain secrets, and everyone with access
		// to the service can read the payload.
		f.payload = cmp.Or(f.payload, filepath.Base(path))
		var opts []coordinator.Option
		if set.Changed("ttl") {
			opts = append(opts, coordinator.WithTTL(f.ttl))
		}
		if f.identity != "" {
			opts = append(opts, coordinator.WithIdentity(f.identity))
		}
		r := &run{app: a, flags: f, kind: kind, op: op, names: names, path: path, argv: argv}
		return r.main(cmd.Context(), open, opts)
	}
	set.SortFlags = false
	if kind != "group" { // where nobody waits
		f.addWait(c)
	}
	set.Var(seconds{&f.ttl}, "ttl",
		"how long others wait if baton crashes (default: the URL's ttl, or 10s)")
	set.StringVar(&f.identity, "identity", "",
		"holder's name in baton inspect (default: the URL's identity, or host/pid)")
	set.Var(seconds{&f.grace}, "grace",
		"time from SIGTERM to SIGKILL after a loss; 0: no SIGTERM (default: 2s, less with a short TTL)")
	set.BoolVar(&f.keepRunning, "keep-running", false,
		"do not end the command when the hold is lost")
	c.MarkFlagsMutuallyExclusive("grace", "keep-running")
	return c
}

func (f *runFlags) addWait(c *cobra.Command) {
	set := c.Flags()
	set.BoolVarP(&f.nonblock, "nonblock", "n", false, "fail immediately if the name is taken")
	set.VarP(seconds{&f.wait}, "wait", "w",
		"maximum wait: 10, 0.5, 1m30s; plain numbers are seconds (default: no limit)")
	set.IntVarP(&f.conflict, "conflict-exit-code", "E", exitTaken, "exit code if the name is taken")
	c.MarkFlagsMutuallyExclusive("nonblock", "wait")
}

// namesAndCommand checks for NAME -- COMMAND [ARGUMENT]…, with up to so many
// names.
func namesAndCommand(most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		names, argv := splitAtDash(c, args)
		switch {
		case len(names) >= 1 && len(names) <= most && len(argv) > 0:
			return nil
		case c.ArgsLenAtDash() < 0 && len(args) > 1:
			return fmt.Errorf("no -- before the command: want %s", c.UseLine())
		case len(args) == 1 && len(argv) == 0:
			return fmt.Errorf("no command: want %s; for a shell: %s %s -- \"$SHELL\"",
				c.UseLine(), c.CommandPath(), advice.Argument(args[0]))
		default:
			return fmt.Errorf("%s, want a name, -- and a command: %s", plural(len(args), "argument"), c.UseLine())
		}
	}
}

// splitAtDash returns what stands before and after the -- of a command. Names
// that begin with "-" are names if another -- stands before them:
//
//	baton lock -- -name -- COMMAND
func splitAtDash(c *cobra.Command, args []string) (names, argv []string) {
	dash := c.ArgsLenAtDash()
	switch {
	case dash < 0:
		return nil, nil
	case dash == 0 && len(args) > 0 && strings.HasPrefix(args[0], "-"): // no command begins so
		if second := slices.Index(args, "--"); second > 0 {
			return args[:second], args[second+1:]
		}
	}
	return args[:dash], args[dash:]
}

// cannotRun is the error for a command that was not started.
func cannotRun(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &exitError{code: exitNotFound, err: err}
	}
	return &exitError{code: exitCannotRun, err: err}
}

func (a *app) lock() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:   "lock",
		Short: "Run a command while holding a lock, or several",
		Long: `Runs a command while holding the lock NAME. Waiters acquire it in order of arrival.
With several names it holds all or none. All callers acquire them in one order, so that they do not
deadlock. A baton lock inside another one leaves that order, and can. For a name that begins with
"-", write: baton lock -- -NAME -- COMMAND.`,
		Example: `  baton lock nightly-report -- ./report.sh
  baton lock -n deploy -- make deploy
  baton lock -w 30 -E 75 db-migration -- ./migrate
  baton lock account-17 account-42 -- sh -c './transfer "$BATON_TOKEN_1" "$BATON_TOKEN_2"'`,
	}, f, "mutex", f.mutex)
	f.addPayload(c)
	f.addLockDelay(c)
	return c
}

func (a *app) rlock() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:   "rlock",
		Short: "Run a command while holding a read lock",
		Long: `Runs a command while holding the read-write lock NAME for reading. Readers share
it; a reader waits for the writers queued before it. "baton lock NAME" is a different lock.`,
		Example: `  baton rlock catalogue -- ./export.sh`,
	}, f, "rwlock", f.readLock)
	f.addPayload(c)
	return c
}

func (a *app) wlock() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:     "wlock",
		Short:   "Run a command while holding a write lock",
		Long:    `Runs a command while holding the read-write lock NAME for writing, exclusively.`,
		Example: `  baton wlock catalogue -- ./rebuild.sh`,
	}, f, "rwlock", f.writeLock)
	f.addPayload(c)
	return c
}

func (a *app) sem() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:   "sem",
		Short: "Run a command while holding permits of a semaphore",
		Long: `Runs a command while holding permits of the semaphore NAME. The first caller
stores its limit; callers with a different limit are refused, unless with --set-limit, which stores
it. Callers without --limit use the stored one. BATON_PERMITS is the number of permits. With --slots,
BATON_SLOTS lists their numbers, such as "3 7"; no two holders share one.`,
		Example: `  baton sem --limit 10 --set-limit downstream -- ./call.sh
  baton sem --permits 2 --limit 8 --slots gpu -- sh -c './train --devices "$BATON_SLOTS"'`,
	}, f, "semaphore", f.semaphore)
	c.Flags().IntVar(&f.permits, "permits", 1, "number of permits to acquire, all or none")
	c.Flags().IntVar(&f.limit, "limit", semaphore.Stored,
		"total number of permits (default: the stored limit)")
	c.Flags().BoolVar(&f.setLimit, "set-limit", false, "store --limit if another limit is stored")
	c.Flags().BoolVar(&f.slots, "slots", false, "pass the permits' numbers to the command")
	c.Flags().Lookup("limit").DefValue = "0" // which help does not show
	f.addPayload(c)
	return c
}

func (a *app) elect() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:   "elect",
		Short: "Run a command while leading",
		Long: `Campaigns in the election NAME and runs a command while leading: for one term, or,
with --again, for one term after another until the command ends by itself. BATON_VALUE is the
proclaimed value. "baton leader NAME" prints the leader.`,
		Example: `  baton elect --again --value 10.0.0.7:8080 scheduler -- ./scheduler`,
	}, f, "election", f.election)
	c.Flags().StringVar(&f.value, "value", "",
		"value that the leader proclaims, such as an address (default: the identity)")
	c.Flags().BoolVar(&f.again, "again", false,
		"campaign again after a lost term, and while the service is unavailable")
	f.addLockDelay(c)
	return c
}

func (f *runFlags) addPayload(c *cobra.Command) {
	c.Flags().StringVar(&f.payload, "payload", "",
		"text shown by baton inspect (default: the command's name)")
}

func (f *runFlags) addLockDelay(c *cobra.Command) {
	c.Flags().Var(seconds{&f.lockDelay}, "lock-delay",
		"time for which nobody gets the name after a loss, 1ms to 1m; the same for all users (default: 0)")
}
