// Package ward runs a command that must not outlive what it was allowed to run under.
//
// On Unix the command has a process group of its own. Beside it stands a
// warden: this program once more, a small process that knows until when the
// command may run, and kills the group when that moment has passed, or when the
// process that started it is gone. So the command does not run on if its
// starter was killed or stopped.
//
//	starter ---- deadlines, end of file ----> warden
//	   |                                         |
//	   +------- signals, SIGKILL ---> group <----+ SIGKILL
//
// The warden is started first and makes the group. The command is born into it,
// so at no moment does it run unguarded; then the warden leaves the group, for
// what is left of it at the end must be told from an empty one. As long as the
// warden is there, nobody else can get the number of the group.
//
// Elsewhere there is neither a group nor a warden: see Guards.
package ward

import (
	"io"
	"time"
)

// Spec is what to run.
type Spec struct {
	Path     string
	Args     []string // the command's name comes first
	Env      []string
	In       io.Reader // an *os.File is handed over as it is, and so are the others
	Out, Err io.Writer

	Title    string    // what listings of processes show of the warden
	Deadline time.Time // until when the command may run; zero: for ever, and without its starter, too
}
