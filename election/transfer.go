package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// This file lets a candidate lead next although others are ahead of it:
//
//	record     {from, to}: the term that ends, and the entry that is next. It is
//	           that of a queue of its own, which has no contenders
//	leader     stops its work, and leaves without a handoff: the next candidate
//	           has to read the queue, at least as new as the record
//	candidate  that was not handed over reads the record before it leads. If the
//	           entry of the record is queued behind its own, it leaves, again
//	           without a handoff, and joins at the end. Else it leads
//
// The order of the queue stays the service's, and the first in it is the only
// one that may lead: a candidate that lets another pass has had a term without
// work. So whatever becomes of the record, no two lead. A record that is not
// seen in time lets the first in the queue lead.
//
// Each candidate that leaves brings the entry of the record one place nearer to
// the head, so it becomes the first, unless it leaves: then the next that reads
// the record does not find it, and leads. The entry of a process that has died
// is gone with its session, so that takes a TTL.
//
// A record stays until the next transfer. No entry has its ID again, so it has
// no effect once that entry has led or gone. While it waits, because its leader
// did not step down, the candidate leads after the next leader that dies.
//
// A term that ends by itself hands over, and reads and writes no record.

// nextKind is the kind of the queue whose record says who leads next.
const nextKind = "election-next"

// next is that record.
type next struct {
	From     driver.Token `json:"from"`     // the leader that shall step down
	To       driver.Token `json:"to"`       // the candidate
	ID       string       `json:"id"`       // of its entry
	Identity string       `json:"identity"` // for people
}

var errShared = engine.Invalid("the other clients of a shared queue know neither transfers nor priorities")

// readNext returns the record when its version differs from known.
func (e *Election) readNext(ctx context.Context, known driver.Version) (n next, v driver.Version, err error) {
	err = e.engine().OnSession(ctx, func(s *engine.Session) error {
		r, err := s.Record(ctx, e.next, known)
		v = r.Version
		if err == nil && v != 0 && json.Unmarshal(r.Value, &n) != nil {
			n = next{} // of another program; the next transfer replaces it
		}
		return err
	})
	return n, v, err
}

// writeNext writes the record, whatever it was.
func (e *Election) writeNext(ctx context.Context, n next) error {
	value, err := json.Marshal(n)
	if err != nil { // never, for numbers and strings
		return err
	}
	for tries := 1; ; tries++ {
		_, version, err := e.readNext(ctx, driver.Any)
		if err != nil {
			return err
		}
		err = e.engine().OnSession(ctx, func(s *engine.Session) error {
			_, err := s.SetRecord(ctx, e.next, value, version)
			return err
		})
		// Overtaken by another transfer, or by this one whose reply was lost:
		// the last one counts.
		if !recipes.Overtaken(ctx, err) {
			return err
		}
		if err := e.engine().PauseAgain(ctx, tries); err != nil {
			return err
		}
	}
}

func (e *Election) engine() *engine.Client { return engine.Of(e.client) }

// choose writes, and returns, that the first waiting candidate with an identity
// leads after the leader with a token. 0 is the present one; if that has the
// identity, choose writes nothing.
func (e *Election) choose(ctx context.Context, from coordinator.Token, identity string) (next, error) {
	if e.next == "" {
		return next{}, errShared
	}
	all, err := e.Candidates(ctx)
	if err != nil {
		return next{}, err
	}
	if from == 0 && len(all) > 0 {
		if from = all[0].Token; all[0].Identity == identity {
			return next{From: from, To: from}, nil
		}
	}
	i := slices.IndexFunc(all, func(c recipes.Contender) bool { return c.Identity == identity && c.Token > from })
	if i < 0 {
		return next{}, fmt.Errorf("%w %s", ErrNoCandidate, engine.Printable(identity))
	}
	n := next{From: from, To: all[i].Token, ID: all[i].ID, Identity: identity}
	return n, e.writeNext(ctx, n)
}

