package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/integration/internal/stall"
)

// trial is a module with a test of each kind. The tests that fail once leave a
// file, and pass when they find it.
const trial = `package trial

import (
	"os"
	"testing"
)

func fails(t *testing.T, message string) {
	if _, err := os.Stat(t.Name()); err == nil {
		return
	}
	if err := os.WriteFile(t.Name(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Fatal(message)
}

func TestPasses(t *testing.T) { t.Run("part", func(*testing.T) {}) }
func TestSkips(t *testing.T) { t.Skip("needs another machine") }
func TestLateOnce(t *testing.T) { fails(t, "not within 5s: the waiter is admitted") }
func TestWrongOnce(t *testing.T) { fails(t, "two holders") }
func TestLateAndWrongOnce(t *testing.T) {
	t.Error("not within 5s: the waiter is admitted")
	fails(t, "two holders")
}
func FuzzPasses(f *testing.F) { f.Fuzz(func(*testing.T, string) {}) }
func testing1(t *testing.T) {}
func Example() {
	os.Stdout.WriteString("x")
	// Output: x
}
`

func writeTrial(t *testing.T, source string) (root string, s step) {
	t.Helper()
	root = t.TempDir()
	for name, content := range map[string]string{"go.mod": "module trial\n\ngo 1.26\n", "trial_test.go": source} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root, step{name: "trial", lane: plain, dir: ".", packages: []string{"."}}
}

