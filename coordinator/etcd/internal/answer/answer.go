// Package answer turns the errors of etcd, gRPC and contexts into the errors of
// the contract.
package answer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/hint"
)

// kinds lists the errors of etcd whose gRPC code is not specific enough.
var kinds = map[error]error{
	rpctypes.ErrLeaseNotFound: driver.ErrSessionLost,

	// The disk quota: etcd refuses grants and puts, but still accepts deletes,
	// revokes and keep-alives. Only an operator can help.
	rpctypes.ErrNoSpace: driver.ErrRefused,

	// The user's token expired or a role was changed. The next attempt has a
	// new token.
	rpctypes.ErrInvalidAuthToken: driver.ErrUnavailable,
	rpctypes.ErrAuthOldRevision:  driver.ErrUnavailable,

	// This member cannot serve now; another one can, or this one later.
	rpctypes.ErrNotLeader:  driver.ErrUnavailable,
	rpctypes.ErrNotCapable: driver.ErrUnavailable,
	rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner): driver.ErrUnavailable,
}

// Wrap makes an error of the contract. errors.As still finds etcd's own error
// as an rpctypes.EtcdError.
//
// An error of the service wins over the end of the context: it says more, and
// may be final. Any other error after the end of ctx was caused by ctx, and
// Wrap returns the cause of ctx.
func Wrap(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	kind := Kind(err)
	if errors.Is(kind, driver.ErrUnavailable) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return driver.Wrap(kind, hint.On(Of(err),
		"authentication failed", "check user and password in the URL",
		"user name is empty", "give user and password in the URL",
		"permission denied", "the user's role lacks the rights in docs/operations.md"))
}

// Kind is the contract's sentinel for an error of a request. Only ErrRefused
// says that the request was not applied: the server checks before it proposes.
func Kind(err error) error {
	if p := (passing{}); errors.As(err, &p) {
		return driver.ErrUnavailable
	}
	known := Of(err)
	if kind, ok := kinds[known]; ok {
		return kind
	}
	switch Code(known) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.NotFound,
		codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return driver.ErrRefused
	default:
		// Unavailable, DeadlineExceeded, ResourceExhausted (too many requests),
		// Canceled, Internal, Unknown, and errors of this process, such as of a
		// closed client. Each of these requests may have been applied, and each
		// of these causes may pass.
		return driver.ErrUnavailable
	}
}

// Passing marks an error of the service of which the caller knows that its
// cause passes, so that its kind is ErrUnavailable.
func Passing(err error) error { return passing{err} }

type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Of finds etcd's own error in err. A refused watch reports the text of a gRPC
// error inside a string, "rpc error: code = ... desc = etcdserver: ...", maybe
// inside another one, which the client's own conversion does not recognize.
func Of(err error) error {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e
	}
	if errors.As(rpctypes.Error(err), &e) {
		return e
	}
	const desc = " desc = "
	if text := err.Error(); strings.Contains(text, desc) {
		inner := text[strings.LastIndex(text, desc)+len(desc):]
		if errors.As(rpctypes.Error(errors.New(inner)), &e) {
			return e
		}
	}
	return err
}

// Code is the gRPC code of an error.
func Code(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// Is reports whether err is the given error of etcd.
func Is(err, want error) bool { return err != nil && errors.Is(Of(err), want) }

// Invalid is a driver.ErrInvalid with a message.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
