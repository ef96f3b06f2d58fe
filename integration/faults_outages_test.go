package integration_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/netns"
)

// Many clients are cut off at random phases of their renewals, for the share of
// the TTL that all of them must survive.
func TestHoldsSurviveOutagesOfMostOfTheTTL(t *testing.T) {
	const ttl, holders = 10 * time.Second, 24
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	network := netns.New(t, 6)
	network.CanFilter()
	for _, nodes := range []int{1, 3} {
		eachOutageSite(t, network, nodes, ttl, func(s *outageSite, r *rand.Rand) {
			for _, kind := range []outageKind{outSilent, outRefused} {
				s.mustSurvive(outage{kind, s.mostOutage(), holders}, r)
			}
		})
	}
}

// The leader of three is killed, or all members are restarted one after the
// other, under load: no hold is lost at the default TTL. make outages ROUNDS=20
// counts the losses of many rounds.
func TestFailoversLoseNoHoldAtTheDefaultTTL(t *testing.T) {
	const ttl, holders = 10 * time.Second, 12
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	rounds := 1
	if wholeMatrix() {
		rounds = 4
	}
	network := netns.New(t, 6)
	eachOutageSite(t, network, 3, ttl, func(s *outageSite, r *rand.Rand) {
		for _, kind := range []outageKind{outKilled, outRolling} {
			for _, o := range s.failOver(kind, holders, rounds, r) {
				say := s.t.Errorf
				if o.lasts > s.mostOutage()*2/3 {
					say = s.t.Logf // the machine is too slow for a failover to be a short outage
				}
				if !o.all() {
					say("%s, by the time without a leader: %v", s.name, o)
				}
			}
		}
	})
}
