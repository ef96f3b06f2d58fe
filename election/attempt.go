package election

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// patience is how long a campaign may be without an answer of the service before that is told.
const patience = coordinator.DefaultTTL

// attempt is one pause and campaign of Run. It has a goroutine of its own, so
// that Run can tell meanwhile that nobody answers.
type attempt struct {
	standing chan struct{} // closed when the candidate is queued, as the service has shown it
	done     chan struct{} // closed when all below is set
	term     *Term
	err      error
	panicked *PanicError
	exited   bool // by runtime.Goexit
}

// campaign pauses and campaigns, as Campaign does.
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
	a := &attempt{standing: make(chan struct{}), done: make(chan struct{})}
	ended := false
	defer func() {
		if ended {
			return
		}
		cancel() // what is called below has panicked
		if <-a.done; a.term != nil {
			_ = r.resign(ctx, a.term)
		}
	}()
	go a.run(ctx, r, pause)
	timer := time.NewTimer(pause + patience)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-a.standing:
	case <-timer.C:
		select {
		case <-a.done:
		case <-a.standing:
		case <-ctx.Done():
		default:
			r.unanswered(began)
		}
	}
	<-a.done
	ended = true
	switch {
	case a.panicked != nil:
		panic(a.panicked)
	case a.exited:
		runtime.Goexit()
	}
	return a.term, a.err
}

// unanswered tells that the service is not there.
func (r *runner) unanswered(since time.Time) {
	err := &coordinator.Error{Op: "campaign", Name: r.election.Name(),
		Err: fmt.Errorf("%w: no answer since %s, still trying", coordinator.ErrUnavailable, since.Format(time.RFC3339))}
	r.log().Warn("baton: not leading; the service does not answer", "election", r.election.Name(), "error", err)
	r.health.waiting(err)
	r.onError(err)
}

func (a *attempt) run(ctx context.Context, r *runner, pause time.Duration) {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			a.panicked = &PanicError{Value: v, Stack: debug.Stack()}
		}
		a.exited = !returned && a.panicked == nil
		close(a.done)
	}()
	a.term, a.err = r.candidate(ctx, pause, func() {
		select {
		case <-a.standing:
		default:
			r.health.waiting(nil)
			close(a.standing)
		}
	})
	returned = true
}

// candidate pauses and campaigns. It calls standing as Election.campaign does.
func (r *runner) candidate(ctx context.Context, pause time.Duration, standing func()) (*Term, error) {
	s, err := r.session(ctx, pause)
	if err != nil {
		return nil, err
	}
	r.ttl, r.began = s.TTL(), time.Now()
	return r.election.campaign(ctx, recipes.Request{Op: "campaign", Payload: r.value}, standing)
}

// session waits for the pause to pass and returns the session to campaign on.
// The end of the client ends the pause, and Run with it.
func (r *runner) session(ctx context.Context, pause time.Duration) (*coordinator.Session, error) {
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
	return s, recipes.Describe(ctx, "campaign", r.election.Name(), err)
}
