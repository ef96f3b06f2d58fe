package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/cmd/baton/internal/ward"
	_ "github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// The test binary is also the guard process of the commands.
func TestMain(m *testing.M) {
	ward.Main()
	os.Exit(m.Run())
}

// result is the outcome of a command line.
type result struct {
	code     int
	out, err string
}

// patient has a TTL in which the slowest machine starts a command.
const patient = "memory://?ttl=5m"

func baton(t *testing.T, input string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(t.Context(), args, Env{
		In: strings.NewReader(input), Out: &out, Err: &errs,
		Getenv: func(name string) string { return map[string]string{"BATON_URL": patient}[name] },
		Environ: func() []string {
			return append(os.Environ(), "BATON_URL=of others", "BATON_SLOTS=of others", "BATON_TOKEN=of others",
				"BATON_SEQUENCER_3=of others", "BATON_SESSION=of others")
		},
	})
	return result{code, out.String(), errs.String()}
}

func TestWrongCommandLineExitsWith2AndTheReason(t *testing.T) {
	for _, c := range []struct {
		args string
		says []string
	}{
		{"lock", []string{"0 arguments", "NAME... -- COMMAND"}},
		{"lock name", []string{"no command", `baton lock name -- "$SHELL"`}},
		{"lock name true", []string{"no --"}},
		{"lock -- true", []string{"a name"}},
		{"lock a b --", []string{"2 arguments"}},
		{"lock -- -name", []string{"1 argument,", "NAME... -- COMMAND"}},
		{"lock -- -name --", []string{"2 arguments"}},
		{"lock -- grep -- true", []string{"a name"}},
		{"rlock -- -a -b -- true", []string{"4 arguments"}},
		{"lock a b a -- true", []string{"mutex/a", "twice"}},
		{"rlock a b -- true", []string{"3 arguments", "NAME -- COMMAND"}},
		{"group join a b -- true", []string{"3 arguments"}},
		{"group join -n a -- true", []string{"unknown shorthand flag"}},
		{"group list", []string{"0 arguments", "baton group list NAME"}},
		{"group list a/../b", []string{`".."`}},
		{"lock a/../b -- true", []string{`".."`}},
		{"lock --wait=soon name -- true", []string{"soon", "1m30s"}},
		{"lock --wait=-1 name -- true", []string{"-1", "negative"}},
		{"lock --wait=1e300 name -- true", []string{"1e300"}},
		{"lock -n -w 1 name -- true", []string{"nonblock", "wait"}},
		{"lock -E 256 name -- true", []string{"256", "0 to 255"}},
		{"lock --keep-running --grace=1 name -- true", []string{"grace", "keep-running"}},
		{"lock --ttl=10s --grace=5.5 name -- true", []string{"5.5s", "10s", "allows 5s"}},
		{"lock --ttl=1ms name -- true", []string{"1ms"}},
		{"lock --ttl=0 name -- true", []string{"ttl 0s"}},
		{"lock --lock-delay=2m name -- true", []string{"2m0s", "1m"}},
		{"rlock --lock-delay=1s name -- true", []string{"unknown flag"}},
		{"lock --identity=\x01 name -- true", []string{"identity"}},
		{"sem --limit=0 name -- true", []string{"limit"}},
		{"sem --permits 3 --limit=2 name -- true", []string{"3", "2"}},
		{"sem --permits 0 --limit=2 name -- true", []string{"0"}},
		{"sem --set-limit name -- true", []string{"--set-limit needs --limit"}},
		{"sem --set-limit --limit=0 name -- true", []string{"limit 0"}},
		{"elect --payload=x name -- true", []string{"unknown flag"}},
		{"leader", []string{"0 arguments", "baton leader NAME"}},
		{"list a b", []string{"2 arguments", "[PREFIX]"}},
		{"counter add x -5", []string{"-5", "write -- in front"}},
		{"lock -x name -- true", []string{"'x' in -x\n"}},
		{"leader -o xml name", []string{"xml", "json"}},
		{"check nonsense", []string{"nonsense"}},
		{"nonsense", []string{`unknown command "nonsense"`}},
		{"--nonsense", []string{"unknown flag"}},
		{"--url=nonsense:// lock name -- true", []string{"nonsense", "postgresql://…\n"}},
	} {
		r := baton(t, "", strings.Fields(c.args)...)
		if r.code != 2 || r.out != "" || !strings.HasPrefix(r.err, "baton: ") || strings.Contains(r.err, "baton: baton:") {
			t.Errorf("baton %s exits with %d and prints %q, %q", c.args, r.code, r.out, r.err)
		}
		for _, s := range c.says {
			if !strings.Contains(r.err, s) {
				t.Errorf("baton %s does not print %q, but %q", c.args, s, r.err)
			}
		}
	}
}

