package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/grpcfence"
	"github.com/baton-go/baton/coordinator/fence/httpfence"
)

// ledger is a resource in this process: a text, which is read and written in a gate.
type ledger struct {
	gate *fence.Gate
	text string
}

// newLedger makes one that takes the tokens of one lock only. It learns the
// service's identity from the first.
func newLedger() *ledger {
	return &ledger{gate: fence.NewGate(fence.Scope{Kind: "mutex", Name: "accounts"})}
}

func (l *ledger) Name() string { return "a ledger in memory" }

func (l *ledger) Write(ctx context.Context, s fence.Sequencer, text string) error {
	return l.gate.Do(ctx, s, func() error {
		l.text = text
		return nil
	})
}

func (l *ledger) Read(context.Context) (string, error) { return l.text, nil }

// overHTTP is a ledger behind an HTTP server.
type overHTTP struct {
	*ledger
	server *http.Server
	client *http.Client
	url    string
}

func serveHTTP() (*overHTTP, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &overHTTP{ledger: newLedger(), url: "http://" + l.Addr().String()}
	r.client = &http.Client{Transport: httpfence.Transport(nil)}
	r.server = &http.Server{Handler: httpfence.Handler(r.gate.Check, http.HandlerFunc(r.put)), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = r.server.Serve(l) }() // ends with close
	return r, nil
}

// put writes inside the gate: between the handler's check and this the lock may have passed on.
func (r *overHTTP) put(w http.ResponseWriter, req *http.Request) {
	s, _ := fence.From(req.Context())
	text, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err == nil {
		err = r.ledger.Write(req.Context(), s, string(text))
	}
	if err != nil {
		httpfence.Refuse(w, err)
	}
}

func (r *overHTTP) Name() string { return "an HTTP server" }

func (r *overHTTP) Write(ctx context.Context, s fence.Sequencer, text string) error {
	req, err := http.NewRequestWithContext(fence.With(ctx, s), http.MethodPut, r.url, strings.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := r.client.Do(req)
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

func (r *overHTTP) close() error {
	r.client.CloseIdleConnections()
	return r.server.Close()
}

// overGRPC is a ledger behind a gRPC server. Its one method takes a text and
// returns nothing; the codec and the description are what a compiler of
// protocol buffers would make.
type overGRPC struct {
	*ledger
	server *grpc.Server
	conn   *grpc.ClientConn
}

func serveGRPC() (*overGRPC, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &overGRPC{ledger: newLedger()}
	r.server = grpc.NewServer(grpc.ForceServerCodec(texts{}), grpc.UnaryInterceptor(grpcfence.UnaryServer(r.gate.Check)))
	r.server.RegisterService(&grpc.ServiceDesc{ServiceName: "Ledger", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Put", Handler: r.handle}}}, r)
	go func() { _ = r.server.Serve(l) }() // ends with close
	r.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(texts{})), grpc.WithUnaryInterceptor(grpcfence.UnaryClient))
	if err != nil {
		r.server.Stop()
		return nil, err
	}
	return r, nil
}

func (r *overGRPC) handle(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order
	text := new(string)
	if err := decode(text); err != nil {
		return nil, err
	}
	return intercept(ctx, text, &grpc.UnaryServerInfo{Server: r, FullMethod: "/Ledger/Put"}, r.put)
}

// put writes inside the gate, as the HTTP server does.
func (r *overGRPC) put(ctx context.Context, text any) (any, error) {
	s, _ := fence.From(ctx)
	if err := r.ledger.Write(ctx, s, *text.(*string)); err != nil {
		return nil, grpcfence.Refuse(ctx, err)
	}
	return new(string), nil
}

func (r *overGRPC) Name() string { return "a gRPC server" }

func (r *overGRPC) Write(ctx context.Context, s fence.Sequencer, text string) error {
	return r.conn.Invoke(fence.With(ctx, s), "/Ledger/Put", &text, new(string))
}

func (r *overGRPC) close() error {
	r.server.Stop()
	return r.conn.Close()
}

// texts is a codec for strings.
type texts struct{}

func (texts) Name() string                       { return "text" }
func (texts) Marshal(v any) ([]byte, error)      { return []byte(*v.(*string)), nil }
func (texts) Unmarshal(data []byte, v any) error { *v.(*string) = string(data); return nil }

// asking is a resource without a memory of its own: it asks the coordinator
// whether the grant holds. The answer may be old by the time that it writes, so
// it is not as safe as the others.
type asking struct {
	client *coordinator.Client
	text   string
}

func (a *asking) Name() string { return "one that asks" }

func (a *asking) Write(ctx context.Context, s fence.Sequencer, text string) error {
	if err := a.client.Check(ctx, s); err != nil {
		return err
	}
	a.text = text
	return nil
}

func (a *asking) Read(context.Context) (string, error) { return a.text, nil }
