package memory

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// Op is a kind of request.
type Op string

// The requests of a driver, one for each method.
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

// Request is one request as it is sent, for [Service.OnRequest].
type Request struct {
	Op      Op
	Driver  *Driver         // the client that sends it
	Session string          // its ID; empty for OpOpen
	Queue   driver.Queue    // that it is about, if any
	ID      string          // of the contender that it is about, if any
	Context context.Context // of the call; its values tell goroutines apart
}

// Fate is what happens to one request. The zero Fate is to pass unharmed.
type Fate struct {
	// DelayRequest and DelayReply are added to the delays of the client's link.
	// A request may arrive after its caller's context has ended, and is applied
	// all the same. The reply of a call that waited is its notification.
	DelayRequest, DelayReply time.Duration

	// DropRequest breaks the connection before the request arrives, DropReply
	// after it was applied. The caller gets driver.ErrUnavailable in both
	// cases.
	DropRequest, DropReply bool

	// Err is the service's answer; nothing is applied. An error that is none of
	// package driver's sentinels counts as driver.ErrRefused.
	Err error
}

// OnRequest lets decide choose the fate of every request of all clients. Nil
// ends it. decide runs in the goroutine of the caller before the request is
// sent, with no lock held: it may use all levers of the service.
func (s *Service) OnRequest(decide func(Request) Fate) {
	if decide == nil {
		s.decide.Store(nil)
		return
	}
	s.decide.Store(&decide)
}

// Once gives a fate to the first request of a kind, and harms no other. It is
// for [Service.OnRequest]; this request is applied and its caller is not told:
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

// What a client finds behind the sentinel.
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

// classify makes sure that an injected error is one of them.
func classify(err error) error {
	if slices.ContainsFunc(sentinels, func(kind error) bool { return errors.Is(err, kind) }) {
		return err
	}
	return driver.Wrap(driver.ErrRefused, err)
}
