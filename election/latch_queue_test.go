package election_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// This file and latch_test.go have a test for each known bug of Curator's LeaderLatch that an election can have and
// that no other file covers. The numbers are the queues of the list in docs/curator-behaviours.md.

// FIELD 61: however often it loses its term, one Run has one entry at most.
func TestRunIsQueuedOnce(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		// An operator's hand is not announced: for a moment of no length two may think that they lead, so no stage.
		ra, rb := a.run(idle), b.run(idle)
		for i := range 20 {
			a.svc.Expire(a.session().ID())
			if i%3 == 0 {
				a.svc.Expire(a.session().ID()) // the next one too
			}
			for range 50 {
				sleep(100 * time.Millisecond)
				entries := a.svc.Snapshot(queue)
				if len(entries) > 2 || len(entries) == 2 && entries[0].Session == entries[1].Session {
					t.Fatalf("in the queue: %v", entries)
				}
			}
		}
		ra.stop(nil)
		rb.stop(nil)
		_, _ = ra.ended(), rb.ended()
	})
}

// FIELD 63: whoever starts before the service does is elected when it is there, and can be closed before.
func TestCandidateMayStartBeforeTheService(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		a.svc.Stop()
		c, d := a.stand(t.Context()), b.stand(t.Context())
		time.Sleep(10 * time.Minute)
		if err := b.client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if <-d.done; !errors.Is(d.err, coordinator.ErrClosed) {
			t.Errorf("closed: %v", d.err)
		}
		c.pending(t)
		a.svc.Start()
		a.resign(c.won(t))
	})
}
