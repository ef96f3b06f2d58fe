package zkconn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestErrorsOfTheLibraryGetTheirKinds(t *testing.T) {
	unknown := func(code int) error { return fmt.Errorf("unknown error: %v", zk.ErrCode(code)) }
	for _, c := range []struct{ err, want error }{
		{zk.ErrConnectionClosed, driver.ErrUnavailable},
		{zk.ErrNoServer, driver.ErrUnavailable},
		{zk.ErrClosing, driver.ErrUnavailable},
		{zk.ErrUnknown, driver.ErrUnavailable},
		{zk.ErrSessionMoved, driver.ErrUnavailable},
		{errors.New("something new"), driver.ErrUnavailable},
		{unknown(-127), driver.ErrUnavailable}, // throttled
		{unknown(-119), driver.ErrUnavailable}, // read-only server
		{unknown(-2), driver.ErrUnavailable},
		{zk.ErrSessionExpired, driver.ErrSessionLost},
		{zk.ErrNoNode, driver.ErrGone},
		{zk.ErrBadVersion, driver.ErrStale},
		{zk.ErrNoAuth, driver.ErrRefused},
		{zk.ErrAuthFailed, driver.ErrRefused},
		{zk.ErrInvalidACL, driver.ErrRefused},
		{zk.ErrNoChildrenForEphemerals, driver.ErrRefused},
		{unknown(codeQuota), driver.ErrRefused},
		{unknown(codeNeedsSASL), driver.ErrRefused},
		{unknown(codeUnimplemented), driver.ErrRefused},
		{zk.ErrInvalidPath, driver.ErrInvalid},
		{zk.ErrShortBuffer, driver.ErrUnavailable},
	} {
		got := translate(c.err)
		if !errors.Is(got, c.want) || !errors.Is(got, c.err) {
			t.Errorf("translate(%v) = %v; want %v with its cause", c.err, got, c.want)
		}
		if again := translate(got); again.Error() != got.Error() {
			t.Errorf("translating %v twice changes it", c.err)
		}
	}
	if translate(nil) != nil {
		t.Error("translate(nil) is an error")
	}
}

func TestUnavailableIsTheContextsErrorToo(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reason, refused := errors.New("shutting down"), errors.New("connection refused")
	cancel(reason)
	err := unavailable(ctx, refused)
	for _, want := range []error{driver.ErrUnavailable, reason, refused} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
}
