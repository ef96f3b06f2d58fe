package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/baton-go/baton/coordinator"
)

// ErrStepDown makes Run resign and campaign again, at the end of the queue,
// when work returns it (errors.Is finds it).
var ErrStepDown = errors.New("step down")

// ErrOverrun says that work did not return in time after its context had ended;
// see WithDrain. Its goroutine was left behind and may still run, while another
// process leads. What the work returns later is lost, and if it panics later,
// that ends the process. End the process yourself if you cannot be sure of the
// work's next step.
var ErrOverrun = errors.New("work overran its time to stop")

// Run campaigns, runs work while it leads, and campaigns again when a term was
// lost, until work is done or ctx ends. It never runs two works at once.
//
// The context of work has the values and the deadline of ctx. It ends when the
// term does or when ctx does, with the cause, and work must return soon after;
// see WithDrain for how soon. Its Err looks at the clock, as the term's does.
// When ctx ended, Run goes on leading until work has returned, and only then
// resigns: t and its context live on meanwhile, so that work can put in order
// what it leaves behind. The next leader starts right after that.
//
// How Run goes on depends on how work returned:
//
//	nil                  the work is done: resign, return nil
//	ErrStepDown          resign, campaign again
//	another error        resign, return it
//	after ctx ended      resign, return context.Cause(ctx)
//	after the loss of    campaign again, once work has returned
//	the term
//
// In the last two cases an error of work that says no more than that its
// context ended is left out: the bare error or cause of a context, or one of
// Baton's own (such as Proclaim's). Any other one may say what was left half
// done: after ctx ended it is returned, joined with the cause; after a loss it
// is logged and told to WithOnError together with the loss, of which it is
// mostly a consequence.
//
// Each error is also joined with that of resigning, if that failed: the name is
// then free as soon as the service answers, at the latest when the session has
// ended.
//
// A panic of work passes through: Run resigns, and panics with a [*PanicError].
// If work ends its goroutine (runtime.Goexit, which testing's FailNow calls),
// Run resigns and does the same to its caller.
//
// A campaign that failed is repeated after a pause (see WithPause), logged at
// Warn and told to WithOnError; so is the loss of a term. Run returns an error
// of Campaign that no repetition mends: ErrInvalid, ErrClosed, and what comes
// of the end of ctx. Besides, it returns ErrOverrun.
//
// When Run has returned, nothing of it is left in this process, except after
// ErrOverrun.
func (e *Election) Run(
	ctx context.Context, work func(ctx context.Context, t *Term) error, opts ...RunOption,
) error {
	cfg, err := newRunConfig(e.Name(), opts)
	if err != nil {
		return err
	}
	if work == nil {
		return invalid("run", e.Name(), "nil work")
	}
	r := &runner{runConfig: cfg, election: e, work: work}
	defer r.health.set(nil, "not a candidate")
	return r.run(ctx)
}

// runner is one call of Run.
type runner struct {
	runConfig
	election *Election
	work     func(context.Context, *Term) error
	began    time.Time     // of the last campaign
	ttl      time.Duration // of the session
}

func (r *runner) run(ctx context.Context) error {
	r.health.waiting(nil)
	pauses, pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(r.initial), backoff.WithMaxInterval(r.longest),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxElapsedTime(0)), time.Duration(0)
	for {
		again, err := r.attempt(ctx, pause)
		if !again {
			return err
		}
		// The campaign counts: what must not be frequent is the attempt,
		// whichever part of it was short.
		if time.Since(r.began) >= r.longest {
			pauses.Reset()
		}
		pause = pauses.NextBackOff()
		r.health.waiting(err)
		if err != nil {
			r.log().Warn("baton: not leading; campaigning again after a pause",
				"election", r.election.Name(),
				"pause", pause.Round(time.Millisecond), "error", err)
			r.onError(err)
		}
	}
}

// attempt is a pause and a campaign, and the term if it is won. again: nothing
// is held, no work runs, and Run is to go on. err is then what it survived, if
// anything.
func (r *runner) attempt(ctx context.Context, pause time.Duration) (again bool, err error) {
	t, err := r.campaign(ctx, pause)
	switch {
	case err == nil:
		return r.lead(ctx, t)
	case ctx.Err() != nil:
		// First of all: what ended ctx may be any error, one of ours too, and
		// says nothing about the service.
		if cause := context.Cause(ctx); !errors.Is(err, cause) {
			return false, cause
		}
		return false, err
	case errors.Is(err, coordinator.ErrInvalid), errors.Is(err, coordinator.ErrClosed):
		return false, err
	}
	return true, err
}

