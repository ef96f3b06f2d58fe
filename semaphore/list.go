package semaphore

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// Contender is one who holds or waits for permits.
type Contender struct {
	recipes.Contender
	// Permits is how many it holds or asks for. 0: the entry is none of
	// Baton's, and nobody behind it is admitted.
	Permits int
}

// Listing is a semaphore as the service showed it.
type Listing struct {
	// Limit is what is stored; 0 if nothing is.
	Limit int
	// Held is how many permits are held. It can be above Limit after that was
	// lowered. A hold that was granted less than a quarter of a second before
	// can look like one who waits then.
	Held int
	// Contenders are the holders and the waiters, in order.
	Contenders []Contender
}

// Free is how many permits the first who waits could have, or who came next if
// nobody waits: 0 if more are held than the limit is, or if an entry that is
// none of Baton's is ahead.
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

// List returns the limit, the holders and the waiters. The limit is read first,
// the rest at one moment after it.
func (s *Semaphore) List(ctx context.Context) (Listing, error) {
	if s.turns != nil {
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

// holds is the rule that says of a mode whether it is holding.
func holds(limit int, mode string) recipes.Rule {
	c, ok := parseMode(mode)
	if ok && !c.held {
		return permits(limit, c.version, c.n)
	}
	return func([]driver.Place) recipes.Verdict { return recipes.Verdict{Admitted: c.held} }
}
