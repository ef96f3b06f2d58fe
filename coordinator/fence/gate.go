package fence

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// Checker returns nil to admit a sequencer. Examples are [Gate.Check] and
// coordinator.Client.Check.
type Checker func(ctx context.Context, s Sequencer) error

// Gate protects a resource in the memory of this process: it admits a token
// unless a greater one was shown before. It forgets tokens when the process
// ends. It is safe for concurrent use. The zero Gate admits the scope of the
// first sequencer shown.
//
// A sequencer can be forged, and a forged token that is very large keeps all
// holders out until Reset. So authenticate callers before the gate sees their
// sequencers, or set Confirm.
type Gate struct {
	// Confirm, if it is set before the first call, is asked for each token
	// that is greater than all tokens before; its error refuses the token.
	// coordinator.Client.Check asks the service, with one request for each
	// new grant.
	Confirm Checker

	want Scope // that of NewGate; empty fields match any

	lane   lane[Sequencer]
	scope  Scope        // want, with the fields of the first sequencer shown
	latest driver.Token // the greatest shown
	resets int          // calls of Reset
}

// NewGate returns a gate for the sequencers of a scope. The first sequencer
// shown sets empty fields, such as a service that the process does not know.
func NewGate(scope Scope) *Gate { return &Gate{want: scope} }

// Check admits the sequencer, or returns a *StaleError, a *ForeignError, or
// driver.ErrInvalid for a malformed one. It waits for running calls of Do, or
// until ctx ends. An access after Check may run beside the next holder's; Do
// prevents that.
func (g *Gate) Check(ctx context.Context, s Sequencer) error {
	return g.Do(ctx, s, func(context.Context) error { return nil })
}

// Do runs access if Check admits the sequencer, and returns the error of
// either. No other Check or Do runs meanwhile.
//
// The context of access ends with ctx, when access returns, or, with a
// *StaleError as its cause, as soon as a greater token is shown: the next
// holder waits until access returns. So access should end with its context, and
// do only what must not run beside the next holder's: a body that a stopped
// client sends is read before Do, not in it. Nor may access call Check or Do,
// or send or receive a message that grpcfence checks: that would wait for the
// access itself.
func (g *Gate) Do(ctx context.Context, s Sequencer, access func(context.Context) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.Validate(); err != nil {
		return err
	}
	admit := g.raise
	if g.Confirm != nil {
		rises, resets, err := g.rises(s)
		if err == nil && rises {
			err = g.Confirm(ctx, s) // not under the lock: it may take a request
		}
		if err != nil {
			return err
		}
		// Meanwhile a greater token can be shown, which raise finds, and the
		// gate can be reset: then another service decides.
		admit = func(s Sequencer) error {
			if g.resets != resets {
				return errReset
			}
			return g.raise(s)
		}
	}
	return g.lane.do(ctx, s, admit, access)
}

// rises reports whether raise would store the sequencer's token, and how often
// the gate was reset.
func (g *Gate) rises(s Sequencer) (rises bool, resets int, err error) {
	g.lane.mu.Lock()
	defer g.lane.mu.Unlock()
	err = g.compare(s)
	return s.Token > g.latest, g.resets, err
}

// raise admits the sequencer, and raises the greatest token. The token rises
// before the sequencer's turn, so that smaller tokens that wait are refused,
// and one that runs is told to end. The caller holds g.lane.mu.
func (g *Gate) raise(s Sequencer) error {
	if err := g.compare(s); err != nil {
		return err
	}
	g.lane.end(func(earlier Sequencer) error {
		if earlier.Token < s.Token {
			return &StaleError{Shown: earlier, Latest: s.Token}
		}
		return nil
	})
	g.scope, g.latest = s.Scope, s.Token
	return nil
}

// compare returns the reason to refuse the sequencer, or nil. The caller holds
// g.lane.mu.
func (g *Gate) compare(s Sequencer) error {
	if g.latest == 0 {
		g.scope = g.want
	}
	if err := s.In(g.scope); err != nil {
		return err
	}
	if s.Token < g.latest {
		return &StaleError{Shown: s, Latest: g.latest}
	}
	return nil
}

// Latest returns the greatest token shown so far and not refused, or zero.
func (g *Gate) Latest() driver.Token {
	g.lane.mu.Lock()
	defer g.lane.mu.Unlock()
	return g.latest
}

// Reset forgets the greatest token and the scope of the first sequencer: the
// gate is as NewGate made it. It is for the operator of a service that was
// replaced, or restored with smaller tokens; it also admits late requests of
// earlier holders again. It ends the contexts of the accesses that run or wait,
// with a cause that is no refusal, and does not wait for them. A call for which
// Confirm is asked meanwhile fails in the same way.
func (g *Gate) Reset() {
	g.lane.mu.Lock()
	defer g.lane.mu.Unlock()
	g.scope, g.latest = Scope{}, 0
	g.resets++
	g.lane.reset()
}

// With returns a context that carries a sequencer.
func With(ctx context.Context, s Sequencer) context.Context {
	return context.WithValue(ctx, key{}, s)
}

// From returns the sequencer of a context that With made.
func From(ctx context.Context) (s Sequencer, ok bool) {
	s, ok = ctx.Value(key{}).(Sequencer)
	return s, ok
}

type key struct{}