// TransferTo steps down for the first waiting candidate with an identity: those
// ahead let it pass. If it leaves or dies, the first leads. Under Run, it ends
// the context of work with [ErrStepDown]; Run resigns after the drain. After an
// error (ErrNoCandidate, as of Proclaim) the term goes on.
func (t *Term) TransferTo(ctx context.Context, identity string) error {
	describe := func(err error) error {
		return recipes.Describe(ctx, "transfer", t.election.Name(), err)
	}
	if err := t.hold.Check(ctx); err != nil {
		return describe(err)
	}
	n, err := t.election.choose(ctx, t.Token(), identity)
	if over := t.hold.Check(ctx); over != nil {
		err = over
	}
	if err != nil {
		return describe(err)
	}
	if !t.stepDownFor(n) {
		return t.Resign(ctx)
	}
	return nil
}

// stepDownFor makes the end of the term one that lets the candidate of a record
// pass, and asks the work to stop. It returns false if there is no Run to ask.
func (t *Term) stepDownFor(n next) bool {
	t.hold.NoHandoff()
	if t.ask != nil {
		t.ask(fmt.Errorf("%w: transfer to %s", ErrStepDown, engine.Printable(n.Identity)))
	}
	return t.ask != nil
}

// Transfer asks the leader's Run for a TransferTo, and waits until it is done.
// After an error (ErrNoCandidate, or as of Campaign) that may still happen.
func (e *Election) Transfer(ctx context.Context, identity string) error {
	n, err := e.choose(ctx, 0, identity)
	if err != nil || n.From == n.To {
		return recipes.Describe(ctx, "transfer", e.Name(), err)
	}
	follower := e.queue.Follow()
	for {
		first, ok, err := follower.Next(ctx)
		switch {
		case err != nil:
			return recipes.Describe(ctx, "transfer", e.Name(), err)
		case first.Token == n.To:
			return nil
		case !ok || first.Token > n.To: // those ahead join behind it
			return recipes.Describe(ctx, "transfer", e.Name(),
				fmt.Errorf("%w %s any more", ErrNoCandidate, engine.Printable(identity)))
		}
	}
}

// letsPass reports whether a candidate that was admitted has to let another one
// pass. It leads if that cannot be found out. The error is that of a hold that
// is over, or the cause of ctx.
func (e *Election) letsPass(ctx context.Context, h *recipes.Hold) (bool, error) {
	under, stop := h.Under(ctx)
	defer stop()
	n, _, err := e.readNext(under, driver.Any)
	// One with a smaller token was ahead, and has gone.
	passes := false
	if err == nil && n.To > h.Token() {
		var all []recipes.Contender
		all, err = e.Candidates(under)
		passes = slices.ContainsFunc(all, func(c recipes.Contender) bool { return c.Token == n.To && c.ID == n.ID })
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	// The session may have ended meanwhile. This is the last step before the
	// caller works.
	if over := h.Check(ctx); over != nil {
		return false, over
	}
	if err != nil {
		e.engine().Log().Warn("baton: cannot read who leads next; leading",
			"election", e.Name(), "token", h.Token(), "error", err)
	}
	return passes, nil
}

// attendTo starts attend. It lasts until stop or the end of the term, so also
// during the drain.
func (r *runner) attendTo(t *Term) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { r.attend(ctx, t) })
	if r.prefers {
		all.Go(func() { r.prefer(ctx, t) })
	}
	return func() { cancel(); all.Wait() }
}

// attend watches for transfers while Run leads, and asks the work to stop.
func (r *runner) attend(ctx context.Context, t *Term) {
	// Most elections have no record: then the wait for it is the only request.
	for known := driver.Version(0); r.election.next != ""; {
		n, v, err := r.election.readNext(ctx, known)
		switch {
		case ctx.Err() != nil || errors.Is(err, coordinator.ErrSessionLost):
			return
		case err != nil:
			r.log().Warn("baton: cannot watch for transfers",
				"election", r.election.Name(), "token", t.Token(), "error", err)
			return
		case n.From == t.Token():
			t.stepDownFor(n)
		}
		known = v
	}
}
