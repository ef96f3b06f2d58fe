package simulation

import (
	"fmt"
	"maps"
	"slices"
)

// This file lists the states that the worlds of a run must reach: a judge that
// never saw them has shown nothing.

// enoughSeeds is from how many seeds on a run must reach all states.
const enoughSeeds = 500

// enoughForRequests is the same for each fault of each kind of request: some
// kinds are rare, and worlds with servers are not quite the same in each run.
const enoughForRequests = 5000

// The states of all services. A number is how often, at least, 1000 worlds
// reach a state that the judge needs often.
var states = map[string]int{
	granted:            9000,
	grantedAfterWait:   9000,
	grantedEarly:       4000,
	reentered:          1500,
	lost:               800,
	lostByClock:        250,
	sentRemoval:        20000,
	handedOver:         6000,
	handedToFollower:   5000,
	leftWithoutHandoff: 4000,
	followedTooLate:    200,
	followerGone:       400,

	grantedWhenGone:         1,
	grantedAfterExpiry:      1,
	grantedAcrossStop:       1,
	grantedAcrossCut:        1,
	handedWhileCut:          1,
	handedToCutClient:       1,
	heldAcrossCut:           1,
	lostBeforeService:       1,
	reenteredDuringLoss:     1,
	convertedWhileWaiting:   1,
	convertedDuringExpiry:   1,
	writerBecameReader:      1,
	releasedInPart:          1,
	releasedTwice:           1,
	removedTwice:            1,
	joinedTooLate:           1,
	limitLoweredBelowHeld:   1,
	limitRaisedForWaiters:   1,
	closedWithHolds:         1,
	crashedWithHolds:        1,
	foreignEntryLeft:        1,
	observerShownNobody:     1,
	observerShownAfterLoss:  1,
	observerConfirmed:       10,
	queuedBesideOwnOldEntry: 1,
	passedLocally:           100,
	sharedRead:              200,
	sharedBeforeOwnWriter:   1,
	grantedAfterDelay:       20,
	idleTurnLost:            1,
	heldTooLong:             50,
	ledAfterFailure:         1,
	transferred:             10,
	stalled:                 1,
}

const (
	granted            = "grant"
	grantedAfterWait   = "grant after a wait"
	grantedEarly       = "grant during the faults"
	reentered          = "re-entry"
	lost               = "hold lost"
	lostByClock        = "hold that the service's clock ended while others were queued"
	sentRemoval        = "removal or conversion of a hold sent"
	handedOver         = "release with a handoff"
	handedToFollower   = "handoff to a follower"
	leftWithoutHandoff = "departure that a follower saw without a handoff"
	followedTooLate    = "follow of a place that had left"
	followerGone       = "follower that was gone itself"

	grantedWhenGone         = "grant of an entry that was gone"
	grantedAfterExpiry      = "grant after natural expiry"
	grantedAcrossStop       = "grant after a wait across a stop of the service"
	grantedAcrossCut        = "grant after a wait across a cut"
	handedWhileCut          = "handoff while a link is cut"
	handedToCutClient       = "handoff to a client that is cut off"
	heldAcrossCut           = "hold that survived a cut"
	lostBeforeService       = "hold that its client ended before the service did"
	reenteredDuringLoss     = "re-entry during loss"
	convertedWhileWaiting   = "conversion while others wait"
	convertedDuringExpiry   = "conversion during expiry"
	writerBecameReader      = "writer that became a reader"
	releasedInPart          = "permits released in part"
	releasedTwice           = "release with its reply lost"
	removedTwice            = "second Forget in one outage"
	joinedTooLate           = "join applied after its call had ended"
	limitLoweredBelowHeld   = "limit lowered below the permits that are held"
	limitRaisedForWaiters   = "limit raised while others wait"
	closedWithHolds         = "close of a client that holds"
	crashedWithHolds        = "crash of a client that holds"
	foreignEntryLeft        = "foreign entry that left ahead of contenders"
	observerShownNobody     = "observer that is shown an empty queue"
	observerConfirmed       = "observer that is shown a confirmed state after a silence"
	observerShownAfterLoss  = "observer that outlives its session"
	passedLocally           = "turn that was kept and served another caller"
	sharedRead              = "read lock that shares the entry of another reader"
	sharedBeforeOwnWriter   = "reader of a shared entry that came before a writer of its client"
	grantedAfterDelay       = "grant after a lock-delay"
	idleTurnLost            = "idle turn that was lost, with a lock-delay"
	heldTooLong             = "hold that lasted too long"
	stalled                 = "term that ended for want of progress"
	transferred             = "transfer to a candidate that was not the next"
	ledAfterFailure         = "term after an error of the work"
	queuedBesideOwnOldEntry = "contender behind an entry of its client's earlier session"
)

// met names the state in which a request met a fault.
func met(op, fault string) string { return op + " met: " + fault }

// missing are the states of a kind of service that a run should have reached,
// and has not, or not often enough.
func (sum *totals) missing(kind Kind) (all []string) {
	want := maps.Clone(states)
	for _, state := range kind.States {
		want[state] = 1
	}
	if sum.seeds >= enoughForRequests {
		for _, op := range kind.Ops {
			for _, fault := range requestFaults {
				want[met(op, fault)] = 1
			}
		}
	}
	for _, state := range slices.Sorted(maps.Keys(want)) {
		if n, least := sum.states[state], want[state]; n == 0 || n < least*int(sum.seeds)/1000 {
			all = append(all, fmt.Sprintf("%s: %d times, want at least %d in 1000 seeds", state, n, least))
		}
	}
	return all
}
