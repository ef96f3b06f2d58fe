package cli

import (
	"bytes"
	"context"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/baton-go/baton/cmd/baton/internal/ward"
)

var update = flag.Bool("update", false, "write the --help of each command into docs/cli.md")

const reference = "../../../../docs/cli.md"

// TestReferenceShowsTheHelp: docs/cli.md has the --help of each command, in a
// block after the marker of the command:
//
//	<!-- help: baton lock -->
//	```text
//	…
//	```
//
// Shared flags and texts are printed once: see once.
func TestReferenceShowsTheHelp(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	written := string(text)
	lock := helpOf(t, []string{"lock"})
	a := newApp(Env{})
	for _, c := range append(a.root().Commands(), a.root()) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		begin := "<!-- help: " + c.CommandPath() + " -->\n```text\n"
		before, rest, found := strings.Cut(written, begin)
		_, after, ended := strings.Cut(rest, "```\n")
		if !found || !ended {
			t.Errorf("%s has no block for the help of %q: want %q, and a closing fence", reference, c.CommandPath(), begin)
			continue
		}
		written = before + begin + once(helpOf(t, strings.Fields(c.CommandPath())[1:]), lock) + "```\n" + after
	}
	if written == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s differs from --help: go test ./cmd/baton/internal/cli -run Reference -update", reference)
	}
	if err := os.WriteFile(reference, []byte(written), 0o644); err != nil {
		t.Fatal(err)
	}
}

// once removes the shared parts from a command's help: the global flags, which
// the help of baton shows, -h and -o; and from the commands that run a command
// the flags that lock shows, and runSee.
func once(help, lock string) string {
	help, _, _ = strings.Cut(help, "\nGlobal Flags:\n")
	from, to := strings.Index(lock, "  -n, --nonblock"), strings.Index(lock, "      --payload")
	if !strings.HasPrefix(lock, help) { // it is not lock itself
		help = lockFlags.ReplaceAllString(strings.Replace(help, lock[from:to], "", 1), "")
	}
	help = strings.Replace(help, runSee+"\n", "", 1)
	return strings.TrimSuffix(everyFlag.ReplaceAllString(help, ""), "\nFlags:\n")
}

var (
	everyFlag = regexp.MustCompile(`(?m)^  (-h, --help|-o, --output) .*\n`)
	lockFlags = regexp.MustCompile(`(?m)^      --(payload|lock-delay) .*\n`)
)

func helpOf(t *testing.T, command []string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(context.Background(), append(command, "--help"), Env{
		In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Environ: func() []string { return nil },
	})
	if code != 0 || errs.Len() > 0 {
		t.Fatalf("baton %v --help exits with %d and prints %q", command, code, errs.String())
	}
	return strings.ReplaceAll(out.String(), ward.Limits, "") // the page has it for all systems together
}
