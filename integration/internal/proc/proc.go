// Package proc runs parts of a test in processes of their own, which can be
// killed and paused like any other: "two services", "the holder is SIGKILLed",
// "a garbage collection of five seconds".
//
// A worker is a function in the test binary. The binary starts itself again to
// run it, and both exchange JSON lines over the worker's standard input and
// output:
//
//	func init() { proc.Register("holder", holder) }
//
//	func TestMain(m *testing.M) { servers.Main(m) } // or proc.Main() and m.Run()
//
//	func holder(ctx context.Context, io *proc.IO, args []string) error {
//		... lock args[0] ...
//		return io.Send(lock.Token())
//	}
//
//	func TestNextIsGrantedWhenHolderIsKilled(t *testing.T) {
//		w := proc.Start(t, "holder", addr)
//		var token int64
//		w.Recv(&token)
//		w.Kill()
//		...
//	}
//
// A worker's standard error is shown when the test fails. Standard output is
// reserved for the JSON lines.
package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// variable has the name of the worker in a worker process.
const variable = "BATON_WORKER"

// Worker is the function of a worker process. The process ends with it, with
// status 0 for nil and 1 for an error, which is printed to standard error. ctx
// ends at SIGTERM, and when the test closes the worker's input.
type Worker func(ctx context.Context, io *IO, args []string) error

// workers is filled before Main is called.
var workers = map[string]Worker{}

// Register makes a function startable under a name, from init or the beginning
// of TestMain, in every process: the worker's process looks the name up in its
// own table. A name that is taken panics.
func Register(name string, worker Worker) {
	if workers[name] != nil {
		panic("proc: two workers named " + name)
	}
	workers[name] = worker
}

// Main runs the worker and exits if this is a worker process. Otherwise it does
// nothing. TestMain calls it first, before flags are parsed: the arguments are
// the worker's.
func Main() {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	if err := run(name, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "worker %s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(name string, args []string) error {
	worker := workers[name]
	if worker == nil {
		return errors.New("no such worker is registered in this test binary")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return worker(ctx, newIO(os.Stdin, os.Stdout, cancel), args)
}

// ErrClosed is the cause of a worker's context, and the error of its Recv,
// after the test has closed the worker's input.
var ErrClosed = errors.New("proc: the test has closed this worker's input")

// IO is a worker's connection to its test. Its methods may be called
// concurrently.
type IO struct {
	lines <-chan []byte

	mu  sync.Mutex
	out *json.Encoder
}

// newIO reads input in the background, so that its end is noticed while the
// worker does not receive. The reader needs no owner: it lives as long as the
// process.
func newIO(in io.Reader, out io.Writer, cancel context.CancelCauseFunc) *IO {
	lines := make(chan []byte, 1024)
	go func() {
		defer cancel(ErrClosed)
		defer close(lines)
		for r := bufio.NewReader(in); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	return &IO{lines: lines, out: json.NewEncoder(out)}
}

// Send writes one value for the test to receive.
func (w *IO) Send(v any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(v)
}

// Recv waits for the next value that the test sends and stores it in v, as
// json.Unmarshal does.
func (w *IO) Recv(ctx context.Context, v any) error {
	select {
	case line, ok := <-w.lines:
		if !ok {
			return ErrClosed
		}
		return json.Unmarshal(line, v)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
