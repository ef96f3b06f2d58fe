package integration_test

import (
	"testing"
	"time"
)

// The bound applies to the best of a few runs. Every run must stay within the
// time that an election of the service explains, which restarts the session
// timeouts.
func TestHolderKilledIsSucceededWithinTTLPlusTwoSeconds(t *testing.T) {
	const ttl, runs = 3 * time.Second, 5
	together(t, func(t *testing.T, s site) {
		for i := range runs {
			took := s.succession(t, ttl)
			t.Logf("succeeded %v after the kill", took.Round(time.Millisecond))
			if took <= ttl+2*time.Second {
				return
			}
			if i == runs-1 {
				t.Errorf("not succeeded within the TTL of %v and 2 s in any of %d runs", ttl, runs)
			}
		}
	})
}
