package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// summarize notes a server that was started.
func summarize(service, version string, nodes int) {
	dir, _ := os.Getwd()
	note("%s %s, %d node(s), package %s\n", service, version, nodes, filepath.Base(dir))
}

// note appends one queue to the file BATON_SUMMARY. A short queue is appended
// in one piece, so packages that run side by side do not mix theirs. It fails
// silently: the summary is for people.
func note(format string, args ...any) {
	path := os.Getenv("BATON_SUMMARY")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, format, args...)
}

// names makes Name unique within the process; the process id does the rest.
var names atomic.Int64

// Name is a recipe name that no other test uses, in this process or in others
// on the same server. It tells the test.
func Name(t testing.TB) string {
	test := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%s-%d-%d", test, os.Getpid(), names.Add(1))
}

// Skip skips a test for a reason that is no fault of the machine's owner: a
// privilege that it lacks, or time that was not given. The summary lists it, so
// that nothing is left out in silence.
func Skip(t testing.TB, reason string) {
	t.Helper()
	note("skipped %s: %s\n", t.Name(), reason)
	t.Skip(reason)
}

// CannotRun skips a test that needs what this machine does not allow.
func CannotRun(t testing.TB, err error) {
	t.Helper()
	Skip(t, fmt.Sprintf("cannot run here: %v", err))
}
