package zkconn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/hint"
)

// Reasons why a session is over.
var (
	errClosed  = over("session was closed")
	errExpired = over("session expired")
	errMoved   = over("the connection has gone on with another session")
)

func over(why string) error {
	return driver.Wrap(driver.ErrSessionLost, errors.New("zookeeper: "+why))
}

// Error codes of the service that the client library reports as text only.
const (
	codeUnimplemented    = -6
	codeExpired          = -112
	codeMoved            = -118
	codeReadOnly         = -119
	codeEphemeralOnLocal = -120
	codeNeedsSASL        = -124
	codeQuota            = -125
	codeThrottled        = -127
)

// codeError is the error of a request to end a session with this code. All but
// a few would come again.
func codeError(code int32) error {
	err := fmt.Errorf("zookeeper: ending the session failed with code %d", code)
	switch code {
	case codeMoved, codeReadOnly, codeThrottled:
		return err
	}
	return driver.Wrap(driver.ErrRefused, err)
}

// translate gives a library error its kind. Callers check for the cause, such
// as zk.ErrNoNode, where it means something else to them.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var known *driver.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, zk.ErrSessionExpired):
		return driver.Wrap(driver.ErrSessionLost, err)
	case errors.Is(err, zk.ErrNoNode):
		return driver.Wrap(driver.ErrGone, err)
	case errors.Is(err, zk.ErrBadVersion):
		return driver.Wrap(driver.ErrStale, err)
	case errors.Is(err, zk.ErrInvalidPath):
		return driver.Wrap(driver.ErrInvalid, err) // found before anything was sent
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed),
		errors.Is(err, zk.ErrInvalidACL), errors.Is(err, zk.ErrBadArguments),
		errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return driver.Wrap(driver.ErrRefused, hint.On(err, "not authenticated",
			"the nodes' ACL does not admit this client; check user and password in the URL"))
	}
	switch code(err) {
	case codeUnimplemented, codeEphemeralOnLocal, codeNeedsSASL, codeQuota:
		return driver.Wrap(driver.ErrRefused, err)
	}
	// The rest does not show the outcome: ErrConnectionClosed, ErrNoServer,
	// ErrClosing, throttling (-127), a server in read-only mode (-119);
	// ErrSessionMoved, since another connection has the session; and
	// ErrShortBuffer, a reply that ends too soon. (No request is too long.)
	return driver.Wrap(driver.ErrUnavailable, err)
}

// Unimplemented reports whether the server does not know the request.
func Unimplemented(err error) bool { return code(err) == codeUnimplemented }

func code(err error) int {
	if err == nil {
		return 0
	}
	_, number, _ := strings.Cut(err.Error(), "unknown error: ")
	n, _ := strconv.Atoi(number)
	return n
}

// unavailable is the error of a call whose context ended before it could send
// anything: ErrUnavailable, since the service kept it waiting, and the
// context's.
func unavailable(ctx context.Context, why error) error {
	cause := context.Cause(ctx)
	if why != nil {
		cause = fmt.Errorf("%w: %w", cause, why)
	}
	return driver.Wrap(driver.ErrUnavailable, cause)
}

// Invalid is driver.ErrInvalid with a reason.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
