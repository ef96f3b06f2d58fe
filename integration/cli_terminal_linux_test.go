package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/batonbin"
	"github.com/baton-go/baton/integration/internal/servers"
)

// terminal is a shell with job control on a pseudo-terminal.
type terminal struct {
	t      *testing.T
	master *os.File
	shown  lockedBuffer
}

func openTerminal(t *testing.T, env ...string) *terminal {
	t.Helper()
	shell := exec.Command("bash", "--norc", "--noprofile", "-i")
	shell.Env = append(append(os.Environ(), "PS1=prompt$ ", "TERM=dumb"), env...)
	master, err := pty.Start(shell)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	x := &terminal{t: t, master: master}
	read := make(chan struct{})
	go func() { // until the terminal is closed
		defer close(read)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			if err != nil {
				return
			}
			_, _ = x.shown.Write(b[:n])
		}
	}()
	t.Cleanup(func() {
		_ = shell.Process.Kill()
		_ = shell.Wait()
		<-read
		if t.Failed() {
			t.Logf("the terminal showed:\n%s", x.shown.String())
		}
	})
	return x
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// shows waits for words that appear after the previous call.
func (x *terminal) shows(words string) {
	x.t.Helper()
	x.until(words)
}

// until is shows, and returns the output before the words.
func (x *terminal) until(words string) (before string) {
	x.t.Helper()
	await.Until(x.t, "the terminal to show "+words, func() bool {
		said, after, found := strings.Cut(x.shown.String(), words)
		if before = said; found {
			x.shown.mu.Lock()
			x.shown.b.Reset()
			x.shown.b.WriteString(after)
			x.shown.mu.Unlock()
		}
		return found
	})
	return before
}

// The terminal also echoes what is typed, so the commands spell their words in
// two parts.
func TestCommandControlsTheTerminal(t *testing.T) {
	t.Parallel()
	s := site{"etcd", servers.Etcd(t).Endpoints()}
	name := servers.Name(t)
	x := openTerminal(t, "BATON_URL="+s.url(10*time.Second), "B="+batonbin.Path(t), "N="+name)
	x.shows("prompt$ ")

	// The command reads the terminal, is stopped, continues in the foreground,
	// and ends at the end of its input.
	x.types(`"$B" lock "$N" -- sh -c 'echo rea""dy; cat; echo en""ded; exit 3'` + "\n")
	x.shows("ready")
	x.types("one\n")
	x.shows("one\r\none")
	x.types("\x1a") // Ctrl-Z
	x.shows("Stopped")
	x.shows("prompt$ ")
	x.types("fg\n")
	x.shows("$B")
	x.types("two\n")
	x.shows("two\r\ntwo")
	x.types("\x04") // Ctrl-D
	x.shows("ended")
	x.types("echo co''de $?\n")
	x.shows("code 3")

	// Ctrl-C goes to the command.
	x.types(`"$B" lock "$N" -- sh -c 'trap "echo tra""pped; exit 4" INT; echo rea""dy; while :; do sleep 0.05; done'` + "\n")
	x.shows("ready")
	x.types("\x03")
	x.shows("trapped")
	x.types("echo co''de $?\n")
	x.shows("code 4")

	// So it does in a script; if the command dies of it, the script ends, too.
	script := filepath.Join(t.TempDir(), "script.sh")
	if err := os.WriteFile(script, []byte(`"$B" lock "$N" -- sh -c 'trap "exit 5" TERM; echo ready; while :; do sleep 0.05; done'; echo next`), 0o600); err != nil {
		t.Fatal(err)
	}
	x.types("bash " + script + "\n")
	x.shows("ready")
	x.types("\x03")
	if said := x.until("prompt$ "); strings.Contains(said, "next") {
		t.Errorf("the script continued after Ctrl-C: %q", said)
	}

	// In a pipeline another process may have the terminal; the command gets it
	// when it reads.
	x.types(`"$B" lock "$N" -- sh -c 'echo rea""dy; read line; echo "go""t $line"' | cat` + "\n")
	x.shows("ready")
	x.types("three\n")
	x.shows("got three")

	// In the background the command is stopped when it reads, and the shell
	// notices.
	x.types(`"$B" lock "$N" -- sh -c 'read line; echo "go""t $line"' &` + "\n")
	x.shows("prompt$ ")
	for stopped := false; !stopped; {
		x.types("jobs; echo li''sted\n")
		stopped = strings.Contains(x.until("listed"), "Stopped")
	}
	x.types("fg\n")
	x.shows("$B")
	x.types("four\n")
	x.shows("got four")
	x.types("exit\n")
}

