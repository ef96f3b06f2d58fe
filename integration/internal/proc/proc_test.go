package proc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/proc"
)

func init() {
	proc.Register("echo", func(ctx context.Context, io *proc.IO, args []string) error {
		for _, arg := range args {
			if err := io.Send(arg); err != nil {
				return err
			}
		}
		for {
			var word string
			if err := io.Recv(ctx, &word); err != nil {
				return nil // the input was closed
			}
			if err := io.Send(word); err != nil {
				return err
			}
		}
	})
	proc.Register("failing", func(context.Context, *proc.IO, []string) error { return errors.New("as planned") })
	proc.Register("patient", func(ctx context.Context, io *proc.IO, _ []string) error {
		if err := io.Send("ready"); err != nil {
			return err
		}
		<-ctx.Done()
		return io.Send(fmt.Sprint(context.Cause(ctx)))
	})
}

func TestMain(m *testing.M) {
	proc.Main()
	os.Exit(m.Run())
}

func TestWorkerTalksBothWays(t *testing.T) {
	w := proc.Start(t, "echo", "-test.run=not a flag here", "second argument")
	for _, want := range []string{"-test.run=not a flag here", "second argument"} {
		var got string
		if w.Recv(&got); got != want {
			t.Errorf("received %q, want %q", got, want)
		}
	}
	w.Send("hello")
	var got string
	if w.Recv(&got); got != "hello" {
		t.Errorf("received %q", got)
	}
	w.CloseInput()
	if err := w.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := w.TryRecv(&got, time.Second); !errors.Is(err, io.EOF) {
		t.Errorf("TryRecv after the end: %v", err)
	}
}

func TestKilledWorkerSendsNothing(t *testing.T) {
	w := proc.Start(t, "echo")
	w.Kill()
	if err := w.TryRecv(new(string), time.Second); !errors.Is(err, io.EOF) {
		t.Errorf("TryRecv: %v", err)
	}
	if w.Running() {
		t.Error("still running")
	}
}

func TestPausedWorkerAnswersAfterResume(t *testing.T) {
	w := proc.Start(t, "echo", "ready")
	var got string
	w.Recv(&got)
	if err := w.Pause(); err != nil {
		t.Fatal(err)
	}
	w.Send("late")
	if err := w.TryRecv(&got, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("TryRecv while paused: %v", err)
	}
	if err := w.Resume(); err != nil {
		t.Fatal(err)
	}
	if w.Recv(&got); got != "late" {
		t.Errorf("received %q", got)
	}
}

func TestWorkersErrorSetsItsExitStatus(t *testing.T) {
	var exit *exec.ExitError
	if err := proc.Start(t, "failing").Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("ended with %v", err)
	}
}

func TestClosedInputAndTermEndTheContext(t *testing.T) {
	for name, end := range map[string]func(*proc.Child){
		proc.ErrClosed.Error(): (*proc.Child).CloseInput,
		"terminated":           func(w *proc.Child) { _ = w.Interrupt() },
	} {
		w := proc.Start(t, "patient")
		var got string
		w.Recv(&got)
		end(w)
		if w.Recv(&got); name == proc.ErrClosed.Error() && got != name {
			t.Errorf("cause %q, want %q", got, name)
		}
		if err := w.Wait(); err != nil {
			t.Errorf("ended with %v", err)
		}
	}
}
