package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// summarize records a started server.
func summarize(service, version string, nodes int) {
	dir, _ := os.Getwd()
	note("%s %s, %d node(s), package %s\n", service, version, nodes, filepath.Base(dir))
}

// note appends a line to the file BATON_SUMMARY. A short line is appended in
// one piece, so concurrent packages do not mix theirs. It fails silently: the
// summary is for people.
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

// names makes Name unique within the process; the process ID makes it unique on
// the machine.
var names atomic.Int64

// Name returns a recipe name that no other test uses, in this process or in
// others on the same server. It contains the test's name.
func Name(t testing.TB) string {
	test := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%s-%d-%d", test, os.Getpid(), names.Add(1))
}

// Skip skips a test that the machine cannot run for lack of a privilege or of
// time. The summary lists it, so that no test is skipped silently.
func Skip(t testing.TB, reason string) {
	t.Helper()
	note("skipped %s: %s\n", t.Name(), reason)
	t.Skip(reason)
}

// CannotRun skips a test that this machine does not allow.
func CannotRun(t testing.TB, err error) {
	t.Helper()
	Skip(t, fmt.Sprintf("cannot run here: %v", err))
}
