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
		"x';touch mark;'", "x';touch mark;'\x01", "\u202e$(touch mark)", "`touch mark`", "$(touch mark)", `\';touch mark;'`, `";touch mark;"`,
		"x\n touch mark\n", "x&touch mark&", "-x;touch mark", strings.Repeat("x", 10_000) + "';touch mark;'",
	} {
		for _, text := range []string{hint.Removal("true", "", name, "other"), hint.Removal("true", "/dir/", "other", name)} {
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
