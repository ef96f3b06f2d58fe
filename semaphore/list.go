package semaphore

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// Contender is a holder of permits, or a waiter.
type Contender struct {
	recipes.Contender
	// Permits is how many it holds or asks for. It is 0 for a foreign entry in
	// Baton's own layout; contenders behind it wait for it.
	Permits int
}

// Listing is a snapshot of a semaphore.
type Listing struct {
	Limit      int         // 0 if none is stored
	Held       int         // permits; may exceed Limit after SetLimit
	Contenders []Contender // in order
}

// Free returns how many permits nobody holds. If callers wait, only the first
// waiter can get them. Free returns 0 if the Permits of a holder or of the
// first waiter are 0, which means unknown.
func (l Listing) Free() int {
	for _, c := range l.Contenders {
		if c.Permits == 0 {
			return 0
		}
		if !c.Holding {
			break
		}
	}
	return max(0, l.Limit-l.Held)
}

// List returns the limit, and then a snapshot of all contenders.
func (s *Semaphore) List(ctx context.Context) (Listing, error) {
	if s.locks != nil {
		return s.listShared(ctx)
	}
	var l Listing
	var err error
	if l.Limit, err = s.storedLimit(ctx); err != nil {
		return l, recipes.Describe(ctx, "list", s.Name(), err)
	}
	list, err := s.queue.List(ctx, func(mode string) recipes.Rule { return holds(l.Limit, mode) })
	if err != nil {
		return l, err
	}
	for _, c := range list {
		asks, _ := parseMode(c.Mode)
		l.Contenders = append(l.Contenders, Contender{c, asks.n})
		if c.Holding {
			l.Held += asks.n
		}
	}
	return l, nil
}

// holds is the rule that admits a contender of a mode if it holds.
func holds(limit int, mode string) recipes.Rule {
	c, ok := parseMode(mode)
	if ok && !c.held {
		return permits(limit, c.version, c.n)
	}
	return func([]driver.Place) recipes.Verdict { return recipes.Verdict{Admitted: c.held} }
}
