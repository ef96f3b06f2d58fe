package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/baton-go/baton/election"
)

// election is a round of a candidate.
func (a *actor) election(ctx context.Context, e *election.Election, generation int) bool {
	if !a.w.isEnding() && a.does("do", 3) {
		a.runElection(ctx, e, generation)
		return false
	}
	what, campaign := "campaign", e.Campaign
	if !a.w.isEnding() && a.does("try", 5) {
		what, campaign = "try-campaign", e.TryCampaign
	}
	var t *election.Term
	floor, asked := a.w.ask(a.label, a.name)
	err := a.call(ctx, what, 0, func(ctx context.Context) (err error) {
		t,
			err = campaign(ctx, []byte(a.label))
		return err
	})
	if err != nil {
		return false
	}
	x := a.held(t, true, 1, floor, asked, generation)
	for range a.times("proclaim") {
		a.dwell(t.Context())
		a.proclaim(t)
	}
	a.dwell(t.Context())
	return a.back(x, "resign", t.Resign)
}

// proclaim changes the value of a term.
func (a *actor) proclaim(t *election.Term) {
	value := fmt.Sprintf("%s says %d", a.label, a.r.IntN(1000))
	ctx, cancel := a.bounds()
	defer cancel()
	err := a.call(ctx, "proclaim", 0,
		func(ctx context.Context) error { return t.Proclaim(ctx, []byte(value)) })
	if err != nil {
		return
	}
	for _, e := range a.w.svc.Snapshot(a.name.queue) {
		var shown struct{ Payload []byte }
		if _ = json.Unmarshal(e.Value, &shown); e.Token == t.Token() &&
			string(shown.Payload) != value {
			a.w.blame("%s: proclaimed %q, and the queue shows %q", a.label, value, shown.Payload)
		}
	}
}

// errWork is an error of work, which ends only the term.
var errWork = errors.New("the work has failed")

// runElection is a round with Run.
func (a *actor) runElection(ctx context.Context, e *election.Election, generation int) {
	terms := 1 + a.r.IntN(3)
	var last *handle
	failed, hangs := false, a.does("hang", 4)
	floor, asked := a.w.ask(a.label, a.name)
	work := func(ctx context.Context, t *election.Term) error {
		if last != nil && last.live() {
			a.w.blame("%s: two calls of work overlap", a.label)
		}
		last = a.held(inWork{t, ctx}, true, 1, floor, asked, generation)
		defer func() { floor, asked = a.w.ask(a.label, a.name) }()
		a.w.note(func() { a.w.reachIf(failed, ledAfterFailure) })
		if hangs { // the first term, and then the work goes on
			hangs = false
			<-ctx.Done()
			a.w.note(func() { a.w.reachIf(errors.Is(context.Cause(ctx), election.ErrStalled), stalled) })
		}
		t.Progress()
		a.dwell(ctx)
		if ctx.Err() == nil && a.does("proclaim", 2) {
			a.proclaim(t)
		}
		if a.does("slow to stop", 5) {
			// It is slow to stop; the term has its own context.
			time.Sleep(time.Duration(1 + a.r.Int64N(int64(a.w.ttl/2))))
		}
		if terms--; terms > 0 && ctx.Err() == nil && !a.w.isEnding() {
			if failed = a.does("fail", 3); failed {
				return errWork
			}
			return election.ErrStepDown
		}
		return nil
	}
	opts := []election.RunOption{
		election.WithPause(time.Duration(1+a.r.Int64N(int64(100*time.Millisecond))), a.w.ttl),
		election.WithValue([]byte(a.label)),
	}
	if hangs {
		opts = append(opts, election.WithProgress(a.w.ttl))
	}
	err := a.call(ctx, "run", workTime(a.w), func(ctx context.Context) error {
		return e.Run(ctx, work, opts...)
	})
	if last != nil && last.live() {
		a.w.blame("%s: Run returned %v, and its term is alive", a.label, err)
	}
}
