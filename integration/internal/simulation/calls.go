package simulation

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/semaphore"
)

// soon bounds how long after the end of its context a call returns: the driver
// delays it a little.
const soon = 10 * time.Millisecond

// lingers is how long a release tries if its context has ended.
const lingers = 2 * time.Second

// afterwards bounds a release whose context has ended before.
func afterwards(ctx context.Context) time.Duration {
	if ctx.Err() == nil {
		return 0
	}
	return lingers
}

// call runs a call of Baton, and judges when it returns: soon after the end of
// its context and its grace. It also judges its error; more are errors that
// this call may return.
func (a *actor) call(ctx context.Context, what string, grace time.Duration,
	f func(context.Context) error, more ...error) error {
	a.at(what)
	defer a.at("")
	var ended atomic.Int64
	ended.Store(-1)
	stop := context.AfterFunc(ctx, func() { ended.Store(int64(a.w.now())) })
	began := a.w.now()
	a.w.trying(a.label, strings.HasPrefix(what, "try-") && !a.w.retains(a.name))
	dead := ctx.Err() != nil
	if dead {
		ended.Store(int64(began))
	}
	err := f(ctx)
	stop()
	a.w.trying(a.label, false)
	a.w.say("%s: %s: %s", a.label, what, brief(err))
	if at := time.Duration(ended.Load()); at >= 0 && a.w.now()-at > grace+soon {
		a.w.blame("%s: %s returned %v after its context had ended: %v", a.label, what, a.w.now()-at,
			err)
	}
	a.judgeError(calling{ctx: ctx, what: what, began: began, dead: dead, err: err}, more...)
	return err
}

// brief is the text of an error without the parts that differ from run to run.
func brief(err error) string {
	if err == nil {
		return "ok"
	}
	var said []string
	for _, known := range []error{coordinator.ErrUnavailable, coordinator.ErrTaken,
		coordinator.ErrSessionLost, coordinator.ErrRemoved,
		coordinator.ErrRefused, coordinator.ErrInvalid, coordinator.ErrClosed,
		coordinator.ErrNotHeld, coordinator.ErrReleased,
		context.Canceled, context.DeadlineExceeded, semaphore.ErrNoLimit, election.ErrStepDown,
		election.ErrNoCandidate} {
		if errors.Is(err, known) {
			said = append(said, known.Error())
		}
	}
	if coordinator.MayHaveApplied(err) {
		said = append(said, "maybe")
	}
	if said == nil {
		return err.Error()
	}
	return strings.Join(said, ", ")
}
