package recipes

import "github.com/baton-go/baton/coordinator/driver"

// Verdict is what a rule says of one contender in one view of its queue.
type Verdict struct {
	// Admitted: the contender holds.
	Admitted bool
	// Watch are the places one of whose leaving may change the verdict. It is
	// empty if Admitted, or if only another record can change it.
	Watch []driver.Place
	// Record: a change of the queue's record may change it too.
	Record bool
	// Next: the verdict follows from the place in Watch alone, whatever is
	// ahead of it. When that entry leaves as the first in the queue, the
	// contender is admitted.
	Next bool
}

// Rule decides, from the places ahead in the queue, first in the queue first,
// whether a contender holds, and if not, whom it waits for. Rules are pure.
//
// A rule must stay true when places ahead disappear, or are converted to a mode
// that excludes less: once admitted in some view, a contender must be admitted
// in every later one. Nothing else happens to places ahead. So a view that is
// older than the present, but not older than the contender's own entry, may
// show an entry that is gone, and never lacks one that is there: it errs only
// on the side of waiting, and reading without a quorum is safe.
type Rule func(ahead []driver.Place) Verdict

// Exclusive admits the first in the queue and has everyone else wait for the
// one directly ahead: mutex, write lock, election.
func Exclusive(ahead []driver.Place) Verdict {
	if len(ahead) == 0 {
		return Verdict{Admitted: true}
	}
	return Verdict{Watch: ahead[len(ahead)-1:], Next: true}
}

// Shared admits a contender with no exclusive one ahead, and has it wait for
// the nearest exclusive one else: read lock. All modes but shared are
// exclusive, foreign entries included.
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
