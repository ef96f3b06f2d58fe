package fence

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// QuorumGate is a [Gate] for a lock on a majority of n services: see package
// recipes/multilock/quorum, whose Sequencers a holder shows. It demands those
// of a majority, and refuses them all if one is smaller than the greatest shown
// of its service. Two holders share a service, so it refuses each earlier one,
// whatever services are away, and whatever order a process names them in.
//
// A forged sequencer with a very large token, or of a service that is none of
// the lock's, keeps holders out until Reset: authenticate callers before.
//
// It forgets tokens when the process ends. A resource that outlives the process
// stores the greatest token of each service beside its data, and compares them
// in the same transaction. It is safe for concurrent use.
type QuorumGate struct {
	want     Scope // empty fields match any
	services int
	slot     chan struct{} // has one element while access runs

	mu      sync.Mutex
	scope   Scope                      // want, with the fields of the first that was shown
	latest  map[string]driver.Token    // the greatest shown of each service
	callers map[*quorumCaller]struct{} // whose access waits or runs
}

// quorumCaller is one call of Do.
type quorumCaller struct {
	shown map[string]Sequencer    // by their services
	end   context.CancelCauseFunc // ends the context of its access
}

// NewQuorumGate returns a gate for the kind and name of a scope on so many
// services. The first sequencers shown set empty fields. The first so many
// services shown are the gate's. Fewer than one are driver.ErrInvalid, and so
// is a scope with a service.
func NewQuorumGate(scope Scope, services int) (*QuorumGate, error) {
	if services < 1 || scope.Service != "" {
		return nil, invalid("a gate of %d services for the service %.80q; want 1 or more, and none",
			services, scope.Service)
	}
	g := &QuorumGate{want: scope, services: services, slot: make(chan struct{}, 1),
		callers: make(map[*quorumCaller]struct{})}
	g.Reset()
	return g, nil
}

// Check admits the sequencers, or returns a *StaleError; a *ForeignError, also
// for a service beyond the gate's number; ErrMissing, for those of fewer than a
// majority; or driver.ErrInvalid for a malformed one, or two of one service. It
// waits for running calls of Do, or until ctx ends.
func (g *QuorumGate) Check(ctx context.Context, shown []Sequencer) error {
	return g.Do(ctx, shown, func(context.Context) error { return nil })
}

// Do runs access if Check admits the sequencers, and returns the error of
// either. No other Check or Do runs meanwhile. The context of access ends with
// ctx, when access returns, or, with a *StaleError as its cause, when a greater
// token is shown: the next holder waits until access returns. So access must
// not call Check or Do.
func (g *QuorumGate) Do(
	ctx context.Context, shown []Sequencer, access func(context.Context) error,
) error {
	all := make(map[string]Sequencer, len(shown))
	for _, s := range shown {
		if err := s.Validate(); err != nil {
			return err
		}
		if _, twice := all[s.Service]; twice {
			return invalid("several sequencers of the service %q", s.Service)
		}
		all[s.Service] = s
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &quorumCaller{all, end}
	// Before the turn: the access of an earlier holder must learn that it is
	// over.
	if err := g.raise(c); err != nil {
		return err
	}
	defer g.finish(c)
	select {
	case g.slot <- struct{}{}:
		defer func() { <-g.slot }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := g.begin(ctx, all); err != nil {
		return err
	}
	return access(ctx)
}

// raise stores the greatest tokens, and ends the accesses of earlier holders.
func (g *QuorumGate) raise(c *quorumCaller) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.compare(c.shown); err != nil {
		return err
	}
	for service, s := range c.shown {
		if s.Token > g.latest[service] {
			for earlier := range g.callers {
				if e, shared := earlier.shown[service]; shared && e.Token < s.Token {
					earlier.end(&StaleError{Shown: e, Latest: s.Token})
				}
			}
		}
		g.scope.Kind, g.scope.Name, g.latest[service] = s.Kind, s.Name, s.Token
	}
	g.callers[c] = struct{}{}
	return nil
}

// compare returns the reason to refuse the sequencers, or nil. The caller holds
// g.mu.
func (g *QuorumGate) compare(all map[string]Sequencer) error {
	services, scope := maps.Clone(g.latest), g.scope
	for service, s := range all {
		if err := s.In(scope); err != nil {
			return err
		}
		if s.Token < g.latest[service] {
			return &StaleError{Shown: s, Latest: g.latest[service]}
		}
		services[service] = s.Token
		if len(services) > g.services {
			return &ForeignError{Shown: s, Want: scope}
		}
		scope.Kind, scope.Name = s.Kind, s.Name // the others have these, too
	}
	if most := g.services/2 + 1; len(all) < most {
		return fmt.Errorf("fence: %w of enough services: %d; want %d of %d",
			ErrMissing, len(all), most, g.services)
	}
	return nil
}

// begin is called with the slot. After a Reset the gate may have others.
func (g *QuorumGate) begin(ctx context.Context, all map[string]Sequencer) error {
	if ctx.Err() != nil { // select chooses at random
		return context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.compare(all)
}

func (g *QuorumGate) finish(c *quorumCaller) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.callers, c)
}

// Latest returns the greatest token shown so far of a service, or zero.
func (g *QuorumGate) Latest(service string) driver.Token {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.latest[service]
}

// Reset forgets the tokens and the services. It is for the operator who has
// replaced a service, or restored one with smaller tokens: it also admits late
// requests of earlier holders again.
func (g *QuorumGate) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scope, g.latest = g.want, make(map[string]driver.Token)
}