// always is a detector that saw the machine stand still all the time.
func always() *stall.Record {
	return stall.Of(stall.Stall{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
}

func runTrial(t *testing.T, source string, stalls *stall.Record) (report *report, out string, passed bool) {
	t.Helper()
	root, s := writeTrial(t, source)
	var printed, log bytes.Buffer
	report = newReport(&printed, &log, 0)
	runLanes(t.Context(), root, []step{s}, report, stalls)
	report.end()
	passed = report.summary(stalls)
	return report, printed.String(), passed
}

func TestOnlyALateTestOfAStalledMachineIsRunAgain(t *testing.T) {
	report, out, passed := runTrial(t, trial, always())
	if passed || len(report.seconds) != 1 || report.seconds[0].test != "TestLateOnce" {
		t.Errorf("passed %v, run again: %v", passed, report.seconds)
	}
	for _, want := range []string{
		"RUN AGAIN trial TestLateOnce: late while the machine stood still",
		"FAILED trial TestWrongOnce", "two holders", "FAILED trial TestLateAndWrongOnce",
		"trial TestSkips: needs another machine",
		"\n4 passed, 2 failed, 1 skipped\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

func TestLateTestFailsIfTheMachineDidNotStandStill(t *testing.T) {
	report, _, passed := runTrial(t, trial, stall.Of())
	if passed || len(report.seconds) != 0 || len(report.failures) != 3 {
		t.Errorf("passed %v, run again: %v, failed: %v", passed, report.seconds, report.failures)
	}
}

func TestPackagesThatFailByThemselvesAreReported(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"does not compile": {"package trial\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { undefined() }\n", "undefined"},
		"panics":           {"package trial\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { go panic(\"late\"); select {} }\n", "panic: late"},
		"ends early":       {"package trial\n\nimport (\"os\"; \"testing\")\n\nfunc TestX(t *testing.T) { os.Exit(3) }\n", "TestX"},
	} {
		t.Run(name, func(t *testing.T) {
			report, out, passed := runTrial(t, c.source, always())
			if passed || len(report.seconds) != 0 || !strings.Contains(out, c.want) {
				t.Errorf("passed %v, run again %v, without %q:\n%s", passed, report.seconds, c.want, out)
			}
		})
	}
}

// Two tests meet at a pipe: each end waits until the other is open. The third
// needs what they leave.
const meeting = `package trial

import (
	"os"
	"testing"
)

func open(t *testing.T, flag int) {
	f, err := os.OpenFile("pipe", flag, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.WriteFile(t.Name(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReads(t *testing.T) { open(t, os.O_RDONLY) }
func TestWrites(t *testing.T) { open(t, os.O_WRONLY) }
func TestIsLast(t *testing.T) {
	for _, name := range []string{"TestReads", "TestWrites"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}
`

func TestLanesRunBesideEachOtherAndTheRestAfterThem(t *testing.T) {
	root, s := writeTrial(t, meeting)
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	var steps []step
	for l, test := range map[lane]string{alone: "TestIsLast", plain: "TestReads", served: "TestWrites"} {
		s.name, s.lane, s.run = test, l, "^"+test+"$"
		steps = append(steps, s)
	}
	var out, log bytes.Buffer
	report := newReport(&out, &log, len(steps))
	runLanes(t.Context(), root, steps, report, stall.Of())
	report.end()
	if !report.summary(stall.Of()) || report.passed != len(steps) {
		t.Errorf("%d of %d passed:\n%s", report.passed, len(steps), &out)
	}
}

func TestCountIsThatOfTheGoCommand(t *testing.T) {
	root, s := writeTrial(t, trial)
	s.skip = "^TestSkips$"
	if n, err := count(root, []step{s}); err != nil || n != 6 {
		t.Errorf("%d tests, %v: want 6", n, err)
	}
	s.skip = ""
	counted, err := testsOf(root, s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-list", ".", ".")
	cmd.Dir = root
	listed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(strings.Fields(string(listed)), func(word string) bool {
		return !regexp.MustCompile("^(Test|Fuzz|Example)").MatchString(word)
	})
	slices.Sort(want)
	slices.Sort(counted)
	if !slices.Equal(counted, want) {
		t.Errorf("counted %v, the go command lists %v", counted, want)
	}
}

func TestEachTestBelongsToARing(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	names := map[string]map[string]bool{}
	for _, ring := range []string{"check", "test", "all"} {
		steps, err := plan(root, ring, "")
		if err != nil {
			t.Fatal(err)
		}
		names[ring] = map[string]bool{}
		for _, s := range steps {
			found, err := testsOf(root, s)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) == 0 {
				t.Errorf("%s, step %s: no tests", ring, s.name)
			}
			for _, name := range found {
				names[ring][name] = true
			}
			for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(s.run, -1) {
				if !slices.Contains(found, name) {
					t.Errorf("%s, step %s: there is no %s", ring, s.name, name)
				}
			}
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`(Test\w+)\$\$`).FindAllStringSubmatch(string(makefile), -1) {
		if !names["all"][name[1]] {
			t.Errorf("the Makefile runs %s, which is not there", name[1])
		}
	}
	for name := range names["test"] {
		if !names["all"][name] {
			t.Errorf("%s is in test, not in all", name)
		}
	}
	everything, err := listPackages(filepath.Join(root, "integration"), []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range everything {
		found, err := testsIn(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			if !names["all"][name] && !names["check"][name] {
				t.Errorf("%s %s is in no ring", p.ImportPath, name)
			}
		}
	}
	if _, err := plan(root, "some", ""); err == nil {
		t.Error("a ring that does not exist has a plan")
	}
}

func TestProgressIsPrintedAtLeastEveryTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &lines{}
		report := newReport(out, &bytes.Buffer{}, 12)
		report.begin(step{name: "servers"})
		time.Sleep(time.Minute) // nothing runs yet
		report.started(module+"mutex", "TestLock")
		time.Sleep(3 * time.Minute)
		report.ended(module+"mutex", "TestLock", "pass", nil)
		time.Sleep(time.Minute)
		report.end()
		last := out.at[0]
		for _, at := range append(out.at, time.Now()) {
			if at.Sub(last) > 10*time.Second {
				t.Errorf("silent for %v", at.Sub(last))
			}
			last = at
		}
		for _, want := range []string{"  0 of 12 tests  servers: compiling", "  0 of 12 tests  servers: mutex TestLock 2m", "  1 of 12 tests"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no line has %q:\n%s", want, out)
			}
		}
	})
}

// lines notes when something is written.
type lines struct {
	bytes.Buffer
	at []time.Time
}

func (l *lines) Write(p []byte) (int, error) {
	l.at = append(l.at, time.Now())
	return l.Buffer.Write(p)
}

func TestFailureIsAboutTimeOnlyIfAllItsErrorsAre(t *testing.T) {
	for _, c := range []struct {
		output string
		want   bool
	}{
		{"    x_test.go:5: not within 5s: admitted\n", true},
		{"    x_test.go:5: lock: context deadline exceeded\n    x_test.go:9: server logs: two holders\n", true},
		{"    x_test.go:5: waiting: a grant\n    x_test.go:5: not within 5m0s: a grant\n", true},
		{"    x_test.go:5: waiting: a grant\n", false},
		{"    x_test.go:5: two holders\n", false},
		{"    x_test.go:5: not within 5s: admitted\n    x_test.go:7: two holders\n", false},
		{"panic: test timed out after 30m0s\n    x_test.go:5: not within 5s\n", false},
		{"WARNING: DATA RACE\n    x_test.go:5: not within 5s\n", false},
		{"--- FAIL: TestX (0.00s)\n", false},
		{"", false},
	} {
		if got := failedOnTime(strings.SplitAfter(c.output, "\n")); got != c.want {
			t.Errorf("%v for\n%s", got, c.output)
		}
	}
}

func TestLongOutputIsCut(t *testing.T) {
	var output []string
	for i := range 3 * failureLines {
		output = append(output, fmt.Sprintf("line %d\n", i))
	}
	printed := failure{pkg: module + "mutex", test: "TestX", output: output}.String()
	if lines := strings.Count(printed, "\n"); lines > failureLines+2 || !strings.Contains(printed, "line 179") {
		t.Errorf("%d lines:\n%s", lines, printed)
	}
}
