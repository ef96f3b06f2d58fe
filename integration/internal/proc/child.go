package proc

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/child"
)

// recvTimeout bounds how long Recv waits for a worker.
const recvTimeout = 60 * time.Second

// Child is the test's handle of a worker process. Kill, Pause and Resume are
// those of [child.Process]. Errors fail the test, so the methods must be called
// from its goroutine.
type Child struct {
	*child.Process
	t     testing.TB
	name  string
	in    io.WriteCloser
	lines chan []byte // closed at the end of the worker's output
}

// Start starts a worker. It is killed at the end of the test if it has not
// ended.
func Start(t testing.TB, name string, args ...string) *Child {
	t.Helper()
	if workers[name] == nil {
		t.Fatalf("proc: no worker %q is registered", name)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	// The race detector sleeps a second at exit unless it is told not to.
	cmd.Env = append(os.Environ(), variable+"="+name, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return Run(t, name, cmd)
}

// Run is Start for another program that exchanges JSON lines. It sets the
// standard streams.
func Run(t testing.TB, name string, cmd *exec.Cmd) *Child {
	t.Helper()
	w, err := start(t, name, cmd)
	if err != nil {
		t.Fatalf("proc: worker %s: %v", name, err)
	}
	return w
}

// start uses its own pipes: exec's pipes are closed when the process ends, and
// unread data is lost.
func start(t testing.TB, name string, cmd *exec.Cmd) (*Child, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer inRead.Close()
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		_ = inWrite.Close()
		return nil, err
	}
	defer outWrite.Close()
	logPath := filepath.Join(t.TempDir(), "stderr")
	logFile, err := os.Create(logPath)
	if err != nil {
		_, _ = inWrite.Close(), outRead.Close()
		return nil, err
	}
	defer logFile.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, logFile
	process, err := child.Start(cmd)
	if err != nil {
		_, _ = inWrite.Close(), outRead.Close()
		return nil, err
	}
	w := &Child{Process: process, t: t, name: name, in: inWrite, lines: make(chan []byte, 1024)}
	go w.read(outRead)
	t.Cleanup(func() { w.end(logPath) })
	return w, nil
}

// read ends with the worker's output; end waits for it.
func (w *Child) read(out *os.File) {
	defer close(w.lines)
	defer out.Close()
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		w.lines <- line
	}
}

func (w *Child) end(logPath string) {
	w.Kill()
	_ = w.in.Close()
	for range w.lines { // so that read can end
	}
	if w.t.Failed() {
		w.t.Logf("worker %s, process %d, standard error:\n%s", w.name, w.PID(), child.Tail(logPath, 8<<10))
	}
}

// Send sends a value to the worker.
func (w *Child) Send(v any) {
	w.t.Helper()
	line, err := json.Marshal(v)
	if err == nil {
		_, err = w.in.Write(append(line, '\n'))
	}
	if err != nil {
		w.t.Fatalf("proc: send to worker %s: %v", w.name, err)
	}
}

// Recv waits, at most a minute, for the next value that the worker sends and
// stores it in v.
func (w *Child) Recv(v any) {
	w.t.Helper()
	if err := w.TryRecv(v, recvTimeout); err != nil {
		w.t.Fatal(err)
	}
}

// TryRecv is Recv with a timeout and an error. It returns io.EOF, wrapped, if
// the worker has ended without another value.
func (w *Child) TryRecv(v any, within time.Duration) error {
	select {
	case line, ok := <-w.lines:
		if !ok {
			return fmt.Errorf("proc: worker %s has ended: %w", w.name, io.EOF)
		}
		if err := json.Unmarshal(line, v); err != nil {
			return fmt.Errorf("proc: worker %s sent %q: %w", w.name, line, err)
		}
		return nil
	case <-time.After(within):
		return fmt.Errorf("proc: worker %s sent nothing for %v: %w", w.name, within, os.ErrDeadlineExceeded)
	}
}

// CloseInput ends the worker's context and its Recv, to ask it to end.
func (w *Child) CloseInput() { _ = w.in.Close() }
