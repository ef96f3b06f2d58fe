package recipes

import "github.com/baton-go/baton/coordinator/driver"

// Verdict is a rule's decision about a contender in a view of its queue.
type Verdict struct {
	// Admitted: the contender holds.
	Admitted bool
	// Watch are the places of which any may change the verdict by leaving. It
	// is empty if Admitted, or if only another record can change the verdict.
	Watch []driver.Place
	// Record: another record of the queue may change the verdict too.
	Record bool
	// Next: the place in Watch alone decides. When its entry leaves as the
	// first in the queue, the contender is admitted.
	Next bool
}

// Rule decides, from the places ahead in order, whether a contender holds, and
// if not, which entries it waits for. Rules are pure.
//
// A rule must be monotonic: a contender that is admitted must stay admitted
// when places ahead disappear or are converted to a mode that excludes less.
// Nothing else happens to places ahead. So a stale view that shows the
// contender's own entry may show an entry that is gone, but shows all that are
// there: the contender may wait too long, but is never admitted too early.
// Reading without a quorum is therefore safe.
type Rule func(ahead []driver.Place) Verdict

// Exclusive admits the first in the queue. The others wait for their
// predecessors: mutex, write lock, election.
func Exclusive(ahead []driver.Place) Verdict {
	if len(ahead) == 0 {
		return Verdict{Admitted: true}
	}
	return Verdict{Watch: ahead[len(ahead)-1:], Next: true}
}

// Shared admits a contender with no exclusive entry ahead; else it waits for
// the nearest one: read lock. All modes but shared are exclusive, also those of
// foreign entries.
func Shared(shared string) Rule {
	return func(ahead []driver.Place) Verdict {
		for i := len(ahead) - 1; i >= 0; i-- {
			if ahead[i].Mode != shared {
				return Verdict{Watch: ahead[i : i+1], Next: true}
			}
		}
		return Verdict{Admitted: true}
	}
}
