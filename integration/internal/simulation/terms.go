package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"

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
		a.w.note(func() { a.w.reachIf(a.w.chosen[t.Token()], transferred) })
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
		if ctx.Err() == nil && a.does("transfer", 2) {
			a.transfer(ctx, t.TransferTo)
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
	if a.does("priority", 2) {
		opts = append(opts, election.WithPriority(a.r.IntN(3)), election.WithSettle(a.w.ttl/4))
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

// transfer asks for a transfer to a candidate that waits.
func (a *actor) transfer(ctx context.Context, to func(context.Context, string) error) {
	all := a.w.svc.Snapshot(a.name.queue)
	if len(all) < 2 {
		return
	}
	i := 1 + a.r.IntN(len(all)-1)
	var shown struct{ Identity string }
	_ = json.Unmarshal(all[i].Value, &shown)
	first := slices.IndexFunc(all[1:], func(e driver.Entry) bool {
		var other struct{ Identity string }
		return json.Unmarshal(e.Value, &other) == nil && other.Identity == shown.Identity
	})
	if shown.Identity == "" || first < 1 { // a foreign entry, or the next in the queue
		return
	}
	bound, cancel := context.WithTimeout(ctx, a.w.ttl)
	defer cancel()
	if a.call(bound, "transfer", 0, func(ctx context.Context) error { return to(ctx, shown.Identity) },
		election.ErrNoCandidate) == nil {
		a.w.note(func() { a.w.chosen[all[1+first].Token] = true })
	}
}