// Programs such as timeout make a process group of their own. As the command
// they already lead one, which is in the foreground.
func TestKeysReachACommandThatMakesAGroup(t *testing.T) {
	t.Parallel()
	s := site{"etcd", servers.Etcd(t).Endpoints()}
	x := openTerminal(t, "BATON_URL="+s.url(10*time.Second), "B="+batonbin.Path(t), "N="+servers.Name(t))
	x.shows("prompt$ ")
	// The kernel kills timeout, not its child, if baton is killed together with
	// its guard, as by the cleaning up after a test. So the child looks.
	x.types(`"$B" lock "$N" -- timeout 600 sh -c 'trap "echo tra""pped; exit 4" INT; echo rea""dy; while kill -0 $PPID; do sleep 0.05; done'` + "\n")
	x.shows("ready")
	x.types("\x1a") // Ctrl-Z
	x.shows("Stopped")
	x.shows("prompt$ ")
	x.types("fg\n")
	x.shows("$B")
	x.types("\x03") // Ctrl-C
	x.shows("trapped")
	x.types("exit\n")
}

// A shell aborts a script if its child dies of SIGINT. Baton catches the signal
// if the command is not in the foreground, and while it waits for the name.
func TestScriptEndsAtCtrlC(t *testing.T) {
	t.Parallel()
	s := site{"etcd", servers.Etcd(t).Endpoints()}
	name := servers.Name(t)
	x := openTerminal(t, "BATON_URL="+s.url(10*time.Second), "B="+batonbin.Path(t), "N="+name)
	x.shows("prompt$ ")
	for what, line := range map[string]string{
		"command without a terminal": `"$B" lock "$N" -- sh -c 'echo ready >&2; exec sleep 600' </dev/null | cat`,
		"output to a file":           `"$B" lock "$N" -- sh -c 'echo ready >&2; exec sleep 600' >/dev/null`,
		"waiting":                    `"$B" lock "$N" -- sh -c 'echo ready; "$B" lock "$N" -- true' </dev/null >&2`,
		"alone waiting":              `(sleep 0.5; echo ready) & "$B" lock "$N-held" -- true`,
	} {
		if what == "alone waiting" {
			batonHolding(t, s.url(10*time.Second), "lock", name+"-held")
		}
		script := filepath.Join(t.TempDir(), "script.sh")
		if err := os.WriteFile(script, []byte(line+"; echo next\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		x.types("bash " + script + "\n")
		x.shows("ready")
		x.types("\x03")
		if said := x.until("prompt$ "); strings.Contains(said, "next") {
			t.Errorf("%s: the script continued after Ctrl-C: %q", what, said)
		}
	}
	x.types("exit\n")
}

// No shell could continue a command that reads the terminal in an orphaned
// group, so it gets SIGHUP.
func TestCommandThatCannotGetTheTerminalIsHungUp(t *testing.T) {
	t.Parallel()
	s := site{"etcd", servers.Etcd(t).Endpoints()}
	outcome := filepath.Join(t.TempDir(), "outcome")
	x := openTerminal(t, "BATON_URL="+s.url(10*time.Second), "B="+batonbin.Path(t), "N="+servers.Name(t), "O="+outcome)
	x.shows("prompt$ ")
	x.types(`( ( "$B" lock "$N" -- sh -c 'cat </dev/tty'; echo $? >"$O" ) & )` + "\n")
	await.Until(t, "the command to end", func() bool {
		text, _ := os.ReadFile(outcome)
		return string(text) == "129\n"
	})
	x.types("exit\n")
}
