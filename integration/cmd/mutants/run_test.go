package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
)

// fake is a test binary whose tests do what the mutation is called.
const fake = `#!/bin/sh
say() { printf '\026%s\n' "$1"; }
say '=== RUN   TestA'
case "$BATON_MUTATION" in
fails)  say '--- FAIL: TestA (0.01s)'; exit 1 ;;
passes) say '--- PASS: TestA (0.01s)' ;;
panics) echo 'panic: index out of range'; exit 2 ;;
waits)  echo 'panic: test timed out after 2m0s'; exit 2 ;;
dies)   kill -9 $$ ;;
hangs)
	trap '' INT
	sleep 1000 & echo $! > child.new; mv child.new child
	while :; do wait; done ;;
esac
`

// faked is a runner whose only package has such a binary.
func faked(t *testing.T) *runner {
	t.Helper()
	r := &runner{root: t.TempDir(), grace: time.Millisecond, within: map[string]bool{}}
	binary := filepath.Join(r.root, "fake")
	if err := os.WriteFile(binary, []byte(strings.ReplaceAll(fake, "BATON_MUTATION", switchEnv)), 0o700); err != nil {
		t.Fatal(err)
	}
	r.binaries = map[string]string{".": binary}
	for _, name := range []string{"fails", "passes", "panics", "waits", "dies", "hangs"} {
		r.within[name] = true
	}
	return r
}

// TestMutationIsCaughtByAFailureAlone: not by a test that has not ended in its
// time, nor by one that says nothing.
func TestMutationIsCaughtByAFailureAlone(t *testing.T) {
	r := faked(t)
	r.grace = time.Hour
	for name, want := range map[string]outcome{
		"fails": caught, "panics": caught, "passes": missed, "waits": hung, "dies": missed,
	} {
		m := mutation{name: name, caught: []test{{pkg: ".", name: "TestA"}}}
		if text, got, _ := r.judge(t.Context(), m); got != want {
			t.Errorf("%s: %v, want %v: %s", name, got, want, text)
		}
		m.caught = append(m.caught, test{pkg: ".", name: "TestB"})
		if text, got, _ := r.judge(t.Context(), m); name != "waits" && got != missed {
			t.Errorf("%s, and another test says nothing: %v, want %v: %s", name, got, missed, text)
		}
	}
}

// TestTestsThatHangAreKilledWithTheirProcesses, also if they ignore an
// interrupt, as soon as their time is over. A run that the caller ends is no
// hang.
func TestTestsThatHangAreKilledWithTheirProcesses(t *testing.T) {
	for _, cause := range []error{errHung, context.Canceled} {
		r := faked(t)
		ctx, end := context.WithCancelCause(t.Context())
		type run struct {
			result
			err error
		}
		runs := make(chan run, 1)
		go func() {
			res, err := r.test(ctx, ".", "^TestA$", "", mutation{name: "hangs"}, time.Hour)
			runs <- run{res, err}
		}()
		pid := 0
		await.Until(t, "a process of the test", func() (known bool) {
			text, _ := os.ReadFile(filepath.Join(r.root, "child"))
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return pid > 0
		})
		end(cause)
		ended := await.Receive(t, "the run", runs)
		if hangs := errors.Is(cause, errHung); ended.hung != hangs || errors.Is(ended.err, cause) == hangs {
			t.Errorf("ended for %v: hung %v, %v", cause, ended.hung, ended.err)
		}
		await.Until(t, fmt.Sprintf("the end of process %d", pid), func() bool {
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid)
		})
	}
}

// zombie reports whether a process has ended, and nobody has asked for its exit
// code: in a container its first process may not.
func zombie(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(stat), ") Z ")
}
