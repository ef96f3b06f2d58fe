package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
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
	graces      bool // grace is given
	keepRunning bool
	again       bool

	permits, limit int    // sem
	slots          bool   // sem
	value          string // elect
}

const runUse = " [flags] NAME -- COMMAND [ARGUMENT]..."

const runLong = `
The command gets baton's standard streams and the signals that baton gets, and baton ends with
the command's exit code. The command's environment has BATON_NAME, BATON_KIND, BATON_TOKEN,
BATON_SEQUENCER, BATON_SESSION, BATON_IDENTITY, BATON_DEADLINE and BATON_URL.

If the service does not answer, the hold is lost at a deadline that baton knows, before anyone
else can hold. The command and all that it has started get SIGTERM --grace before the deadline,
and SIGKILL at the deadline. A renewal that comes after the SIGTERM does not take it back. If
the hold is lost without notice, as by "baton break", others may hold already: SIGTERM at once,
and SIGKILL after the grace.

The command runs in a process group of its own. If baton itself is killed, or stopped until
after the deadline, a small process beside it kills the group. What the command leaves running
when it ends is ended as well, before the hold is released; start with setsid what shall live
on.

Exit codes: the command's, or 128+n if signal n ended it; 1 (see -E) if someone else holds and
--nonblock or --wait was given; 124 if the command was ended because the hold was lost; 125 if
baton failed; 126 or 127 if the command cannot be run or is not found; 2 if the command line is
wrong.`

// runs makes c a command that runs a command while it holds. open is called
// when the flags are known.
func (a *app) runs(c *cobra.Command, f *runFlags, kind string, open opener) *cobra.Command {
	op := c.Use
	c.Use += runUse
	c.Long = strings.TrimSpace(c.Long) + "\n" + runLong
	c.Args = nameAndCommand
	set := c.Flags()
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if f.conflict < 0 || f.conflict > 255 {
			return usage(fmt.Errorf("--conflict-exit-code %d: want 0 to 255", f.conflict))
		}
		f.graces = set.Changed("grace")
		f.nonblock = f.nonblock || set.Changed("wait") && f.wait == 0
		path, err := exec.LookPath(args[1]) // before anything is waited for
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return cannotRun(err)
		}
		// Not the arguments: everyone who can read the service sees this, and
		// arguments can have secrets.
		f.payload = cmp.Or(f.payload, filepath.Base(path))
		var opts []coordinator.Option
		if set.Changed("ttl") {
			opts = append(opts, coordinator.WithTTL(f.ttl))
		}
		if f.identity != "" {
			opts = append(opts, coordinator.WithIdentity(f.identity))
		}
		r := &run{app: a, flags: f, kind: kind, op: op, name: args[0], path: path, argv: args[1:]}
		return r.main(cmd.Context(), open, opts)
	}
	set.SortFlags = false
	set.BoolVarP(&f.nonblock, "nonblock", "n", false, "fail immediately if the name is taken")
	set.VarP(seconds{&f.wait}, "wait", "w",
		"fail after this time of waiting: 10, 0.5, 1m30s (plain numbers are seconds)")
	set.IntVarP(&f.conflict, "conflict-exit-code", "E", exitTaken, "exit code if the name is taken")
	set.Var(seconds{&f.ttl}, "ttl",
		"how long others wait after a crash of baton (default: the URL's ttl, or 10s)")
	set.StringVar(&f.identity, "identity", "",
		"name of the holder in listings (default: the URL's identity, or host/pid)")
	set.Var(seconds{&f.grace}, "grace",
		"time from SIGTERM to SIGKILL at a loss, 0: no SIGTERM (default: 2s if the TTL allows it)")
	set.BoolVar(&f.keepRunning, "keep-running", false,
		"let the command run on when the hold is lost")
	c.MarkFlagsMutuallyExclusive("nonblock", "wait")
	c.MarkFlagsMutuallyExclusive("grace", "keep-running")
	return c
}

// nameAndCommand wants NAME -- COMMAND [ARGUMENT]…
func nameAndCommand(c *cobra.Command, args []string) error {
	switch dash := c.ArgsLenAtDash(); {
	case dash == 1 && len(args) > 1:
		return nil
	case dash < 0 && len(args) > 1:
		return fmt.Errorf("no -- before the command: want %s", c.UseLine())
	default:
		return fmt.Errorf("%d arguments, want a name, -- and a command: %s", len(args), c.UseLine())
	}
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
		Short: "Run a command while holding a lock",
		Long: `Waits until the lock NAME is free, in the order of asking, and runs a command
while holding it.`,
		Example: `  baton lock nightly-report -- ./report.sh
  baton lock -n deploy -- make deploy
  baton lock -w 30 -E 75 db-migration -- ./migrate`,
	}, f, "mutex", f.mutex)
	f.addPayload(c)
	f.addLockDelay(c)
	return c
}

func (a *app) rlock() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:   "rlock",
		Short: "Run a command while holding a read lock, together with other readers",
		Long: `Waits until no earlier writer holds the read-write lock NAME or waits for it,
and runs a command while holding it for reading. See wlock. It has nothing to do with "lock
NAME".`,
		Example: `  baton rlock catalogue -- ./export.sh`,
	}, f, "rwlock", f.readLock)
	f.addPayload(c)
	return c
}

func (a *app) wlock() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:   "wlock",
		Short: "Run a command while holding a write lock, alone",
		Long: `Waits until nobody else holds the read-write lock NAME, and runs a command
while holding it for writing. See rlock.`,
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
		Long: `Waits until permits of the semaphore NAME are free, in the order of asking,
and runs a command while holding them. The first caller stores its limit at the name; a caller
with another limit is refused. With --slots, BATON_SLOTS has the numbers of the permits, such as
"3 7", which nobody else has meanwhile.`,
		Example: `  baton sem --limit 10 downstream -- ./call.sh
  baton sem --permits 2 --limit 8 --slots gpu -- sh -c './train --devices "$BATON_SLOTS"'`,
	}, f, "semaphore", f.semaphore)
	c.Flags().IntVar(&f.permits, "permits", 1, "number of permits to take, all or none")
	c.Flags().IntVar(&f.limit, "limit", semaphore.Stored,
		"number of permits that there are (default: the stored one)")
	c.Flags().BoolVar(&f.slots, "slots", false, "give the command the numbers of its permits")
	c.Flags().Lookup("limit").DefValue = "0" // which help does not show
	f.addPayload(c)
	return c
}

func (a *app) elect() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:   "elect",
		Short: "Run a command while leading",
		Long: `Campaigns in the election NAME and runs a command while leading: for one term,
or, with --again, for term after term until the command ends by itself. "baton leader NAME"
prints who leads.`,
		Example: `  baton elect --again --value 10.0.0.7:8080 scheduler -- ./scheduler`,
	}, f, "election", f.election)
	c.Flags().StringVar(&f.value, "value", "",
		"what the leader proclaims, for example an address (default: the identity)")
	c.Flags().BoolVar(&f.again, "again", false,
		"campaign again when a term was lost, and while the service is unavailable")
	f.addLockDelay(c)
	return c
}

func (f *runFlags) addPayload(c *cobra.Command) {
	c.Flags().StringVar(&f.payload, "payload", "",
		"text to show in listings (default: the command's name, without its arguments)")
}

func (f *runFlags) addLockDelay(c *cobra.Command) {
	c.Flags().Var(seconds{&f.lockDelay}, "lock-delay",
		"keep the name free for this time after a hold was lost, 1ms to 1m; the same for all users")
}
