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

// runLong is the part of the help that lock shows and the others refer to.
const runLong = `
The command has baton's standard streams, gets the signals that baton gets, and sets baton's
exit code. Children that outlive it are ended before the release, unless started with setsid.

If the service does not answer, the command and its children get SIGTERM, and one --grace
later SIGKILL, before anyone else can acquire the name. If the hold ends without notice, as by
"baton break", others may hold already: SIGTERM at once, SIGKILL after the grace. If baton
itself is killed or stopped, a guard process does the killing.

Environment of the command:
  BATON_NAME, BATON_KIND         the name; mutex, rwlock, semaphore or election
  BATON_TOKEN                    the fencing token, for the resource to check
  BATON_SEQUENCER                token, name and service in one, for "baton check"
  BATON_DEADLINE                 end of the hold without another renewal, as of the start
  BATON_SESSION, BATON_IDENTITY  session and holder, as listings show them
  BATON_URL                      the URL, also from --url, with its password

Exit codes: the command's own, 128+n if signal n ended it or the wait, or:
  1    the name is taken, with --nonblock or --wait (see -E)
  2    wrong command line, or another limit than the stored one
  124  the command was ended because the hold was lost or about to be
  125  baton failed: no service, or the session was lost while waiting
  126  the command cannot be run
  127  the command was not found`

const runSee = `
See "baton lock --help" for environment, signals, lost holds and exit codes.`

// runs makes c a command that runs a command while it holds. open is called
// when the flags are known.
func (a *app) runs(c *cobra.Command, f *runFlags, kind string, open opener) *cobra.Command {
	op := c.Use
	c.Use += runUse
	long := runSee
	if op == "lock" {
		long = runLong
	}
	c.Long = strings.TrimSpace(c.Long) + "\n" + long
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
		"longest wait: 10, 0.5, 1m30s (plain numbers are seconds)")
	set.IntVarP(&f.conflict, "conflict-exit-code", "E", exitTaken, "exit code if the name is taken")
	set.Var(seconds{&f.ttl}, "ttl",
		"how long others wait after a crash of baton (default: the URL's ttl, or 10s)")
	set.StringVar(&f.identity, "identity", "",
		"name of the holder in listings (default: the URL's identity, or host/pid)")
	set.Var(seconds{&f.grace}, "grace",
		"time from SIGTERM to SIGKILL at a loss, 0: no SIGTERM (default: 2s if the TTL allows it)")
	set.BoolVar(&f.keepRunning, "keep-running", false,
		"do not end the command when the hold is lost")
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
		Long:  `Runs a command while holding the lock NAME. Callers are served in order.`,
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
		Short: "Run a command while holding a read lock",
		Long: `Runs a command while holding the read-write lock NAME for reading: together with
other readers, after the writers that came first. "baton lock NAME" is another lock.`,
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
		Long:    `Runs a command while holding the read-write lock NAME for writing, alone.`,
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
stores its limit; callers with another limit are refused. BATON_PERMITS has the number of
permits, and with --slots BATON_SLOTS their numbers, such as "3 7", which no other holder has.`,
		Example: `  baton sem --limit 10 downstream -- ./call.sh
  baton sem --permits 2 --limit 8 --slots gpu -- sh -c './train --devices "$BATON_SLOTS"'`,
	}, f, "semaphore", f.semaphore)
	c.Flags().IntVar(&f.permits, "permits", 1, "number of permits to take, all or none")
	c.Flags().IntVar(&f.limit, "limit", semaphore.Stored,
		"number of permits in all (default: the stored limit)")
	c.Flags().BoolVar(&f.slots, "slots", false, "pass the numbers of the permits to the command")
	c.Flags().Lookup("limit").DefValue = "0" // which help does not show
	f.addPayload(c)
	return c
}

func (a *app) elect() *cobra.Command {
	f := &runFlags{}
	c := a.runs(&cobra.Command{
		Use:   "elect",
		Short: "Run a command while leading",
		Long: `Campaigns in the election NAME and runs a command while leading: for one term, or
with --again for one term after another until the command ends by itself. BATON_VALUE has the
proclaimed value. "baton leader NAME" prints who leads.`,
		Example: `  baton elect --again --value 10.0.0.7:8080 scheduler -- ./scheduler`,
	}, f, "election", f.election)
	c.Flags().StringVar(&f.value, "value", "",
		"what the leader proclaims, such as an address (default: the identity)")
	c.Flags().BoolVar(&f.again, "again", false,
		"campaign again after a lost term, and while the service is unavailable")
	f.addLockDelay(c)
	return c
}

func (f *runFlags) addPayload(c *cobra.Command) {
	c.Flags().StringVar(&f.payload, "payload", "",
		"text to show in listings (default: the command's name)")
}

func (f *runFlags) addLockDelay(c *cobra.Command) {
	c.Flags().Var(seconds{&f.lockDelay}, "lock-delay",
		"keep the name free for this long after a hold was lost, 1ms to 1m; the same for all users")
}
