package grpcfence_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/grpcfence"
)

func orders(token driver.Token) fence.Sequencer {
	return fence.Sequencer{Scope: fence.Scope{Service: "4f0c", Kind: "mutex", Name: "a b/ü"}, Token: token, Key: "k é"}
}

// resource is gRPC's health service, which has a unary call and a stream. It
// reports the tokens shown.
type resource struct {
	*health.Server
	shown chan driver.Token
}

func (r resource) note(ctx context.Context) {
	s, _ := fence.From(ctx)
	r.shown <- s.Token
}

func (r resource) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	r.note(ctx)
	return r.Server.Check(ctx, req)
}

func (r resource) Watch(req *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	r.note(stream.Context())
	return r.Server.Watch(req, stream)
}

// serve starts a server and returns a client with the interceptors, and one
// without.
func serve(t *testing.T, check fence.Checker) (r resource, with, without healthpb.HealthClient) {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	s := grpc.NewServer(grpc.UnaryInterceptor(grpcfence.UnaryServer(check)), grpc.StreamInterceptor(grpcfence.StreamServer(check)))
	r = resource{health.NewServer(), make(chan driver.Token, 1)}
	healthpb.RegisterHealthServer(s, r)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	dial := func(opts ...grpc.DialOption) healthpb.HealthClient {
		opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
		conn, err := grpc.NewClient("passthrough:resource", opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return healthpb.NewHealthClient(conn)
	}
	return r, dial(grpc.WithUnaryInterceptor(grpcfence.UnaryClient), grpc.WithStreamInterceptor(grpcfence.StreamClient)), dial()
}

// ways are the two ways to call.
var ways = map[string]func(ctx context.Context, c healthpb.HealthClient) error{
	"unary": func(ctx context.Context, c healthpb.HealthClient) error {
		_, err := c.Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	},
	"stream": func(ctx context.Context, c healthpb.HealthClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err != nil {
			return err
		}
		_, err = w.Recv()
		return err
	},
}

func TestServerRefusesAStaleToken(t *testing.T) {
	for name, call := range ways {
		t.Run(name, func(t *testing.T) {
			r, client, _ := serve(t, fence.NewGate(fence.Scope{}).Check)
			for _, token := range []driver.Token{5, 7} {
				if err := call(fence.With(t.Context(), orders(token)), client); err != nil {
					t.Fatal(err)
				}
				if shown := <-r.shown; shown != token {
					t.Errorf("token %d was shown as %d", token, shown)
				}
			}
			err := call(fence.With(t.Context(), orders(5)), client)
			stale, ok := errors.AsType[*fence.StaleError](err)
			if !ok || *stale != (fence.StaleError{Shown: orders(5), Latest: 7}) {
				t.Errorf("%v", err)
			}
			if st := status.Convert(err); st.Code() != codes.FailedPrecondition || st.Message() != stale.Error() {
				t.Errorf("status %v", st)
			}
		})
	}
}

func TestRefusalsHaveTheirCode(t *testing.T) {
	judge := fence.Checker(func(_ context.Context, s fence.Sequencer) error {
		switch s.Token {
		case 1:
			return &fence.StaleError{Shown: s}
		case 2:
			return &fence.ForeignError{Shown: s, Want: fence.Scope{Kind: "mutex", Name: "x"}}
		case 3:
			return status.Error(codes.NotFound, "10.0.0.1 does not answer") // the error of a client of the service
		}
		return nil
	})
	raw := func(t *testing.T, values ...string) context.Context {
		var pairs []string
		for _, v := range values {
			pairs = append(pairs, grpcfence.Key, v)
		}
		return metadata.AppendToOutgoingContext(t.Context(), pairs...)
	}
	for name, call := range ways {
		r, with, without := serve(t, judge)
		for what, c := range map[string]struct {
			client healthpb.HealthClient
			ctx    context.Context
			code   codes.Code
			is     error
			says   string
		}{
			"over":           {with, fence.With(t.Context(), orders(1)), codes.FailedPrecondition, fence.ErrStale, "the grant is over"},
			"foreign":        {with, fence.With(t.Context(), orders(2)), codes.FailedPrecondition, fence.ErrForeign, ":mutex/x"},
			"unknown":        {with, fence.With(t.Context(), orders(3)), codes.Unavailable, nil, "could not be checked"},
			"none":           {with, t.Context(), codes.FailedPrecondition, nil, "no sequencer"},
			"no interceptor": {without, fence.With(t.Context(), orders(4)), codes.FailedPrecondition, nil, "no sequencer"},
			"malformed":      {without, raw(t, "5"), codes.InvalidArgument, nil, "baton1:"},
			"several":        {without, raw(t, orders(4).String(), orders(4).String()), codes.InvalidArgument, nil, "several"},
			"by hand":        {without, raw(t, orders(4).String()), codes.OK, nil, ""},
			"replaced":       {with, fence.With(raw(t, orders(1).String()), orders(4)), codes.OK, nil, ""},
		} {
			err := call(c.ctx, c.client)
			if status.Code(err) != c.code || c.is != nil && !errors.Is(err, c.is) ||
				err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "10.0.0.1")) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if err == nil {
				if shown := <-r.shown; shown != 4 {
					t.Errorf("%s, %s: token %d was shown", name, what, shown)
				}
			}
		}
	}
}

