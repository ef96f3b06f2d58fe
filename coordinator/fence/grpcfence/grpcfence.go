// Package grpcfence has gRPC interceptors that send a sequencer with each call,
// and refuse stale ones.
//
//	// the holder
//	conn, err := grpc.NewClient(target,
//		grpc.WithUnaryInterceptor(grpcfence.UnaryClient),
//		grpc.WithStreamInterceptor(grpcfence.StreamClient))
//	seq, err := lock.Sequencer(ctx)
//	_, err = orders.Pay(fence.With(ctx, seq), &PayRequest{…})
//	... errors.As(err, &stale) finds the *fence.StaleError that names both tokens
//
//	// the resource
//	gate := fence.NewGate(fence.Scope{Kind: "mutex", Name: "orders"})
//	server := grpc.NewServer(
//		grpc.UnaryInterceptor(grpcfence.UnaryServer(gate.Check)),
//		grpc.StreamInterceptor(grpcfence.StreamServer(gate.Check)))
//
// The server checks before it serves a call, and before each message of a
// stream, in both directions. The work of a message may run beside that of the
// next holder. If that does harm, do the work in the gate's Do, or guard its
// transaction with package sqlfence: fence.From(ctx) returns the sequencer, and
// Refuse makes the call's error of theirs. Send and receive messages of a
// stream outside of Do: their check waits for it.
//
// Authenticate callers before these interceptors (grpc.ChainUnaryInterceptor):
// a sequencer can be forged, and a gate that has admitted a very large token
// refuses all others.
package grpcfence

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// Key is the key of the sequencer in the metadata of a call.
const Key = "baton-sequencer"

// RefusalKey is the key of the refusal in the trailer of a refused call. Its
// value is that of fence.EncodeRefusal.
const RefusalKey = "baton-refusal"

// UnaryClient is a grpc.UnaryClientInterceptor that sends the sequencer of the
// call's context, if it has one: see fence.With. If the server refuses it, the
// error wraps the *fence.StaleError or *fence.ForeignError, and has gRPC's
// status.
func UnaryClient(
	ctx context.Context, method string, req, reply any,
	cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	s, ok := fence.From(ctx)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	var trailer metadata.MD
	opts = append(slices.Clip(opts), grpc.Trailer(&trailer))
	err := invoke(show(ctx, s), method, req, reply, cc, opts...)
	return refusal(err, s, trailer)
}

// StreamClient is the grpc.StreamClientInterceptor for UnaryClient.
func StreamClient(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, ok := fence.From(ctx)
	if !ok {
		return open(ctx, desc, cc, method, opts...)
	}
	stream, err := open(show(ctx, s), desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &clientStream{stream, s}, nil
}

// show replaces a sequencer in the outgoing metadata: a server that forwards
// metadata to another server shows its own sequencer.
func show(ctx context.Context, s fence.Sequencer) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Set(Key, s.String())
	return metadata.NewOutgoingContext(ctx, md)
}

type clientStream struct {
	grpc.ClientStream
	shown fence.Sequencer
}

// RecvMsg returns the error of a stream. SendMsg returns io.EOF in its place.
func (c *clientStream) RecvMsg(m any) error {
	err := c.ClientStream.RecvMsg(m)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return refusal(err, c.shown, c.Trailer())
}

// refusal adds the refusal in the trailer to the error of a call.
func refusal(err error, s fence.Sequencer, trailer metadata.MD) error {
	if err == nil {
		return nil
	}
	for _, text := range trailer.Get(RefusalKey) {
		if why := fence.DecodeRefusal(s, text); why != nil {
			return &refused{why, err}
		}
	}
	return err
}

// refused is the error of a call. Package status finds the status of call, and
// package errors finds why.
type refused struct{ why, call error }

func (r *refused) Error() string              { return r.call.Error() }
func (r *refused) Unwrap() []error            { return []error{r.why, r.call} }
func (r *refused) GRPCStatus() *status.Status { return status.Convert(r.call) }

// UnaryServer returns an interceptor that checks the sequencer of each call,
// and puts it into the context of the method. Refused calls return the error of
// Refuse; a call whose check failed returns InvalidArgument if the service does
// not accept the sequencer, else Unavailable, and does not show the reason.
func UnaryServer(check fence.Checker) grpc.UnaryServerInterceptor {
	return func(
		ctx context.Context, req any, _ *grpc.UnaryServerInfo, serve grpc.UnaryHandler,
	) (any, error) {
		ctx, err := admit(ctx, check)
		if err != nil {
			return nil, err
		}
		return serve(ctx, req)
	}
}

// StreamServer is the interceptor for streams: see UnaryServer. It checks again
// before each message that the method sends or has received: a stream outlives
// the grant that opened it. A message that is refused is not delivered, and
// RecvMsg or SendMsg return the error of Refuse, which the method returns.
func StreamServer(check fence.Checker) grpc.StreamServerInterceptor {
	return func(
		srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, serve grpc.StreamHandler,
	) error {
		ctx, err := admit(stream.Context(), check)
		if err != nil {
			return err
		}
		return serve(srv, &serverStream{stream, ctx, check})
	}
}

type serverStream struct {
	grpc.ServerStream
	ctx   context.Context
	check fence.Checker
}

// Context returns the context that has the sequencer.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg checks after the message has arrived: it may have waited for it while
// the lock got another holder.
func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.again()
}

func (s *serverStream) SendMsg(m any) error {
	if err := s.again(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

func (s *serverStream) again() error {
	seq, _ := fence.From(s.ctx)
	return answer(s.ctx, s.check(s.ctx, seq))
}

// admit returns the context of an admitted call, with its sequencer.
func admit(ctx context.Context, check fence.Checker) (context.Context, error) {
	s, err := fence.ParseValues(metadata.ValueFromIncomingContext(ctx, Key))
	if err == nil {
		err = check(ctx, s)
	}
	if err != nil {
		return ctx, answer(ctx, err)
	}
	return fence.With(ctx, s), nil
}

// answer returns the error of a call for that of its check.
func answer(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if refused := refuse(ctx, err); refused != nil {
		return refused
	}
	if errors.Is(err, driver.ErrInvalid) { // of the service, which knows the sequencer's name
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.Unavailable, "the sequencer could not be checked")
}

// Refuse returns the error of a call whose sequencer was refused. ctx is the
// method's: Refuse sets its trailer for the client's interceptor. It returns
// any other error as it is, such as one of the work that a gate admitted.
//
//	FailedPrecondition  the sequencer is stale, foreign or missing
//	InvalidArgument     it is malformed, or there are several
func Refuse(ctx context.Context, err error) error {
	if refused := refuse(ctx, err); refused != nil {
		return refused
	}
	return err
}

// refuse returns nil for an error that is no refusal.
func refuse(ctx context.Context, err error) error {
	refusal := fence.EncodeRefusal(err)
	switch {
	case refusal != "":
		// Fails only outside of a call.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(RefusalKey, refusal))
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, fence.ErrMalformed):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}
