package recipes

import (
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

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

// Terms are what all contenders of a queue must agree on, for instance the
// limit of a semaphore. They are stored in the queue's record. A join compares
// the record's version in the same step, so every contender is queued with the
// terms that are stored at that moment.
type Terms struct {
	// Initial is written if the queue has no record. If Initial is empty, that
	// is the error None.
	Initial []byte
	None    error // nil: ErrNoRecord
	// Rule returns the rule for a record, or an error if the contender does not
	// accept it. joined: the contender is queued, and the record has changed.
	Rule func(record driver.Record, joined bool) (Rule, error)
	// Mode returns the mode of a contender that joins with a version of the
	// record. nil: the mode of the request.
	Mode func(driver.Version) string
	// Held is the mode to which an admitted contender is converted if another
	// contender is behind it, or after engine.SettleAfter. Empty: none.
	Held string
	// Counts reports whether an entry of a mode behind a contender counts for
	// it after its record has changed. The rule gets the places of such entries
	// in front of those ahead. nil: none counts.
	Counts func(mode string) bool
}

// ErrNoRecord means that the queue has no record.
var ErrNoRecord = errors.New("nothing is stored at the name")
