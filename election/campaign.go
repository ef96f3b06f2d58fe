package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// patience is how long a campaign may be without an answer of the service
// before Run reports that.
const patience = coordinator.DefaultTTL

// attempt pauses, campaigns and, if it wins, leads. If again is true, nothing
// is held, no work runs, and Run continues; err is then the failure to report,
// if any.
//
// The report of an outage may run meanwhile, and block. It delays neither the
// campaign nor the term: a candidate that waited for it would keep all others
// waiting, too. If it panics or exits, the attempt ends as if ctx had, and
// attempt panics or exits in turn.
func (r *runner) attempt(ctx context.Context, pause time.Duration) (again bool, err error) {
	if err := r.pause(ctx, pause); err != nil {
		return false, err
	}
	bound, abort := context.WithCancel(ctx)
	defer abort()
	o := r.whileUnanswered(abort)
	again, err = r.once(bound, o)
	o.cancel()
	o.wait()
	o.repeat()
	return again, err
}

// once campaigns and, if it wins, leads.
func (r *runner) once(ctx context.Context, o *outage) (again bool, err error) {
	t, err := r.win(ctx, o)
	o.cancel()
	switch {
	case err == nil:
		return r.lead(ctx, t)
	case ctx.Err() != nil:
		// Checked before the other cases: the cause of ctx may be any error,
		// also one of ours.
		// That it waited to lead says nothing new.
		if cause := context.Cause(ctx); !errors.Is(err, cause) || engine.IsCause(ctx, err) {
			return false, cause
		}
		return false, err
	case errors.Is(err, coordinator.ErrInvalid), errors.Is(err, coordinator.ErrClosed):
		return false, err
	}
	return true, err
}

// win opens a session, and campaigns as Election.Campaign does.
func (r *runner) win(ctx context.Context, o *outage) (*Term, error) {
	r.queued = time.Time{}
	s, err := r.election.client.Session(ctx)
	if err != nil {
		return nil, recipes.Describe(ctx, "campaign", r.election.Name(), err)
	}
	r.ttl = s.TTL()
	return r.election.campaign(ctx, recipes.Request{Op: "campaign", Mode: modeOf(r.priority), Payload: r.value, Queued: func() {
		o.cancel()
		r.queued = time.Now()
		r.health.waiting(nil)
	}}, true)
}

// pause waits for d, or until ctx or the client ends.
func (r *runner) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.election.client.Done():
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// outage reports once, when patience has passed, that the service does not
// answer a campaign.
type outage struct {
	outcome // of the report, after wait
	timer   *time.Timer
	done    chan struct{} // closed when the report has ended

	mu   sync.Mutex
	over bool // the service has answered: no report begins
}

func (r *runner) whileUnanswered(abort func()) *outage {
	o, since := &outage{done: make(chan struct{})}, time.Now()
	o.timer = time.AfterFunc(patience, func() {
		defer close(o.done)
		defer func() {
			if o.broken() {
				abort()
			}
		}()
		err := &coordinator.Error{Op: "campaign", Name: r.election.Name(),
			Err: fmt.Errorf("%w: no answer since %s, still trying",
				coordinator.ErrUnavailable, since.Format(time.RFC3339))}
		if !o.begin(func() { r.health.waiting(err) }) {
			return
		}
		o.exited = true
		defer o.catch()
		r.log().Warn("baton: not leading; the service does not answer",
			"election", r.election.Name(), "error", err)
		r.report(err)
		o.exited = false
	})
	return o
}

// begin shows the outage and returns true, unless cancel was called.
func (o *outage) begin(show func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		show()
	}
	return !o.over
}

// cancel prevents the report, if it has not begun.
func (o *outage) cancel() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
}

// wait waits for a report that has begun.
func (o *outage) wait() {
	if !o.timer.Stop() {
		<-o.done
	}
}

// report calls the function of WithOnError, one call at a time.
func (r *runner) report(err error) {
	r.reporting.Lock()
	defer r.reporting.Unlock()
	r.onError(err)
}
