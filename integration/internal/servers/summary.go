package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// summarize appends one line about a server that was started to the file BATON_SUMMARY. A short line is
// appended in one piece, so packages that run side by side do not mix theirs. It fails silently: the
// summary is for people.
func summarize(service, version string, nodes int) {
	path := os.Getenv("BATON_SUMMARY")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	dir, _ := os.Getwd()
	fmt.Fprintf(f, "%s %s, %d node(s), package %s\n", service, version, nodes, filepath.Base(dir))
}

// names makes Name unique within the process; the process id does the rest.
var names atomic.Int64

// Name is a recipe name that no other test uses, in this process or in others on the same
// server. It tells the test.
func Name(t testing.TB) string {
	test := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%s-%d-%d", test, os.Getpid(), names.Add(1))
}