func TestStreamsOtherThanFilesReachTheCommand(t *testing.T) {
	needsShell(t)
	r := baton(t, "input", "lock", "name", "--", "sh", "-c", "cat; echo error >&2; exit 3")
	if r.code != 3 || r.out != "input" || r.err != "error\n" {
		t.Errorf("%+v", r)
	}
}

func TestEnvironmentDescribesTheHold(t *testing.T) {
	needsShell(t)
	for args, want := range map[string][]string{
		"lock name":                              {"BATON_KIND=mutex", "BATON_NAME=name", "BATON_URL=memory://", "BATON_TOKEN=", "BATON_SEQUENCER=", "BATON_SESSION="},
		"rlock name":                             {"BATON_KIND=rwlock"},
		"wlock --identity=me name":               {"BATON_KIND=rwlock", "BATON_IDENTITY=me"},
		"sem --permits 2 --limit 3 --slots name": {"BATON_KIND=semaphore", "BATON_PERMITS=2", "BATON_SLOTS=0 1\n"},
		"elect --value=v name":                   {"BATON_KIND=election", "BATON_VALUE=v"},
		"elect --identity=me name":               {"BATON_VALUE=me"},
		"group join --value=v name":              {"BATON_KIND=group", "BATON_NAME=name", "BATON_TOKEN=", "BATON_VALUE=v"},
		"group join --identity=me name":          {"BATON_VALUE=me"},
		"lock name -w 9 a/b":                     {"BATON_NAME_1=name\n", "BATON_NAME_2=a/b\n", "BATON_TOKEN_2=", "BATON_SEQUENCER_1=baton1:", "BATON_SESSION="},
	} {
		r := baton(t, "", append(strings.Fields(args), "--", "env")...)
		if r.code != 0 || strings.Contains(r.out, "of others") {
			t.Errorf("baton %s: %+v", args, r)
		}
		for _, w := range want {
			if !strings.Contains(r.out, w) {
				t.Errorf("baton %s: the environment has no %q: %s", args, w, r.out)
			}
		}
	}
}

// The variables are numbered as on the command line, not as the names are
// acquired, and each has its own token.
func TestEnvironmentHasATokenForEachName(t *testing.T) {
	needsShell(t)
	r := baton(t, "", "lock", "b", "a", "--", "sh", "-c", `echo "$BATON_NAME_1 $BATON_NAME_2 ${BATON_NAME-none} ${BATON_TOKEN-none}"
		echo "$BATON_TOKEN_1 $BATON_TOKEN_2"; echo "$BATON_SEQUENCER_1 $BATON_SEQUENCER_2"`)
	var first, second int
	lines := strings.Split(r.out, "\n")
	if r.code != 0 || len(lines) != 4 || lines[0] != "b a none none" {
		t.Fatalf("%+v", r)
	}
	if n, _ := fmt.Sscan(lines[1], &first, &second); n != 2 || second >= first {
		t.Errorf("tokens %q; want a greater one for b, which is acquired later", lines[1])
	}
	for i, want := range []string{fmt.Sprintf("mutex/b:%d:", first), fmt.Sprintf("mutex/a:%d:", second)} {
		if seq := strings.Fields(lines[2])[i]; !strings.Contains(seq, want) {
			t.Errorf("sequencer %q, want %q in it", seq, want)
		}
	}
}

func TestProgramThatCannotRunFailsBeforeTheWait(t *testing.T) {
	directory := 126
	if runtime.GOOS == "windows" { // where a program's name has an extension
		directory = 127
	}
	for program, code := range map[string]int{"no-such-program": 127, "/no/such/program": 127, "/": directory} {
		began := time.Now()
		// There is no service at this address: asking it first would yield
		// another exit code.
		r := baton(t, "", "--url=memory://nobody", "lock", "name", "--", program)
		if r.code != code {
			t.Errorf("%s: %+v after %v", program, r, time.Since(began))
		}
	}
}

func TestHelpAndVersionSucceed(t *testing.T) {
	for _, args := range []string{"", "help", "--help", "lock --help", "--version", "completion bash"} {
		if r := baton(t, "", strings.Fields(args)...); r.code != 0 || r.out == "" || r.err != "" {
			t.Errorf("baton %s exits with %d and prints %q, %q", args, r.code, r.out, r.err)
		}
	}
	if r := baton(t, "", "__complete", "inspect", "--kind", ""); !strings.Contains(r.out, "mutex\nrwlock\nsemaphore\nelection\n") {
		t.Errorf("completion of --kind: %+v", r)
	}
}

func TestLeaderFailsWithoutALeader(t *testing.T) {
	if r := baton(t, "", "leader", "name"); r.code != 1 || !strings.Contains(r.err, "nobody leads") {
		t.Errorf("%+v", r)
	}
}

