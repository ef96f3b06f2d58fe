package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
)

// Run campaigns and calls work while it leads. The context of work has the
// values and the deadline of ctx. It ends, with the cause, when the term or ctx
// ends; then work must return within the bound of [WithDrain]. If ctx ended,
// the term lasts until then. Then the first row that fits applies:
//
//	work returned       Run
//	after ctx ended     resigns, returns context.Cause(ctx)
//	Stop(err)           resigns, returns err
//	after a lost term   calls the function of WithOnError, pauses, campaigns again
//	nil                 resigns, returns nil
//	ErrStepDown         resigns, pauses, campaigns again; so after a transfer
//	another error       resigns, and then as after a lost term
//
// If ctx ended, Run returns the error of work joined with the cause; after a
// lost term WithOnError gets it with the loss; but not one that only says that
// the context ended. A failed resignation is joined; the next leader may wait
// for a TTL. A failed campaign is as a lost term. ErrInvalid, ErrClosed,
// ErrOverrun and panics end Run. Work may itself resign.
func (e *Election) Run(ctx context.Context, work func(context.Context, *Term) error, opts ...RunOption) error {
	cfg, err := newRunConfig(e.Name(), opts)
	if err != nil {
		return err
	}
	if work == nil {
		return invalid("run", e.Name(), "nil work")
	}
	if err := e.refusesPriority(); cfg.prefers && err != nil {
		return err
	}
	r := &runner{runConfig: cfg, election: e, work: work}
	defer r.health.set(nil, "not a candidate")
	return r.run(ctx)
}

// runner is one call of Run.
type runner struct {
	runConfig
	election  *Election
	work      func(context.Context, *Term) error
	queued    time.Time     // when the last campaign was; zero if it was not
	ttl       time.Duration // of the session
	reporting sync.Mutex    // held during onError
}

// run is the loop of Run:
//
//	   +------------------------- pause <------------------------+
//	   v                                                         |
//	campaign ---> work runs ---> term lost: drain ---------------+
//	                 |  |                                        |
//	                 |  +------> error, ErrStepDown: resign -----+
//	                 |
//	                 +---------> work is done, or Stop: resign -----> return
//	                 +---------> ctx ended: drain, resign ----------> return
func (r *runner) run(ctx context.Context) error {
	r.health.waiting(nil)
	pauses, pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(r.initial), backoff.WithMaxInterval(r.longest),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0),
		backoff.WithMaxElapsedTime(0)), time.Duration(0)
	for {
		again, err := r.attempt(ctx, pause)
		if !again {
			return err
		}
		// The wait in the queue counts as well as the term: the pause limits
		// how often Run attempts to lead. Time without success does not count,
		// such as a pause, or the time until a refusal.
		if !r.queued.IsZero() && time.Since(r.queued) >= r.longest {
			pauses.Reset()
		}
		pause = engine.Of(r.election.client).Vary(ctx, pauses.NextBackOff())
		r.health.waiting(err)
		if err != nil {
			r.log().Warn("baton: not leading; campaigning again after a pause",
				"election", r.election.Name(),
				"pause", pause.Round(time.Millisecond), "error", err)
			r.report(err)
		}
	}
}

// lead runs the work of one term.
func (r *runner) lead(ctx context.Context, t *Term) (again bool, err error) {
	var j *job
	settled := false
	defer func() {
		if !settled { // foreign code has panicked: a hook, or an observer that is direct
			_ = r.leave(ctx, t, j)
		}
	}()
	defer t.ask(nil)
	if t.base.Err() != nil || t.Err() != nil { // ended since the grant
		settled = true
		return r.finish(ctx, t, outcome{ended: true, asked: context.Cause(t.base), lost: loss(t)})
	}
	r.health.set(t, "")
	j = start(t, r.work)
	defer j.stop()
	defer r.attendTo(t)()
	o, returned := r.await(t, j)
	settled = true
	if !returned {
		return false, r.overrun(ctx, t, j)
	}
	<-j.gone
	return r.finish(ctx, t, o)
}

// await waits for the work. When its context has ended, await waits until
// another process may lead or the drain is over, calls onOverrun, and waits for
// the rest of the drain.
func (r *runner) await(t *Term, j *job) (o outcome, ok bool) {
	stalled, o, ok := r.untilEnded(t, j)
	if ok {
		return o, true
	}
	var over, late <-chan time.Time // late: after a lost term, another process may lead
	if r.drain != Forever {
		over = time.After(r.drain)
	}
	r.health.drains(j.ctx, stalled)
	lost, last := t.Context().Done(), false
	for waiting := true; waiting; {
		select {
		case o = <-j.result:
			return o, true
		case <-lost:
			lost = nil
			if loss(t) != nil { // else the work itself has resigned
				late = time.After(r.grace(t))
			}
		case <-late:
			waiting = false
		case <-over:
			last, waiting = true, false
		}
	}
	if o, ok = j.poll(); ok { // select may choose either of two ready cases
		return o, true
	}
	r.log().Warn("baton: work has not stopped in time",
		"election", r.election.Name(), "token", t.Token(),
		"cause", context.Cause(j.ctx), "lost", context.Cause(t.Context()))
	engine.Of(r.election.client).Flush(flushPatience) // onOverrun may end the process
	r.onOverrun()
	if !last {
		select {
		case o = <-j.result:
			return o, true
		case <-over:
		}
	}
	return j.poll()
}

