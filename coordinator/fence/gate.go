package fence

import (
	"context"
	"sync/atomic"

	"github.com/baton-go/baton/coordinator/driver"
)

// Checker judges a sequencer that was shown: nil admits it. [Gate.Check] is
// one, which knows what was shown before, and coordinator.Client.Check is
// another, which asks the service.
type Checker func(ctx context.Context, s Sequencer) error

// Gate protects a resource that lives in this process: it admits a token unless
// a greater one was here before. It forgets with the process, so what it
// protects must end with the process, too. It is safe for concurrent use.
type Gate struct {
	busy   chan struct{} // held, by sending to it, by who is inside; guards the rest
	scope  Scope
	latest atomic.Int64
}

// NewGate returns a gate for the sequencers of a scope. Fields that are empty
// are learned from the first one that is shown: a process that cannot know the
// identity of the service gives kind and name.
func NewGate(scope Scope) *Gate { return &Gate{busy: make(chan struct{}, 1), scope: scope} }

// Check admits the sequencer, or returns a *StaleError, a *ForeignError, or
// driver.ErrInvalid for one that is none. It waits for those who are inside,
// and returns context.Cause(ctx) when ctx ends before.
//
// What the caller does afterwards may be overtaken by the next holder: it must
// be harmless then, or done inside, by Do.
func (g *Gate) Check(ctx context.Context, s Sequencer) error {
	return g.Do(ctx, s, func() error { return nil })
}

// Do runs access if Check admits the sequencer. Nobody else is inside the gate
// meanwhile, so nothing can come between the check and the access. It returns
// the error of Check or of access.
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
func With(ctx context.Context, s Sequencer) context.Context { return context.WithValue(ctx, key{}, s) }

// From returns the sequencer that With has put into ctx.
func From(ctx context.Context) (s Sequencer, ok bool) {
	s, ok = ctx.Value(key{}).(Sequencer)
	return s, ok
}

type key struct{}
