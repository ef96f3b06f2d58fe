package fence

import (
	"context"
	"fmt"
	"maps"

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

	lane   lane[map[string]Sequencer] // by their services
	scope  Scope                      // want, with the fields of the first that was shown
	latest map[string]driver.Token    // the greatest shown of each service
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
	g := &QuorumGate{want: scope, services: services}
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
	return g.lane.do(ctx, all, g.raise, access)
}

// raise stores the greatest tokens, and ends the accesses of earlier holders.
// The caller holds g.lane.mu.
func (g *QuorumGate) raise(all map[string]Sequencer) error {
	if err := g.compare(all); err != nil {
		return err
	}
	g.lane.end(func(earlier map[string]Sequencer) error {
		for service, s := range all {
			if e, shared := earlier[service]; shared && e.Token < s.Token {
				return &StaleError{Shown: e, Latest: s.Token}
			}
		}
		return nil
	})
	for service, s := range all {
		g.scope.Kind, g.scope.Name, g.latest[service] = s.Kind, s.Name, s.Token
	}
	return nil
}

// compare returns the reason to refuse the sequencers, or nil. The caller holds
// g.lane.mu.
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

// Latest returns the greatest token shown so far of a service, or zero.
func (g *QuorumGate) Latest(service string) driver.Token {
	g.lane.mu.Lock()
	defer g.lane.mu.Unlock()
	return g.latest[service]
}

// Reset forgets the tokens and the services. It is for the operator who has
// replaced a service, or restored one with smaller tokens: it also admits late
// requests of earlier holders again. It ends the contexts of the accesses that
// run or wait, with a cause that is no refusal, and does not wait for them.
func (g *QuorumGate) Reset() {
	g.lane.mu.Lock()
	defer g.lane.mu.Unlock()
	g.scope, g.latest = g.want, make(map[string]driver.Token)
	g.lane.reset()
}
