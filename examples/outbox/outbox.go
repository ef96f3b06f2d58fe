// Package outbox is a service of several replicas, one of which sends what is
// in the outbox. It is here for its tests: how to test a service of one's own
// with package memory, in virtual time. See docs/testing.md.
//
//	go test -v ./examples/outbox
package outbox

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
)

// Sender is one replica.
type Sender struct {
	// Client is given and not opened here: a test gives one that it can hurt.
	Client *coordinator.Client
	// Every is the time between two looks at the outbox.
	Every time.Duration
	// Send sends what is due. It refuses a token that is smaller than one it has seen.
	Send func(ctx context.Context, token coordinator.Token) error
}

// Run stands for the lead, sends while it leads, and stands again when the lead
// was lost, until ctx ends or Send fails.
func (s *Sender) Run(ctx context.Context) error {
	e, err := election.New(s.Client, "outbox")
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, t *election.Term) error {
		tick := time.NewTicker(s.Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if err := s.Send(ctx, t.Token()); err != nil {
					return err
				}
			}
		}
	})
}
