package answer

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestErrorsBecomeSentinels(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind error
	}{
		{rpctypes.ErrLeaseNotFound, driver.ErrSessionLost},
		{rpctypes.ErrGRPCLeaseNotFound, driver.ErrSessionLost},

		{rpctypes.ErrNoSpace, driver.ErrRefused},
		{rpctypes.ErrGRPCNoSpace, driver.ErrRefused},
		{rpctypes.ErrPermissionDenied, driver.ErrRefused},
		{rpctypes.ErrAuthFailed, driver.ErrRefused},
		{rpctypes.ErrUserEmpty, driver.ErrRefused},
		{rpctypes.ErrRequestTooLarge, driver.ErrRefused},
		{status.Error(codes.Unimplemented, "not etcd"), driver.ErrRefused},
		{errors.New(rpctypes.ErrGRPCPermissionDenied.Error()), driver.ErrRefused}, // as a watch reports it

		{rpctypes.ErrInvalidAuthToken, driver.ErrUnavailable},
		{errors.New(rpctypes.ErrGRPCInvalidAuthToken.Error()), driver.ErrUnavailable},
		{rpctypes.ErrAuthOldRevision, driver.ErrUnavailable},
		{rpctypes.ErrNoLeader, driver.ErrUnavailable},
		{rpctypes.ErrGRPCNoLeader, driver.ErrUnavailable},
		{rpctypes.ErrLeaderChanged, driver.ErrUnavailable},
		{rpctypes.ErrNotLeader, driver.ErrUnavailable},
		{rpctypes.ErrNotCapable, driver.ErrUnavailable},
		{rpctypes.ErrGRPCNotSupportedForLearner, driver.ErrUnavailable},
		{rpctypes.ErrTimeout, driver.ErrUnavailable},
		{rpctypes.ErrTimeoutDueToLeaderFail, driver.ErrUnavailable},
		{rpctypes.ErrTimeoutDueToConnectionLost, driver.ErrUnavailable},
		{rpctypes.ErrGRPCTimeoutWaitAppliedIndex, driver.ErrUnavailable},
		{rpctypes.ErrTooManyRequests, driver.ErrUnavailable},
		{rpctypes.ErrStopped, driver.ErrUnavailable},
		{status.Error(codes.Unavailable, "connection reset"), driver.ErrUnavailable},
		{status.Error(codes.DeadlineExceeded, "server"), driver.ErrUnavailable},
		{status.Error(codes.Unknown, "not a primary lessor"), driver.ErrUnavailable},
		{errors.New("the client was closed"), driver.ErrUnavailable},
	} {
		got := Wrap(context.Background(), c.err)
		if !errors.Is(got, c.kind) {
			t.Errorf("%v becomes %v, want %v", c.err, got, c.kind)
		}
	}
	if Wrap(context.Background(), nil) != nil {
		t.Error("nil becomes an error")
	}
}

func TestErrorsKeepTheCause(t *testing.T) {
	for _, cause := range []error{rpctypes.ErrNoSpace, rpctypes.ErrGRPCNoSpace, errors.New(rpctypes.ErrGRPCNoSpace.Error())} {
		var e rpctypes.EtcdError
		if err := Wrap(context.Background(), cause); !errors.As(err, &e) || e != rpctypes.ErrNoSpace { //nolint:errorlint // the very value is promised
			t.Errorf("%v becomes %v", cause, err)
		}
	}
}

func TestContextCauseIsReturned(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if err := Wrap(ctx, context.Canceled); err != why { //nolint:errorlint // the very value is promised
		t.Errorf("got %v, want the cause", err)
	}
	if err := Wrap(ctx, rpctypes.ErrLeaseNotFound); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("got %v: the service's final answer is lost", err)
	}
}
