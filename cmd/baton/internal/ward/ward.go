// Package ward runs a command that must not outlive what it was allowed to run
// under.
//
// On Unix the command runs in a process group of its own, which is led by a
// guard: a second, small process of this program. The guard knows until when
// the command may run. It kills the group when that deadline has passed, or
// when the process that started it is gone, so the command does not run on if
// its starter was killed or stopped.
//
//	starter ---- deadlines, end of file ----> guard
//	   |                                        |
//	   +------- signals, SIGKILL ---> group <---+ SIGKILL
//
// The guard is started first and makes the group, and the command is started
// inside it, so the command runs unguarded at no moment. The guard stays in the
// group and ignores every signal that can be ignored. SIGKILL for the group
// ends the guard together with everything that it guards. As long as the guard
// is there the system cannot give the group's number to another group.
//
// Systems without process groups have no guard; see ward_other.go.
package ward

import (
	"errors"
	"io"
	"time"
)

// Spec is what to run.
type Spec struct {
	Path     string
	Args     []string // the command's name comes first
	Env      []string
	In       io.Reader // an *os.File is passed on as it is, and so are the others
	Out, Err io.Writer

	Title    string    // shown for the guard in listings of processes
	Deadline time.Time // until when the command may run; zero: it may run for ever, without a guard
}

// ErrUnguarded says that a command was not started, or was ended, because
// nothing could guard it.
var ErrUnguarded = errors.New("the command cannot be guarded")
