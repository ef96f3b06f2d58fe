package election

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// patience is how long a campaign may be without an answer of the service before
// Run reports that.
const patience = coordinator.DefaultTTL

// campaign is one pause and campaign of Run. It has a goroutine of its own, so
// that Run can report meanwhile that the service does not answer.
type campaign struct {
	queued chan struct{} // closed when the candidate is queued
	done   chan struct{} // closed when all below is set
	term   *Term
	err    error
	ending ending
}

// campaign pauses and campaigns, as Election.Campaign does.
func (r *runner) campaign(ctx context.Context, pause time.Duration) (*Term, error) {
	began := time.Now()
	r.began = began
	if err := r.election.check(ctx, "campaign", r.value); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &campaign{queued: make(chan struct{}), done: make(chan struct{})}
	returned := false
	defer func() {
		if returned {
			return
		}
		cancel() // a hook or log handler that is called below has panicked
		if <-c.done; c.term != nil {
			_ = r.resign(ctx, c.term)
		}
	}()
	go guard(func() { c.term, c.err = r.candidate(ctx, pause, c.queued) },
		func(e ending) { c.ending = e; close(c.done) })
	timer := time.NewTimer(pause + patience)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-c.queued:
	case <-timer.C:
		select {
		case <-c.done:
		case <-c.queued:
		case <-ctx.Done():
		default:
			r.unanswered(began)
		}
	}
	<-c.done
	returned = true
	c.ending.repeat()
	return c.term, c.err
}

// unanswered reports that the service does not answer.
func (r *runner) unanswered(since time.Time) {
	err := &coordinator.Error{Op: "campaign", Name: r.election.Name(),
		Err: fmt.Errorf("%w: no answer since %s, still trying",
			coordinator.ErrUnavailable, since.Format(time.RFC3339))}
	r.log().Warn("baton: not leading; the service does not answer",
		"election", r.election.Name(), "error", err)
	r.health.waiting(err)
	r.onError(err)
}

// candidate waits for the pause to pass, opens a session, and campaigns. It
// closes queued when the candidate is queued. The end of the client ends the
// pause.
func (r *runner) candidate(
	ctx context.Context, pause time.Duration, queued chan struct{},
) (*Term, error) {
	client := r.election.client
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-client.Done():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s, err := client.Session(ctx)
	if err != nil {
		return nil, recipes.Describe(ctx, "campaign", r.election.Name(), err)
	}
	r.ttl, r.began = s.TTL(), time.Now()
	return r.election.campaign(ctx, recipes.Request{Op: "campaign", Payload: r.value, Queued: func() {
		r.health.waiting(nil)
		close(queued)
	}})
}
