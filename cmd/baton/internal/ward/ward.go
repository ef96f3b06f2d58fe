// Package ward runs a command that must not outlive the hold under which it
// runs.
//
// On Unix the command runs in a process group of its own, whose leader is the
// guard: a second, small process of this program. The guard knows the command's
// deadline. It kills the group when the deadline has passed or the starter has
// ended, so the command does not run on if its starter is killed or stopped.
//
//	starter ---- deadlines, end of file ----> guard
//	   |                                        |
//	   +------- signals, SIGKILL ---> group <---+ SIGKILL
//
// The guard is started first and creates the group; the command is started
// inside it, so it is guarded at every moment. The guard stays in the group and
// ignores every signal that can be ignored. SIGKILL for the group ends the
// guard, too. While the guard lives, the system cannot reuse the group's ID.
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
	Deadline time.Time // the guard kills the command at this time; zero: no guard
}

// ErrUnguarded says that a command was not started, or was ended, because its
// guard failed.
var ErrUnguarded = errors.New("the command cannot be guarded")
