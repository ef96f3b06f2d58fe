package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/election"
)

// This file goes on with the known bugs of Curator's LeaderLatch.

// FIELD 71: nobody was ever here, or somebody goes while others look: no errors.
func TestListingToleratesComingAndGoing(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		unused, err := election.New(p[0].client, "nobody/was/here")
		if err != nil {
			t.Fatal(err)
		}
		if list, err := unused.Candidates(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
		if _, err := unused.Leader(t.Context()); !errors.Is(err, election.ErrNoLeader) {
			t.Error(err)
		}
		p[2].link.Delay(time.Millisecond, time.Millisecond)
		stepping := func(ctx context.Context, _ *election.Term) error {
			select {
			case <-time.After(3 * time.Millisecond):
			case <-ctx.Done():
			}
			return election.ErrStepDown
		}
		ra, rb := p[0].run(stepping), p[1].run(stepping)
		for range 1000 {
			if _, err := p[2].e.Candidates(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := p[2].e.Leader(t.Context()); err != nil && !errors.Is(err, election.ErrNoLeader) {
				t.Error(err)
			}
		}
		ra.stop(nil)
		rb.stop(nil)
		_, _ = ra.ended(), rb.ended()
	})
}
