// Fencing shows how a resource refuses a late write, from a holder that has
// lost its lock without noticing, after another holder has written.
//
//	go run ./examples/fencing                              # no server: in memory
//	go run ./examples/fencing -url etcd://127.0.0.1:2379
//	go run ./examples/fencing -url zk://127.0.0.1:2181
//
// In production this happens when the holder's process is paused for longer
// than its TTL. Here an operator breaks the lock, which is faster, and the
// holder does not check its lock before it writes.
//
// The resource is a ledger behind an HTTP server. The client sends the lock's
// sequencer in a header, and the server writes inside a fence.Gate, which
// refuses tokens smaller than the greatest it has seen. Packages sqlfence and
// grpcfence do the same for databases and gRPC.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/httpfence"
	"github.com/baton-go/baton/examples/internal/demo"
	"github.com/baton-go/baton/mutex"
)

// ledger is the resource: a text, written inside the gate.
type ledger struct {
	gate *fence.Gate
	text string
}

// ServeHTTP replaces the text. httpfence.Handler has read the sequencer from
// the request. Gate.Do makes the check and the write one step: between two
// steps the lock could move to another holder.
func (l *ledger) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	seq, _ := fence.From(req.Context())
	text, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err == nil {
		err = l.gate.Do(req.Context(), seq, func(context.Context) error {
			l.text = string(text)
			return nil
		})
	}
	if err != nil && !httpfence.Refuse(w, err) {
		http.Error(w, "not written", http.StatusInternalServerError)
	}
}

// write is the client's side: the transport sends the sequencer of the context.
func write(ctx context.Context, seq fence.Sequencer, url, text string) error {
	ctx = fence.With(ctx, seq)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(text))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: httpfence.Transport(nil)}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := httpfence.Refusal(resp); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

// lock returns the lock, and the sequencer for the writes.
func lock(ctx context.Context, client *coordinator.Client) (*mutex.Lock, fence.Sequencer, error) {
	m, err := mutex.New(client, "accounts")
	if err != nil {
		return nil, fence.Sequencer{}, err
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return nil, fence.Sequencer{}, err
	}
	seq, err := l.Sequencer(ctx)
	return l, seq, err
}

// story lets two holders write to the ledger at url. They share a client here;
// in production each process has its own.
func story(ctx context.Context, out *log.Logger, client *coordinator.Client, url string) error {
	lost, late, err := lock(ctx, client)
	if err != nil {
		return err
	}
	out.Printf("first has the lock, with token %d", late.Token)
	if err := write(ctx, late, url, "written by the first"); err != nil {
		return err
	}
	out.Print("first ... is paused before its next write")
	if err := client.Break(ctx, "mutex", "accounts", late.Token); err != nil {
		return err
	}
	held, next, err := lock(ctx, client)
	if err != nil {
		return err
	}
	out.Printf("second has the lock, with token %d", next.Token)
	if err := write(ctx, next, url, "written by the second"); err != nil {
		return err
	}
	out.Print("first ... continues, and sends its write")
	err = write(ctx, late, url, "written late")
	if !errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("the late write was not refused: %w", errors.Join(err, held.Unlock(ctx)))
	}
	out.Printf("the ledger refuses it: %v", err)
	<-lost.Context().Done()
	out.Printf("first checks its lock: %v", lost.Err())
	return held.Unlock(ctx)
}

// run serves the ledger and tells the story.
func run(ctx context.Context, out *log.Logger, url string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// The gate admits the tokens of one lock. It takes the service from the
	// first sequencer.
	l := &ledger{gate: fence.NewGate(fence.Scope{Kind: "mutex", Name: "accounts"})}
	handler := httpfence.Handler(l.gate.Check, l)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer server.Close()

	return demo.Run(ctx, url, 1, func(ctx context.Context, client *coordinator.Client) error {
		return story(ctx, out, client, "http://"+listener.Addr().String())
	})
}

func main() {
	url := demo.URL()
	demo.Main(func(ctx context.Context, out *log.Logger) error { return run(ctx, out, *url) })
}
