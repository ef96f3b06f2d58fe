package fence

import (
	"context"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
)

// Checker returns nil to admit a sequencer. Examples are [Gate.Check] and
// coordinator.Client.Check.
type Checker func(ctx context.Context, s Sequencer) error

// Gate protects a resource in the memory of this process: it admits a token
// unless a greater one was shown before. It forgets tokens when the process
// ends. It is safe for concurrent use.
type Gate struct {
	busy   chan struct{} // a mutex whose Lock takes a context, locked by sending; guards the rest
	scope  Scope
	latest atomic.Int64
}

// NewGate returns a gate for the sequencers of a scope. The first sequencer
// shown sets empty fields, such as a service that the process does not know.
func NewGate(scope Scope) *Gate { return &Gate{busy: make(chan struct{}, 1), scope: scope} }

// Check admits the sequencer, or returns a *StaleError, a *ForeignError, or
// driver.ErrInvalid for a malformed one. It waits for running calls of Do, or
// until ctx ends. An access after Check may run beside the next holder's; Do
// prevents that.
func (g *Gate) Check(ctx context.Context, s Sequencer) error {
	return g.Do(ctx, s, func() error { return nil })
}

// Do runs access if Check admits the sequencer, and returns the error of
// either. No other Check or Do runs meanwhile.
func (g *Gate) Do(ctx context.Context, s Sequencer, access func() error) error {
	select {
	case g.busy <- struct{}{}:
		defer func() { <-g.busy }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := g.admit(s); err != nil {
		return err
	}
	return access()
}

// Latest returns the greatest token admitted so far, or zero.
func (g *Gate) Latest() driver.Token { return driver.Token(g.latest.Load()) }

func (g *Gate) admit(s Sequencer) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := s.In(g.scope); err != nil {
		return err
	}
	if latest := g.Latest(); s.Token < latest {
		return &StaleError{Shown: s, Latest: latest}
	}
	g.scope = s.Scope
	g.latest.Store(int64(s.Token))
	return nil
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
