package fence

import (
	"context"
	"sync"

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

	mu      sync.Mutex
	slot    chan struct{}        // has one element while access runs; waiters send in turn
	scope   Scope                // want, with the fields of the first sequencer shown
	latest  driver.Token         // the greatest shown
	callers map[*caller]struct{} // whose access waits or runs
}

// caller is one call of Do.
type caller struct {
	shown Sequencer
	end   context.CancelCauseFunc // ends the context of its access
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
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &caller{s, end}
	if err := g.show(ctx, c); err != nil {
		return err
	}
	defer g.finish(c)
	slot := g.lane()
	select {
	case slot <- struct{}{}:
		defer func() { <-slot }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := g.begin(ctx, s); err != nil {
		return err
	}
	return access(ctx)
}

// show validates the sequencer and raises the greatest token. The token rises
// before the sequencer's turn, so that smaller tokens that wait are refused,
// and one that runs is told to end.
func (g *Gate) show(ctx context.Context, c *caller) error {
	s := c.shown
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.Validate(); err != nil {
		return err
	}
	if g.Confirm != nil {
		if rises, err := g.rises(s); err != nil {
			return err
		} else if rises {
			// Not under the lock: it may take a request. Meanwhile a
			// greater token can be shown, so raise compares again.
			if err := g.Confirm(ctx, s); err != nil {
				return err
			}
		}
	}
	return g.raise(c)
}

// rises reports whether raise would store the sequencer's token.
func (g *Gate) rises(s Sequencer) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return s.Token > g.latest, g.compare(s)
}

func (g *Gate) raise(c *caller) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := c.shown
	if err := g.compare(s); err != nil {
		return err
	}
	if s.Token > g.latest {
		for earlier := range g.callers {
			if earlier.shown.Token < s.Token {
				earlier.end(&StaleError{Shown: earlier.shown, Latest: s.Token})
			}
		}
	}
	g.scope, g.latest = s.Scope, s.Token
	if g.callers == nil {
		g.callers = make(map[*caller]struct{})
	}
	g.callers[c] = struct{}{}
	return nil
}

// compare returns the reason to refuse the sequencer, or nil.
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

// lane returns the channel that admits one access at a time. A channel, since a
// waiter must be able to give up with its context.
func (g *Gate) lane() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slot == nil {
		g.slot = make(chan struct{}, 1)
	}
	return g.slot
}

// begin is called with the slot. A context that has ended may have got it,
// since select chooses at random. It compares again: after a Reset the gate may
// have another scope.
func (g *Gate) begin(ctx context.Context, s Sequencer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.compare(s)
}

func (g *Gate) finish(c *caller) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.callers, c)
}

// Latest returns the greatest token shown so far and not refused, or zero.
func (g *Gate) Latest() driver.Token {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.latest
}

// Reset forgets the greatest token and the scope of the first sequencer: the
// gate is as NewGate made it. It is for the operator of a service that was
// replaced, or restored with smaller tokens; it also admits late requests of
// earlier holders again. Running accesses go on.
func (g *Gate) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scope, g.latest = Scope{}, 0
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
