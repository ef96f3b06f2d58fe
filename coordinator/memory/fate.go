package memory

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Op is the operation of a request.
type Op string

// The operations, one for each method of a driver and session.
const (
	OpOpen       Op = "open"
	OpRenew      Op = "renew"
	OpJoin       Op = "join"
	OpAhead      Op = "ahead"
	OpWatch      Op = "watch"
	OpWatchQueue Op = "watch-queue"
	OpConvert    Op = "convert"
	OpWrite      Op = "write"
	OpLeave      Op = "leave"
	OpForget     Op = "forget"
	OpCheck      Op = "check"
	OpRemove     Op = "remove"
	OpList       Op = "list"
	OpQueues     Op = "queues"
	OpHead       Op = "head"
	OpRecord     Op = "record"
	OpSetRecord  Op = "set-record"
	OpClose      Op = "close"
)

// Request is one request, for [Service.OnRequest].
type Request struct {
	Op      Op
	Driver  *Driver         // the client
	Session string          // ID of the session; empty for OpOpen
	Queue   driver.Queue    // if any
	ID      string          // of the contender, if any
	Context context.Context // of the call; its values can identify goroutines
}

// Fate is the fault of one request. The zero Fate is none.
type Fate struct {
	// DelayRequest and DelayReply are added to the delays of the client's link.
	// A request that arrives after its caller's context has ended is applied.
	// The reply of a call that waits is its notification.
	DelayRequest, DelayReply time.Duration

	// DropRequest breaks the connection before the request arrives, DropReply
	// after it was applied. The caller gets driver.ErrUnavailable.
	DropRequest, DropReply bool

	// Err is the service's answer. Nothing is applied. An error that wraps no
	// sentinel of package driver counts as driver.ErrRefused.
	Err error
}

// OnRequest calls decide for each request of all clients, before it is sent, in
// the caller's goroutine with no lock held. decide may call the service. Nil
// ends it.
func (s *Service) OnRequest(decide func(Request) Fate) {
	if decide == nil {
		s.decide.Store(nil)
		return
	}
	s.decide.Store(&decide)
}

// Once returns a function for [Service.OnRequest] that gives a fate to the
// first request of an operation. With this one, the first reply to a Join is
// lost:
//
//	svc.OnRequest(memory.Once(memory.OpJoin, memory.Fate{DropReply: true}))
func Once(op Op, fate Fate) func(Request) Fate {
	var done atomic.Bool
	return func(r Request) Fate {
		if r.Op == op && done.CompareAndSwap(false, true) {
			return fate
		}
		return Fate{}
	}
}

// Causes that errors wrap together with a sentinel.
var (
	errReset    = errors.New("memory: connection reset")
	errStopped  = errors.New("memory: connection refused: service is stopped")
	errClosed   = errors.New("memory: driver is closed")
	errNotEmpty = errors.New("memory: queue is not empty")
	errFenced   = errors.New("memory: join was overtaken by a later forget")
	errVersion  = errors.New("memory: the record has another version")
	errLate     = errors.New("memory: write was overtaken by a later one")

	errLost = driver.Wrap(driver.ErrSessionLost, errors.New("memory: session is over"))
	errGone = driver.Wrap(driver.ErrGone, errors.New("memory: no such entry"))
)

// sentinels are the errors that clause G3 allows.
var sentinels = []error{
	driver.ErrUnavailable, driver.ErrSessionLost, driver.ErrGone,
	driver.ErrTaken, driver.ErrStale, driver.ErrRefused, driver.ErrInvalid,
}

// classify makes sure that an injected error wraps one of them.
func classify(err error) error {
	if slices.ContainsFunc(sentinels, func(kind error) bool { return errors.Is(err, kind) }) {
		return err
	}
	return driver.Wrap(driver.ErrRefused, err)
}
