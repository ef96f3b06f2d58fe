package etcd

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/driver"
)

// kinds lists the answers of etcd whose gRPC code says too little.
var kinds = map[error]error{
	rpctypes.ErrLeaseNotFound: driver.ErrSessionLost,

	// The disk quota: grants and puts are refused while deletes, revokes and
	// keep-alives still work. Waiting does not help, an operator does.
	rpctypes.ErrNoSpace: driver.ErrRefused,

	// The user's token expired or somebody changed a role. The next attempt comes
	// with a new token.
	rpctypes.ErrInvalidAuthToken: driver.ErrUnavailable,
	rpctypes.ErrAuthOldRevision:  driver.ErrUnavailable,

	// This member cannot serve now; another one can, or this one later.
	rpctypes.ErrNotLeader:  driver.ErrUnavailable,
	rpctypes.ErrNotCapable: driver.ErrUnavailable,
	rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner): driver.ErrUnavailable,
}

// wrap is the one place where errors of etcd, gRPC and contexts become the errors
// of the contract. What etcd said stays reachable for errors.As, as an rpctypes.EtcdError.
//
// An answer of the service wins over the end of the context: it says more, and it
// may be final. Everything else that comes while ctx is over is ctx's
// doing and returned as its cause.
func wrap(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	if errors.Is(kind, driver.ErrUnavailable) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return driver.Wrap(kind, answer(err))
}

// kindOf never says that something was not applied: that is for ErrRefused alone,
// and only because the server checks before it proposes.
func kindOf(err error) error {
	known := answer(err)
	if kind, ok := kinds[known]; ok {
		return kind
	}
	switch codeOf(known) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.NotFound,
		codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return driver.ErrRefused
	default:
		// Unavailable, DeadlineExceeded, ResourceExhausted (too many requests), Canceled,
		// Internal, Unknown, and what never left this process: a client
		// that its owner closed, say. All may have been applied, all may pass.
		return driver.ErrUnavailable
	}
}

// answer finds etcd's own error in err. A refused watch reports the text of a
// gRPC error inside a string, "rpc error: code = ... desc = etcdserver: ...", which
// the client's own conversion does not recognize.
func answer(err error) error {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e
	}
	if errors.As(rpctypes.Error(err), &e) {
		return e
	}
	if _, desc, ok := strings.Cut(err.Error(), " desc = "); ok {
		if errors.As(rpctypes.Error(errors.New(desc)), &e) {
			return e
		}
	}
	return err
}

func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// isAnswer says whether err is the given error of etcd.
func isAnswer(err, want error) bool { return err != nil && errors.Is(answer(err), want) }
