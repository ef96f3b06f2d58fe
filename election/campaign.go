package election

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// patience is how long a campaign may be without an answer of the service
// before Run reports that.
const patience = coordinator.DefaultTTL

// campaign pauses and campaigns. A report that panics ends the campaign, and
// campaign panics in turn.
func (r *runner) campaign(ctx context.Context, pause time.Duration) (*Term, error) {
	r.began = time.Now()
	if err := r.pause(ctx, pause); err != nil {
		return nil, err
	}
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	var o outcome
	stop := r.whileUnanswered(&o, cancel)
	defer stop()
	t, err := r.win(bound, stop)
	stop()
	if o.broken() && t != nil {
		_ = r.resign(ctx, t)
	}
	o.repeat()
	return t, err
}

// win opens a session, and campaigns as Election.Campaign does.
func (r *runner) win(ctx context.Context, stop func()) (*Term, error) {
	s, err := r.election.client.Session(ctx)
	if err != nil {
		return nil, recipes.Describe(ctx, "campaign", r.election.Name(), err)
	}
	r.ttl, r.began = s.TTL(), time.Now()
	return r.election.campaign(ctx, recipes.Request{Op: "campaign", Payload: r.value, Queued: func() {
		stop()
		r.health.waiting(nil)
	}})
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

// whileUnanswered reports once, when patience has passed, that the service does
// not answer. stop cancels that, and waits for a report that is under way.
// After stop, o is the outcome of the report; if the report panicked or exited,
// abort was called.
func (r *runner) whileUnanswered(o *outcome, abort func()) (stop func()) {
	since, reported := time.Now(), make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		defer close(reported)
		defer func() {
			if o.broken() {
				abort()
			}
		}()
		o.exited = true
		defer o.catch()
		err := &coordinator.Error{Op: "campaign", Name: r.election.Name(),
			Err: fmt.Errorf("%w: no answer since %s, still trying",
				coordinator.ErrUnavailable, since.Format(time.RFC3339))}
		r.log().Warn("baton: not leading; the service does not answer",
			"election", r.election.Name(), "error", err)
		r.health.waiting(err)
		r.onError(err)
		o.exited = false
	})
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-reported
		}
	})
}