// lead runs the work of one term.
func (r *runner) lead(ctx context.Context, t *Term) (again bool, err error) {
	var j *job
	settled := false
	defer func() {
		if !settled { // foreign code has panicked: a hook, an observer, a log handler
			_ = r.leave(ctx, t, j)
		}
	}()
	if ctx.Err() != nil || t.Err() != nil { // ended between the grant and now: no work
		settled = true
		return r.finish(ctx, t, outcome{ended: true, lost: loss(t)})
	}
	r.health.set(t, "")
	j = start(ctx, t, r.work)
	defer j.stop()
	o, returned := r.await(t, j)
	settled = true
	if !returned {
		return false, r.overrun(ctx, t, j)
	}
	<-j.gone
	return r.finish(ctx, t, o)
}

// await waits for the work: for as long as it leads, then until others may lead
// or the drain is over, and, when the overrun has been told, for the rest of
// the drain.
func (r *runner) await(t *Term, j *job) (o outcome, ok bool) {
	select {
	case o = <-j.result:
		return o, true
	case <-j.ctx.Done():
	}
	var over, late <-chan time.Time // late: the term was lost, and others may lead from then on
	if r.drain != Forever {
		over = time.After(r.drain)
	}
	r.health.drains(j.ctx)
	lost, last := t.Context().Done(), false
	for waiting := true; waiting; {
		select {
		case o = <-j.result:
			return o, true
		case <-lost:
			lost = nil
			if loss(t) != nil { // else its own work has resigned, which knows
				late = time.After(r.grace(t))
			}
		case <-late:
			waiting = false
		case <-over:
			last, waiting = true, false
		}
	}
	if o, ok = j.look(); ok { // both at once
		return o, true
	}
	r.log().Warn("baton: work has not stopped in time",
		"election", r.election.Name(), "token", t.Token(),
		"cause", context.Cause(j.ctx), "lost", context.Cause(t.Context()))
	r.onOverrun()
	if !last {
		select {
		case o = <-j.result:
			return o, true
		case <-over:
		}
	}
	return j.look()
}

// marginsPerTTL: the context of a term that is lost ends a tenth of the TTL
// before the service may give the name away.
const marginsPerTTL = 10

// grace is how long, from now, nobody else can lead after t was lost. After a
// pause of the process it is shorter, and it says too much if the service
// itself has ended the session.
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
	case o.lost != nil:
		return !errors.Is(o.lost, coordinator.ErrClosed), join(r.lost(o.lost), own(o))
	case errors.Is(o.err, ErrStepDown):
		r.log().Info("baton: leader steps down",
			"election", r.election.Name(), "token", t.Token(), "reason", o.err)
		return true, resigned
	}
	return false, join(o.err, resigned)
}

// overrun ends a term whose work does not return.
func (r *runner) overrun(ctx context.Context, t *Term, j *job) error {
	var ended error
	if ctx.Err() != nil {
		ended = context.Cause(ctx)
	}
	lost := r.lost(loss(t))
	resigned := r.leave(ctx, t, j)
	r.log().Warn("baton: work is left behind and the name given up",
		"election", r.election.Name(), "token", t.Token(),
		"waited", r.drain)
	return join(&coordinator.Error{Op: "run", Name: r.election.Name(), Err: fmt.Errorf("%w of %v",
		ErrOverrun, r.drain)},
		ended, lost, resigned)
}

// leave gives a term up, and leaves its work behind, if there is any.
func (r *runner) leave(ctx context.Context, t *Term, j *job) error {
	if j != nil {
		r.health.leaves(j)
		defer close(j.left) // also if an observer panics
	}
	return r.resign(ctx, t)
}

// resignPatience bounds how long Run waits for the service when it resigns.
// What is not done by then is done in the background.
const resignPatience = 2 * time.Second

// resign ends a term. That it was over before is no error here.
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
