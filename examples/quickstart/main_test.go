package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestMain lets the test's binary stand for the program, with its flags, signals and exit codes.
func TestMain(m *testing.M) {
	if os.Getenv("AS_PROGRAM") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestWorkersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer // not locked: only who has the turn writes
		if err := run(t.Context(), &out, "memory://", 2); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"worker 1 has turn 1,", "worker 2 has turn 2,", "worker 3 has turn 2,"} {
			if strings.Count(out.String(), line) != 1 || strings.Count(out.String(), "\n") != 6 {
				t.Errorf("no %q in turn:\n%s", line, &out)
			}
		}
	})
}

func TestToldToStopIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		var out bytes.Buffer
		if err := run(ctx, &out, "memory://", 100); err != nil || strings.Count(out.String(), "\n") != 3 {
			t.Errorf("run = %v; output:\n%s", err, &out)
		}
	})
}

func TestBadFlagsAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"-turns 0: must be at least 1":  {"-turns", "0"},
		"-turns -1: must be at least 1": {"-turns", "-1"},
		"redis":                         {"-url", "redis://here"},
		`argument "etcd"`:               {"etcd", "-turns", "1"},
		"-turn":                         {"-turn", "1"},
	} {
		code := map[bool]int{true: 2, false: 1}[args[0] == "etcd" || args[0] == "-turn"]
		var exit *exec.ExitError
		out, err := program(t, args...).CombinedOutput()
		if !errors.As(err, &exit) || exit.ExitCode() != code || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, want %d and %q; output:\n%s", args, err, code, want, out)
		}
	}
}

func TestSIGTERMEndsTheProgramWell(t *testing.T) {
	p := program(t, "-turns", "1000")
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = bufio.NewReader(out).ReadString('\n') // it is at work
	if err := errors.Join(err, p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil {
		t.Error(err)
	}
}

func program(t *testing.T, args ...string) *exec.Cmd {
	p := exec.CommandContext(t.Context(), os.Args[0], args...)
	p.Env = append(os.Environ(), "AS_PROGRAM=1")
	return p
}