func TestErrorsOfTheMethodAreUnchanged(t *testing.T) {
	r, client, _ := serve(t, fence.NewGate(fence.Scope{}).Check)
	_, err := client.Check(fence.With(t.Context(), orders(5)), &healthpb.HealthCheckRequest{Service: "nobody"})
	<-r.shown
	if status.Code(err) != codes.NotFound || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrForeign) {
		t.Errorf("%v", err)
	}
}

// echo is a server of one stream that returns what it receives.
func echo(_ any, stream grpc.ServerStream) error {
	for {
		var m healthpb.HealthCheckRequest
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		if err := stream.SendMsg(&m); err != nil {
			return err
		}
	}
}

// TestStreamEndsWhenItsTokenIsStale: a stream outlives the grant that opened
// it.
func TestStreamEndsWhenItsTokenIsStale(t *testing.T) {
	gate := fence.NewGate(fence.Scope{})
	l := bufconn.Listen(1 << 16)
	s := grpc.NewServer(grpc.StreamInterceptor(grpcfence.StreamServer(gate.Check)))
	desc := grpc.StreamDesc{StreamName: "Echo", Handler: echo, ServerStreams: true, ClientStreams: true}
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "echo", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{desc}}, struct{}{})
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	conn, err := grpc.NewClient("passthrough:resource", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStreamInterceptor(grpcfence.StreamClient),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := conn.NewStream(fence.With(t.Context(), orders(5)), &desc, "/echo/Echo")
	if err != nil {
		t.Fatal(err)
	}
	exchange := func(service string) error {
		if err := stream.SendMsg(&healthpb.HealthCheckRequest{Service: service}); err != nil {
			t.Fatal(err)
		}
		return stream.RecvMsg(&healthpb.HealthCheckRequest{})
	}
	if err := exchange("before"); err != nil {
		t.Fatal(err)
	}
	if err := gate.Check(t.Context(), orders(7)); err != nil {
		t.Fatal(err)
	}
	err = exchange("after")
	stale, ok := errors.AsType[*fence.StaleError](err)
	if !ok || stale.Latest != 7 || status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a message of the stale holder: %v", err)
	}
}

func TestErrorsOfTheWorkAreNoRefusals(t *testing.T) {
	for _, err := range []error{errors.New("disk full"), context.Canceled, driver.ErrInvalid, status.Error(codes.NotFound, "no order")} {
		if got := grpcfence.Refuse(t.Context(), err); !errors.Is(got, err) || status.Code(got) == codes.FailedPrecondition {
			t.Errorf("Refuse(%v) = %v", err, got)
		}
	}
}
