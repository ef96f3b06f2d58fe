// Package ward runs a command that must not outlive the hold under which it
// runs: neither the command itself nor any process that it started.
//
//	starter ---- order, deadlines ------> guard ---- parent of ---> command
//	   |    <--- stops, status, empty ---   |                         |
//	   |                                    +-- gets orphans ----+  children
//	   +------- signals to all descendants of the guard ---------+----+
//
// # Who is ended
//
// A process group is not what a command consists of: timeout(1), shells with
// job control, parallel(1) and su(1) move their children to groups or sessions
// of their own. A control group would do, but needs rights that a user rarely
// has. So this package judges by descent. The guard, a second, small process of
// this program, starts the command, and on Linux it is a subreaper
// (PR_SET_CHILD_SUBREAPER): a descendant whose parent ends becomes the guard's
// child, also if it forked twice or has a session of its own. Therefore
//
//   - the command and its descendants are the guard's descendants, at all
//     times; a walk of the process table finds them;
//   - the guard has no child left (wait4 fails with ECHILD) if and only if no
//     descendant is left. The kernel moves an orphan before its parent can be
//     waited for, so this is exact. The walk is not: it reads one process after
//     the other. It decides whom to signal, and, while daemons that Spare lets
//     live are left, whether anything else is: see processes.
//
// To kill is to walk and send SIGKILL, parents first, until no child is left. A
// process with a pending SIGKILL cannot fork, so a walk after the signals finds
// all children that were born during the walk before. A chain of processes,
// each of which forks once and ends at once, can outrun the walks for a while,
// so the guard repeats them until the end. A process is signalled through a
// pidfd if its start time is still the one that the walk read, so a reused
// number hits nobody else.
//
// # Who ends it
//
// The guard knows the deadline. It kills all descendants when the deadline has
// passed, or when the pipe from the starter ends: the starter was killed. It
// catches every signal that can be caught, and is in no process group of the
// starter.
//
// If the guard is killed, the kernel kills the command (PR_SET_PDEATHSIG). The
// starter is a subreaper, too, and so becomes the parent of the rest, kills it
// and reads the command's status. By then it may have other orphans, such as
// those of a container whose first process it is: it spares those that are
// older than the guard, but cannot tell younger ones from the command's. If
// both are killed at the same moment, the command dies and its descendants are
// lost. A stopped guard is continued with each new deadline and each signal,
// and killed if it does not end within endWithin when it is told to.
//
// # Groups and the terminal
//
// With a controlling terminal the command leads a group of its own, as the job
// of an interactive shell does: it can have the foreground, and timeout(1) as
// the command does not leave it. Without one, the command is a member of the
// guard's group and leads none, as in a script: setsid(1) then makes the
// session without forking, and so remains the command.
//
// # Out of reach
//
// A process that another one started on the command's behalf is no descendant:
// systemd-run, docker run, at, ssh. A process with another user's rights, as
// under sudo, refuses signals. Start reports in Notes what it can see of this.
// Other systems than Linux have no subreaper: there a process is found if it is
// in the command's group, or if all processes between it and the guard live.
//
// Systems without process groups have no guard; see ward_other.go.
package ward

import (
	"errors"
	"io"
	"time"
)

// Spec describes a command.
type Spec struct {
	Path     string
	Args     []string // starts with the command's name
	Env      []string
	In       io.Reader // the command inherits a stream that is an *os.File
	Out, Err io.Writer

	Title    string    // the guard's argument, for listings of processes
	Deadline time.Time // the command is killed at this time; zero: it may outlive the starter

	// Say is called with a message for the user while the command runs. It
	// must not block. Nil drops the messages.
	Say func(message string)
}

// ErrUnguarded says that a command was not started, or was ended, because its
// guard failed.
var ErrUnguarded = errors.New("the command cannot be guarded")
