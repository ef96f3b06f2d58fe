package fence

import (
	"context"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
)

// Checker returns nil to admit a sequencer. [Gate.Check] is one, which
// remembers what was shown before; coordinator.Client.Check is another, which
// asks the service.
type Checker func(ctx context.Context, s Sequencer) error

// Gate protects a resource that lives in this process: it admits a token unless
// a greater one was shown before. Its memory ends with the process, so the
// resource must too. It is safe for concurrent use.
type Gate struct {
	busy   chan struct{} // a mutex that can be given up, locked by sending; guards the rest
	scope  Scope
	latest atomic.Int64
}

// NewGate returns a gate for the sequencers of a scope. Empty fields are taken
// from the first sequencer that is shown: a process that does not know the
// identity of the service gives kind and name.
func NewGate(scope Scope) *Gate { return &Gate{busy: make(chan struct{}, 1), scope: scope} }

// Check admits the sequencer, or returns a *StaleError, a *ForeignError, or
// driver.ErrInvalid for a malformed one. It waits until running calls of Do
// have returned, and returns context.Cause(ctx) if ctx ends before.
//
// The next holder may overtake what the caller does afterwards. If that does
// harm, use Do.
func (g *Gate) Check(ctx context.Context, s Sequencer) error {
	return g.Do(ctx, s, func() error { return nil })
}

// Do runs access if Check admits the sequencer. No other Check or Do runs
// meanwhile, so nothing comes between the check and the access. It returns the
// error of Check or of access.
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

// Latest is the greatest token that was admitted, zero before the first.
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

// With returns a context that carries a sequencer, for clients that show it and
// for handlers that were shown it.
func With(ctx context.Context, s Sequencer) context.Context {
	return context.WithValue(ctx, key{}, s)
}

// From returns the sequencer that With has put into ctx.
func From(ctx context.Context) (s Sequencer, ok bool) {
	s, ok = ctx.Value(key{}).(Sequencer)
	return s, ok
}

type key struct{}