// A candidate chooses its value, which must not control the reader's terminal
// or look like two leaders.
func TestLeadersValueIsQuotedIfNotPrintable(t *testing.T) {
	var out bytes.Buffer
	a := newApp(Env{Out: &out})
	if err := a.printLeader(recipes.Contender{Payload: []byte("me\n\x1b[2Jyou"), Identity: "web-1", Token: 7}, false); err != nil {
		t.Fatal(err)
	}
	if want := `"me\n\x1b[2Jyou" (web-1, token 7,`; !strings.HasPrefix(out.String(), want) {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// needsShell skips a test where there is no sh: on Windows.
func needsShell(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
}

// A failure between the grant and the start must not look like success.
func TestCommandThatWasNotStartedIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(false), 0)
		var errs bytes.Buffer
		r := &run{
			app:   newApp(Env{Err: &errs, Environ: os.Environ, Getenv: os.Getenv}),
			flags: &runFlags{}, kind: "mutex", client: s.client,
			path: "/no/such/program", argv: []string{"x"},
		}
		s.service.Expire(s.lock.Session())
		synctest.Wait()
		var exit *exitError
		g := &grant{hold: s.lock, release: s.lock.Unlock, environ: func(ctx context.Context) ([]string, error) {
			return variables(ctx, "name", "", s.lock)
		}}
		if err := r.under(t.Context(), g, 0); !errors.As(err, &exit) || exit.code != exitBroken {
			t.Errorf("under = %v", err)
		}
	})
}

// A command such as timeout(1) can exit with 124 itself; that is not a loss.
func TestCampaignIsNotRepeatedWhenTheCommandEnds(t *testing.T) {
	for _, code := range []int{0, 1, exitLost, exitBroken} {
		r := baton(t, "", "elect", "--again", "name", "--", "sh", "-c", fmt.Sprintf("echo ran; exit %d", code))
		if r.code != code || r.out != "ran\n" || r.err != "" {
			t.Errorf("a command that exits with %d: %+v", code, r)
		}
	}
}

// silent is a standard error that nobody reads: a write blocks.
type silent struct{}

func (silent) Write([]byte) (int, error) { select {} }

func TestMessageThatNobodyReadsDelaysNoSignal(t *testing.T) {
	needsShell(t)
	args := []string{"lock", "--grace=0.1", "name", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & exit 3"}
	code := Main(t.Context(), args, Env{Err: silent{}, Environ: os.Environ,
		Getenv: func(string) string { return patient }})
	if code != 3 {
		t.Errorf("baton exits with %d", code)
	}
}

func TestScriptWithoutItsShellRuns(t *testing.T) {
	needsShell(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("echo \"$1\"; exit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if r := baton(t, "", "lock", "name", "--", script, "word"); r.code != 3 || r.out != "word\n" {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(script, []byte("echo\x00"), 0o700); err != nil {
		t.Fatal(err)
	}
	if r := baton(t, "", "lock", "name", "--", script); r.code != exitCannotRun || r.out != "" {
		t.Errorf("no text: %+v", r)
	}
}

func TestNamesMayBeginWithADash(t *testing.T) {
	for _, c := range []string{
		"lock -- -name -- echo -n -- x", "lock -w 1 -- -n -E -- echo -n -- x", "sem --limit 1 -- -n -- echo -n -- x",
		"lock -name -- echo -n -- x", // as before: -n, -a, …
	} {
		r := baton(t, "", strings.Fields(c)...)
		if wrong := strings.HasPrefix(c, "lock -name"); wrong != (r.code == 2) || !wrong && r.out != "-- x" {
			t.Errorf("baton %s exits with %d and prints %q, %q", c, r.code, r.out, r.err)
		}
	}
}

// fullDisk is a standard output that takes so many bytes.
type fullDisk struct{ left int }

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(b []byte) (int, error) {
	if len(b) > d.left {
		return d.left, errFull
	}
	d.left -= len(b)
	return len(b), nil
}

func TestAnswerThatCannotBeWrittenIsAFailure(t *testing.T) {
	for args, reason := range map[string]string{
		"doctor":                       "",
		"doctor -o json":               "",
		"counter get name":             "",
		"list":                         "",
		"inspect name":                 "",
		"inspect --watch name":         "",
		"group list name":              "",
		"bench --duration 10ms":        "",
		"check 1:mutex:name:1:nothing": "",
		"--help":                       "",
		"--version":                    "",
		"counter get a/../b":           `".."`, // which is told as before
	} {
		var errs bytes.Buffer
		code := Main(t.Context(), strings.Fields(args), Env{Out: &fullDisk{}, Err: &errs,
			Getenv: func(string) string { return patient }, Environ: os.Environ})
		switch got := errs.String(); {
		case reason != "":
			if code != 2 || !strings.Contains(got, reason) {
				t.Errorf("baton %s exits with %d and says %q", args, code, got)
			}
		case strings.HasPrefix(args, "check"): // writes nothing
		case code != 1 || strings.Count(got, errFull.Error()) != 1 || !strings.HasPrefix(got, "baton: "):
			t.Errorf("baton %s on a full disk exits with %d and says %q", args, code, got)
		}
	}
}
