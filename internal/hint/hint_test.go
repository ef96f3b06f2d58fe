package hint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/baton-go/baton/internal/hint"
)

// TestPastedRemovalRunsNothingOfTheNames: who may write to a queue chooses the
// names of its entries, and an operator pastes the command, as it is or as a
// logger quotes it. With its rights, no text of the writer may run.
func TestPastedRemovalRunsNothingOfTheNames(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for _, name := range []string{
		"x;touch mark", "x;touch mark;y z", "x';touch mark;'", "x';touch mark;'\x01", "\u202e$(touch mark)", "`touch mark`", "$(touch mark)", `\';touch mark;'`, `";touch mark;"`,
		"x\n touch mark\n", "x&touch mark&", "-x;touch mark", strings.Repeat("x", 10_000) + "';touch mark;'",
	} {
		for _, text := range []string{hint.Removal("true", "", name, "other"), hint.Removal("true", "/dir/", "other", name),
			"true " + hint.Argument(name), "To free it: true --token 3 " + hint.Argument(name)} {
			if len(text) > 2000 {
				t.Errorf("a text of %d bytes", len(text))
			}
			quoted := strconv.Quote(text)
			for _, pasted := range []string{text, quoted, quoted[1 : len(quoted)-1]} {
				cmd := exec.Command(shell, "-c", pasted)
				cmd.Dir = t.TempDir()
				_ = cmd.Run() // it need not be a command
				if _, err := os.Stat(filepath.Join(cmd.Dir, "mark")); err == nil {
					t.Errorf("pasting this runs the writer's command: %s", pasted)
				}
			}
		}
	}
	if got := hint.Removal("etcdctl del", "ns/", "b c", "a"); got != "etcdctl del 'ns/a'; etcdctl del 'ns/b c'" {
		t.Errorf("of plain names: %s", got)
	}
}

// TestArgumentIsTheName, as a shell passes it on, if it is one that a user may
// give by hand.
func TestArgumentIsTheName(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"orders", "a/b-c_d.e", "a b", "*", "~", "#x", "x;y", "(x)", "<&|>", "-x", "--url", "é 日", "a!b"} {
		script := `baton() { printf %s "$*"; }; baton ` + hint.Argument(name)
		got, err := exec.Command(shell, "-c", script).Output()
		if want := name; err != nil || strings.TrimPrefix(string(got), "-- ") != want {
			t.Errorf("%s prints %q, %v", script, got, err)
		}
	}
	if got := hint.Argument("web/orders-2"); got != "web/orders-2" {
		t.Errorf("of a plain name: %s", got)
	}
	for _, name := range []string{"it's", "$HOME", "a\u200bb"} {
		if got := hint.Argument(name); !strings.HasPrefix(got, "NAME (percent-encoded: ") {
			t.Errorf("of %q: %s", name, got)
		}
	}
}