// untilEnded waits for the work, or until its context has ended, which it does
// when the work has not reported progress for too long.
func (r *runner) untilEnded(t *Term, j *job) (stalled bool, o outcome, ok bool) {
	var idle <-chan time.Time
	if r.progress > 0 {
		idle = time.After(r.progress)
	}
	for {
		select {
		case o = <-j.result:
			return stalled, o, true
		case <-j.ctx.Done():
			return stalled, o, false
		case <-idle:
			if left := r.progress - t.idle(); left > 0 {
				idle = time.After(left)
				continue
			}
			idle, stalled = nil, true
			r.log().Warn("baton: work makes no progress; its context has ended",
				"election", r.election.Name(), "token", t.Token(), "budget", r.progress)
			t.ask(fmt.Errorf("%w for %v", ErrStalled, r.progress))
		}
	}
}

// flushPatience bounds how long a blocked log delays onOverrun.
const flushPatience = 100 * time.Millisecond

// marginsPerTTL: the context of a lost term ends a tenth of the TTL before the
// service can elect another leader.
const marginsPerTTL = 10

// grace is how long, after t was lost, no other process can lead. It is shorter
// after a pause of the process. It is too long if the service itself has ended
// the session.
func (r *runner) grace(t *Term) time.Duration {
	margin := r.ttl / marginsPerTTL
	return max(0, min(margin, time.Until(t.Deadline())+margin))
}

// finish ends a term whose work has returned.
func (r *runner) finish(ctx context.Context, t *Term, o outcome) (again bool, err error) {
	r.health.done(t)
	resigned := r.resign(ctx, t)
	o.repeat()
	switch {
	case o.ended && ctx.Err() != nil:
		return false, join(context.Cause(ctx), own(o), r.lost(o.lost), resigned)
	case o.stop:
		return false, join(o.err, r.lost(o.lost), resigned)
	case o.lost != nil:
		return !errors.Is(o.lost, coordinator.ErrClosed), join(r.lost(o.lost), own(o))
	case o.ended && errors.Is(o.asked, ErrStalled):
		return true, join(r.failed(o.asked), own(o), resigned)
	case o.ended && errors.Is(o.asked, ErrStepDown):
		r.steppedDown(t, o.asked)
		return true, join(own(o), resigned)
	case errors.Is(o.err, ErrStepDown):
		r.steppedDown(t, o.err)
		return true, resigned
	case o.err == nil:
		return false, resigned
	}
	return true, join(r.failed(fmt.Errorf("work: %w", o.err)), resigned)
}

func (r *runner) steppedDown(t *Term, reason error) {
	r.log().Info("baton: leader steps down",
		"election", r.election.Name(), "token", t.Token(), "reason", reason)
}

// overrun ends a term whose work does not return.
func (r *runner) overrun(ctx context.Context, t *Term, j *job) error {
	var ended error
	if t.base.Err() != nil {
		ended = context.Cause(t.base)
	}
	lost := r.lost(loss(t))
	resigned := r.leave(ctx, t, j)
	r.log().Warn("baton: resigned although the work still runs",
		"election", r.election.Name(), "token", t.Token(),
		"waited", r.drain)
	return join(r.failed(fmt.Errorf("%w within %v of the end of its context", ErrOverrun, r.drain)),
		ended, lost, resigned)
}

// leave resigns without waiting for the work, if there is any.
func (r *runner) leave(ctx context.Context, t *Term, j *job) error {
	if j != nil {
		r.health.leave(j)
		defer close(j.left) // also if an observer panics
	}
	return r.resign(ctx, t)
}

// resignPatience bounds how long Run waits for the service when it resigns.
// After that resigning continues in the background.
const resignPatience = 2 * time.Second

// resign ends a term. It is no error if the term was over before.
func (r *runner) resign(ctx context.Context, t *Term) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignPatience)
	defer cancel()
	err := t.Resign(ctx)
	for _, over := range []error{
		coordinator.ErrNotHeld, coordinator.ErrSessionLost, coordinator.ErrRemoved, coordinator.ErrClosed,
	} {
		if errors.Is(err, over) {
			return nil
		}
	}
	return err
}
